"""A model's conversion for another engine, kept: made once, proved, and found again as long as the model is the same.

It lies in the model's folder, or, where that cannot be written, in the user's cache:

    cache/ctranslate2-int8-KEY/     KEY: of the model's files, and of what converted them
        kept.json                   the SHA-256 of each other file
        pellucid.json, tokenizer.*  the description of the model, as a model folder has it
        model/                      what the engine loads, with the conversion.json of its proof

Neither PyTorch nor the engine is imported to find one.
"""

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pellucid.data.cache import ENVIRONMENT, cache_folder
from pellucid.errors import CheckpointError, ConfigError, install, shown
from pellucid.files.reading import read_settings, sha256_of
from pellucid.files.writing import flush, temporary_folder, write_json
from pellucid.weights.folder import WEIGHTS, description_of, is_foreign

FORMAT = "pellucid-kept/1"
SEAL = "kept.json"
MODEL = "model"
"""The folder in a kept conversion that its engine loads."""
FOLDER = "cache"
"""The folder in a model's folder that holds its conversions."""
FOREIGN = (".json", ".txt", ".model", ".spm", ".bpe", ".safetensors")
"""The endings of the files that a model of Hugging Face's consists of; pickles where none is safetensors."""
TRIES = 3

WITH_TORCH = 'load it with `engine="torch"`, which is the default'


def kept_conversion(folder: Path, engine: str, dtype: str, write: Callable[[Path], None]) -> Path:
    """Returns the kept conversion of a model, made by `write` into the folder that it is given where there is none.

    One that is damaged, or of other weights, is made anew, and those that have been superseded go. Raises ConfigError
    where the engine is not installed, or no conversion can be kept anywhere; and what `write` raises.
    """
    for _ in range(TRIES):
        key = _key(folder, engine, dtype)
        name = f"{engine}-{dtype}-{key}"
        for place in _places(folder):
            if _is_whole(place / name):
                return place / name
        found = _made(folder, key, engine, dtype, write)
        if key == _key(folder, engine, dtype):
            return found
        shutil.rmtree(found, ignore_errors=True)  # a training has written other weights meanwhile
    raise CheckpointError(
        f"the weights in `{folder}` change faster than they can be converted", "try again, or copy the folder first"
    )


def _key(folder: Path, engine: str, dtype: str) -> str:
    """Returns the digest of a model's files, of the type, and of the versions of both programs."""
    try:
        versions = {name: version(name) for name in (engine, "pellucid")}
    except PackageNotFoundError as error:
        raise ConfigError("CTranslate2 is not installed", f"it comes with the extra `ct2`: {install('ct2')}") from error
    files = {path.name: sha256_of(path) for path in _files(folder)}
    table = {"format": FORMAT, "dtype": dtype, "versions": versions, "files": files}
    return sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]


def _files(folder: Path) -> list[Path]:
    """Returns the files that a model consists of: of our own two, which hold the others' digests."""
    if not is_foreign(folder):
        paths = [description_of(folder), folder / WEIGHTS]
    else:
        paths = sorted(path for path in folder.iterdir() if path.suffix in FOREIGN)
        if not any(path.suffix == ".safetensors" for path in paths):
            paths += sorted(folder.glob("pytorch_model*.bin"))
    return [path for path in paths if path.is_file()]


def _places(folder: Path) -> list[Path]:
    """Returns where conversions of a model are looked for and kept: in its folder, else in the user's cache."""
    whole, places = folder.resolve(), [folder / FOLDER]
    with suppress(ConfigError):  # no home directory
        number = sha256(str(whole).encode(errors="surrogateescape")).hexdigest()[:16]
        places.append(cache_folder() / "engines" / f"{whole.name}-{number}")
    return places


def _is_whole(kept: Path) -> bool:
    """Tells whether a kept conversion is there, and each of its files is what was written."""
    try:
        table = read_settings(kept / SEAL)
        there = {path.relative_to(kept).as_posix(): path for path in _regular(kept) if path != kept / SEAL}
        return table == {"format": FORMAT, "files": {name: sha256_of(path) for name, path in there.items()}}
    except (CheckpointError, OSError):
        return False


def _regular(folder: Path) -> list[Path]:
    """Returns the regular files below a folder: a pipe that somebody put there would be waited for without end."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _made(folder: Path, key: str, engine: str, dtype: str, write: Callable[[Path], None]) -> Path:
    """Makes a conversion in the first place that can be written, whole or not at all."""
    name, kind = f"{engine}-{dtype}-{key}", f"{engine}-{dtype}-"
    refusals = []
    for place in _places(folder):
        try:
            place.mkdir(parents=True, exist_ok=True)
            with temporary_folder(place / name) as beside:
                print(
                    f"converting the model for {engine} ({dtype}), once: it is kept in `{shown(place)}`",
                    file=sys.stderr,
                )
                new = beside / "kept"
                new.mkdir()
                write(new)
                digests = {path.relative_to(new).as_posix(): sha256_of(path) for path in _regular(new)}
                write_json(new / SEAL, {"format": FORMAT, "files": digests})
                _put(new, place / name)
            for other in place.glob(f"{kind}*"):
                if other.name != name:
                    shutil.rmtree(other, ignore_errors=True)
            return place / name
        except OSError as error:
            refusals.append(f"`{shown(place)}` ({error.strerror or error})")
    raise ConfigError(
        f"the model is converted once for another engine, and there is no place to keep that: {', '.join(refusals)}",
        f"name a folder that can be written by {ENVIRONMENT}, or {WITH_TORCH}",
    )


def _put(new: Path, place: Path) -> None:
    """Has a whole conversion take its place, unless another process was faster."""
    try:
        new.rename(place)
    except OSError:
        if not place.is_dir():
            raise
        if not _is_whole(place):
            shutil.rmtree(place, ignore_errors=True)
            with suppress(OSError):  # again another one was faster: it is as good
                new.rename(place)
    flush(place.parent)
