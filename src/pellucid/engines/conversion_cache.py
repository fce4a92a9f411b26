"""The cache of models converted for another engine: converted and verified once, and reused until the model changes.

A conversion is stored in the model's folder, or, if the folder is not writable, in the user's cache:

    cache/ctranslate2-int8-KEY/     KEY: fingerprint of the model's files and of the converter
        kept.json                   the SHA-256 of each other file
        pellucid.json, tokenizer.*  the description of the model, as in a model folder
        model/                      the engine's files, with the verification report, conversion.json

Finding a conversion imports neither PyTorch nor the engine.
"""

import json
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pellucid.data.download_cache import ENVIRONMENT, cache_folder
from pellucid.errors import CheckpointError, ConfigError, format_install_command, format_value
from pellucid.files.reading import TABLE, hash_file
from pellucid.files.records import RecordFormat
from pellucid.files.writing import replace_folder, temporary_folder
from pellucid.terminal import log_line
from pellucid.weights.folder import WEIGHTS, find_description, is_hugging_face_folder

FORMAT = RecordFormat("pellucid-kept/1", {"files": TABLE})
SEAL = "kept.json"
MODEL = "model"
"""The folder in a cached conversion that its engine loads."""
FOLDER = "cache"
"""The folder in a model's folder that holds its conversions."""
FOREIGN = (".json", ".txt", ".model", ".spm", ".bpe", ".safetensors")
"""The file extensions of a Hugging Face model; without safetensors its pickles count, too."""
TRIES = 3

WITH_TORCH = 'load it with `engine="torch"`'


def get_cached_conversion(folder: Path, engine: str, dtype: str, write: Callable[[Path], None]) -> Path:
    """Returns the folder of a model's cached conversion; if there is none, `write` creates it in the folder passed.

    Replaces a damaged or outdated conversion and deletes superseded ones. Raises ConfigError if the engine is not
    installed or no cache folder is writable, and the errors of `write`.
    """
    for _ in range(TRIES):
        key = _key(folder, engine, dtype)
        name = f"{engine}-{dtype}-{key}"
        for place in _places(folder):
            if _is_whole(place / name):
                return place / name
        found = _make_conversion(folder, key, engine, dtype, write)
        if key == _key(folder, engine, dtype):
            return found
        shutil.rmtree(found, ignore_errors=True)  # a training run has replaced the weights meanwhile
    raise CheckpointError(
        f"the weights in `{folder}` change faster than they can be converted", "try again, or copy the folder first"
    )


def _key(folder: Path, engine: str, dtype: str) -> str:
    """Returns the fingerprint of a model's files, the dtype, and the versions of Pellucid and the engine."""
    try:
        versions = {name: version(name) for name in (engine, "pellucid")}
    except PackageNotFoundError as error:
        raise ConfigError(
            "CTranslate2 is not installed", f"install the extra `ct2`: {format_install_command('ct2')}"
        ) from error
    files = {path.name: hash_file(path) for path in list_model_files(folder)}
    table = {"format": FORMAT.name, "dtype": dtype, "versions": versions, "files": files}
    return sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]


def list_model_files(folder: Path) -> list[Path]:
    """Returns the files that determine a model; a Pellucid model's two files hold the digests of its others."""
    if not is_hugging_face_folder(folder):
        paths = [find_description(folder), folder / WEIGHTS]
    else:
        paths = sorted(path for path in folder.iterdir() if path.suffix in FOREIGN)
        if not any(path.suffix == ".safetensors" for path in paths):
            paths += sorted(folder.glob("pytorch_model*.bin"))
    return [path for path in paths if path.is_file()]


def _places(folder: Path) -> list[Path]:
    """Returns the folders for conversions of a model: one in its folder, then one in the user's cache.

    Skips a cache folder that is a symbolic link: in an untrusted model folder it could redirect writes elsewhere.
    """
    whole, places = folder.resolve(), list[Path]()
    if not (folder / FOLDER).is_symlink():
        places.append(folder / FOLDER)
    with suppress(ConfigError):  # no home directory
        number = sha256(str(whole).encode(errors="surrogateescape")).hexdigest()[:16]
        places.append(cache_folder() / "engines" / f"{whole.name}-{number}")
    return places


def _is_whole(kept: Path) -> bool:
    """Returns True if a cached conversion exists and all its files are unchanged."""
    if kept.is_symlink():
        return False
    try:
        seal = FORMAT.read(kept / SEAL)
        return seal is not None and seal["files"] == _digests(kept)
    except (CheckpointError, OSError):
        return False


def _digests(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file below a folder except its seal, by its relative path.

    Raises CheckpointError for an entry that is neither a regular file nor a folder. The engine opens files by name: a
    pipe would block it forever, and a link could make it read files elsewhere.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            found[path.relative_to(folder).as_posix()] = hash_file(path)
        elif not stat.S_ISDIR(mode):
            raise CheckpointError(f"`{format_value(path)}` is neither a file nor a folder", "remove it")
    found.pop(SEAL, None)
    return found


def _is_ours(kept: Path) -> bool:
    """Returns True if a folder has the seal of a cached conversion, intact or damaged."""
    return not kept.is_symlink() and FORMAT.read(kept / SEAL) is not None


def _make_conversion(folder: Path, key: str, engine: str, dtype: str, write: Callable[[Path], None]) -> Path:
    """Writes a conversion atomically to the first writable cache folder."""
    name, kind = f"{engine}-{dtype}-{key}", f"{engine}-{dtype}-"
    refusals = []
    for place in _places(folder):
        try:
            place.mkdir(parents=True, exist_ok=True)
            with temporary_folder(place / name) as temporary:
                log_line(
                    f"converting the model for {engine} ({dtype}); the conversion is cached in `{format_value(place)}`"
                )
                new = temporary / "kept"
                new.mkdir()
                write(new)
                FORMAT.write(new / SEAL, files=_digests(new))
                replace_folder(new, place / name, keep=_is_whole)
            for other in place.glob(f"{kind}*"):
                if other.name != name and _is_ours(other):
                    shutil.rmtree(other, ignore_errors=True)
            return place / name
        except OSError as error:
            refusals.append(f"`{format_value(place)}` ({error.strerror or error})")
    raise ConfigError(
        f"no folder to cache the conversion of the model in: {', '.join(refusals)}",
        f"set {ENVIRONMENT} to a writable folder, or {WITH_TORCH}",
    )
