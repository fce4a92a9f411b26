"""The compiled functions of this process: compiled once per machine, and loaded from the user's cache afterwards.

    compiled/DIGEST/            DIGEST: sources, numba, llvmlite, Python, processor and tile
        whole                   written after the last function
        ...                     numba's files

numba's own cache notices neither changed imports nor changed constants, so a folder holds the functions of one state
of all sources. Its files are pickles: they are loaded from the user's own cache alone, never from a model's folder.
"""

import platform
import threading
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.data.download_cache import ENVIRONMENT, cache_folder
from pellucid.errors import ConfigError, format_install_command, format_value
from pellucid.files.lock import lock_or_wait
from pellucid.files.reading import hash_file
from pellucid.terminal import log_line

EXTRA = "fast"
WHOLE = "whole"
SOURCES = "compiling.py", "layers.py", "layout.py", "passes.py", "search.py", "vectors.py"
"""The modules that the compiled code depends on."""
KEPT = 4
"""The digests whose folders are kept: of other environments on this machine, or of earlier versions."""
DURATION = "about half a minute"

_lock = threading.Lock()
_functions: "Functions | None" = None


class Functions(NamedTuple):
    """The functions that Python calls, and the vectors and tiles that they are compiled for."""

    encode: Callable[..., Any]
    decode: Callable[..., Any]
    project: Callable[..., Any]
    score: Callable[..., Any]
    search: Callable[..., Any]
    lanes: int
    tile: int


def find_missing() -> str:
    """Returns the reason why nothing can be compiled here; empty if it can. Imports numba."""
    if find_spec("numba") is None or find_spec("llvmlite") is None:
        return f"numba is not installed (the extra `{EXTRA}`)"
    try:
        from pellucid.engines.compiled.vectors import LANES
    except (ImportError, OSError, RuntimeError) as error:  # numba does not support this Python, NumPy or system
        return f"numba cannot be imported: {format_value(str(error))}"
    return "" if LANES else "this processor has no fused multiply-adds of vectors"


def get_functions() -> Functions:
    """Returns the compiled functions; the first call on a machine compiles them, and says so.

    Without a folder for the cache they are compiled in memory, for this process alone. Raises ConfigError if numba is
    missing or does not support the machine.
    """
    global _functions
    with _lock:
        if _functions is None:
            if missing := find_missing():
                raise ConfigError(
                    f"the compiled engine cannot be used: {missing}",
                    f"it comes with the extra `{EXTRA}`: {format_install_command(EXTRA)}"
                    if "installed" in missing
                    else 'use `engine="torch"`',
                )
            _functions = _load_or_compile()
        return _functions


def has_compiled_before() -> bool:
    """Returns True if the functions are in memory or whole in the cache, so that `get_functions` is quick."""
    folder = None if _functions is not None else _cache()
    return _functions is not None or (folder is not None and (folder / WHOLE).is_file())


def compute_digest() -> str:
    """Returns the fingerprint of all that the compiled code depends on. Imports numba."""
    import llvmlite
    import numba
    from llvmlite import binding

    from pellucid.engines.compiled.vectors import LANES, TILE

    here = Path(__file__).parent
    # numba compares the time of a source, too: after an installation anew it would compile without a message.
    sources = [(name, (here / name).stat().st_mtime_ns, hash_file(here / name)) for name in SOURCES]
    processor = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), binding.get_process_triple()
    chosen = numba.config.CPU_NAME, numba.config.CPU_FEATURES
    versions = numba.__version__, llvmlite.__version__, platform.python_version(), platform.python_implementation()
    return sha256(repr((sources, processor, chosen, versions, LANES, TILE)).encode()).hexdigest()[:24]


def _cache() -> Path | None:
    """Returns the folder for this machine's functions; None without a home directory."""
    with suppress(ConfigError):
        return cache_folder() / "compiled" / compute_digest()
    return None


def _load_or_compile() -> Functions:
    folder, reason = _cache(), "there is no home directory"
    if folder is not None:
        if (folder / WHOLE).is_file():
            return _compile(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with lock_or_wait(folder / "lock", _say_that_another_compiles):
                return _compile_once(folder)
        except OSError as error:
            reason = f"`{format_value(folder)}` cannot be written: {error.strerror or error}"
    log_line(f"compiling the search for this process alone, {DURATION}: {reason}; {ENVIRONMENT} names another folder")
    return _compile(None)


def _say_that_another_compiles() -> None:
    log_line("another process compiles the search: waiting for it")


def _compile_once(folder: Path) -> Functions:
    """Compiles into a folder whose lock is held, unless another process has done so meanwhile."""
    if not (folder / WHOLE).is_file():
        log_line(f"compiling the search for this processor, once: {DURATION}; it is kept in `{format_value(folder)}`")
    found = _compile(folder)
    (folder / WHOLE).touch()
    _remove_oldest(folder)
    return found


def _remove_oldest(folder: Path) -> None:
    """Removes the folders of other digests, except the newest."""
    import shutil

    others = [path for path in folder.parent.iterdir() if path.is_dir() and path != folder and not path.is_symlink()]
    for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def _compile(folder: Path | None) -> Functions:
    """Compiles the functions, or loads them from the cache in `folder`; None: in memory."""
    import numba
    from numba import types

    from pellucid.engines.compiled import layout, passes, search, vectors

    f1, f2, f5 = (types.Array(types.float32, dimensions, "C") for dimensions in (1, 2, 5))
    i1, i2, i3 = (types.Array(types.int64, dimensions, "C") for dimensions in (1, 2, 3))
    d2 = types.Array(types.float64, 2, "C")
    i, d = types.int64, types.float64
    sizes = types.NamedUniTuple(i, len(layout.Sizes._fields), layout.Sizes)
    model = types.NamedTuple((sizes, f1, i2, i1, f2, f2, f2, f2, f2, f2, f2), layout.Model)
    signatures = (
        (passes.encode, f2(model, i1, i1)),
        (passes.decode, types.void(model, i1, i1, i1, i1, i, i3, f5, f2, i1, f1, i, i, f2)),
        (passes.project, types.void(model, f1, i, i, f1, i)),
        (passes.score, types.boolean(model, f1, i, i1, f1)),
        (search.search, types.boolean(model, i1, i1, i1, i1, i1, i, i, d, i3, i2, d2, d2, i1)),
    )
    before = numba.config.CACHE_DIR
    try:
        if folder is not None:
            numba.config.CACHE_DIR = str(folder)
            for function, _ in signatures:
                function.enable_caching()
        for function, signature in signatures:
            function.compile(signature)
            function.disable_compile()
    finally:
        numba.config.CACHE_DIR = before
    encode, decode, project, score, run = (function for function, _ in signatures)
    return Functions(encode, decode, project, score, run, vectors.LANES, vectors.TILE)
