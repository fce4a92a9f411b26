"""Starts the compiled engine of a model folder without PyTorch, whose import takes longer than a sentence.

    packed/PLACE.safetensors    PLACE: fingerprint of the folder's path; the packed model, with the fingerprint of the
                                model's files and of the code that packed it

Compiled code reads a packed model without checks of its offsets, so it is read from the user's own cache alone, never
from a model's folder.
"""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.data.download_cache import cache_folder
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.engines.compiled.compiling import compute_digest, find_missing, get_functions
from pellucid.engines.compiled.forced_pass import ForcedPass, is_known, read_pairs
from pellucid.engines.compiled.layout import Model, Sizes, align
from pellucid.engines.compiled.plain_search import PlainSearch, find_longest, is_plain_search, read_sources
from pellucid.engines.conversion_cache import list_model_files
from pellucid.engines.engine import Pair, PyTorchEngine, Weights
from pellucid.errors import ConfigError
from pellucid.files.reading import hash_file
from pellucid.files.writing import atomic_path
from pellucid.process import count_cores
from pellucid.weights.folder import find_description

if TYPE_CHECKING:
    from pellucid.decoding.beam import SearchFunction
    from pellucid.decoding.constraints import Constraints
    from pellucid.engines.compiled.engine import CompiledEngine

KEPT = 8
"""The packed models that are kept: those used last."""
KEY = "key"


class QuickEngine(PyTorchEngine):
    """The engine of a packed model: it opens the PyTorch model for all but plain searches and forced decoding."""

    def __init__(self, config: ModelConfig, packed: Model, open_model: Callable[[], Any]) -> None:
        self._config = config
        self._packed = packed
        self._open = open_model

    @cached_property
    def _compiled(self) -> "CompiledEngine":
        from pellucid.engines.compiled.engine import CompiledEngine

        return CompiledEngine(self._open())

    @property
    def config(self) -> ModelConfig:
        return self._config

    @property
    def _model(self) -> Any:
        return self._compiled.model

    def about(self) -> str:
        return self._compiled.about()

    def get_step_model(self) -> Any:
        return self._compiled.get_step_model()

    def search(
        self,
        sources: list[list[int]],
        config: DecodeConfig,
        by: "SearchFunction | None",
        constraints: "Constraints | None",
    ) -> Iterable[tuple[int, list[Hypothesis]]]:
        is_open = "_compiled" in self.__dict__  # the caller may have changed the model
        if not is_open and is_plain_search(config, by, constraints):
            whole = read_sources(sources, config, self._config)
            if whole is not None and find_longest(whole, config, self._config) <= self._positions:
                return PlainSearch(self._config, self._packed, get_functions(), count_cores()).search(whole, config)
        return self._compiled.search(sources, config, by, constraints)

    def log_probs(self, sources: list[list[int]], targets: list[list[int]], config: DecodeConfig) -> list[list[float]]:
        pairs = read_pairs(sources, targets, config, self._config)
        if (forced := self._forced_pass(pairs)) is None:
            return self._compiled.log_probs(sources, targets, config)
        return forced.log_probs(pairs, len(config.target_prefix))

    def cross_weights(self, pairs: Sequence[Pair], head: tuple[int, int] | None) -> list[Weights] | None:
        if head is None or (forced := self._forced_pass(pairs)) is None:
            return self._compiled.cross_weights(pairs, head)
        return forced.cross_weights(pairs, *head)

    @property
    def _positions(self) -> int:
        """The positions that the packed model can read: its rotations are limited."""
        return len(self._packed.turn) or self._config.max_positions

    def _forced_pass(self, pairs: Sequence[Pair]) -> ForcedPass | None:
        """Returns the compiled pass over pairs; None if the PyTorch model is open, or must read them."""
        if "_compiled" in self.__dict__ or not is_known(pairs, self._positions, self._config):
            return None
        return ForcedPass(self._config, self._packed, get_functions(), count_cores())


def can_start_quickly(device: str, dtype: object) -> bool:
    """Returns True in a process without PyTorch that may translate in float32 on the CPU by compiled code."""
    is_cpu = device == "cpu" or (device == "auto" and not _may_have_gpu())
    return is_cpu and str(dtype) in ("None", "float32") and "torch" not in sys.modules and bool(find_spec("numba"))


def _may_have_gpu() -> bool:
    """Returns True if `auto` may be a GPU, as far as that can be known without PyTorch."""
    with suppress(PackageNotFoundError):
        if version("torch").endswith("+cpu"):
            return False
    return sys.platform != "linux" or any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")))


def make_key(folder: Path) -> str:
    """Returns the fingerprint of a model's files and of the code that packs it; empty if it cannot be packed here."""
    if find_missing() or _place(folder) is None:
        return ""
    files = [(path.name, hash_file(path)) for path in list_model_files(folder)]
    packing = hash_file(Path(__file__).with_name("weights.py"))
    return sha256(repr((files, packing, compute_digest())).encode()).hexdigest()


def load_packed(folder: Path, key: str) -> Model | None:
    """Returns the packed model of a Pellucid folder from the cache; None if it is not there, or has another key."""
    from safetensors import SafetensorError, safe_open

    if not key or (path := _place(folder)) is None or not path.is_file():
        return None
    try:
        with safe_open(path, "numpy") as file:
            if (file.metadata() or {}).get(KEY) != key:
                return None
            arrays = {name: file.get_tensor(name) for name in Model._fields}
        os.utime(path)
    except (OSError, SafetensorError):  # damaged, or another process replaces it
        return None
    sizes = Sizes(*map(int, arrays.pop("sizes")))
    return Model(sizes, **arrays | {"weights": align(arrays["weights"])})


def keep_packed(folder: Path, key: str, engine: PyTorchEngine) -> None:
    """Packs the model of a folder, as it was just opened, into the cache.

    Keeps nothing without a writable cache, and if the files have changed since `key` was made.
    """
    from safetensors.numpy import save_file

    from pellucid.engines.compiled.engine import CompiledEngine

    path, packed = _place(folder), engine.pack_for_start() if isinstance(engine, CompiledEngine) else None
    if path is None or packed is None or make_key(folder) != key:
        return
    arrays = packed._asdict() | {"sizes": np.array(packed.sizes, np.int64)}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, temporary, {KEY: key})
        others = sorted(path.parent.glob("*.safetensors"), key=lambda other: other.stat().st_mtime, reverse=True)
        for other in others[KEPT:]:
            other.unlink(missing_ok=True)


def _place(folder: Path) -> Path | None:
    """Returns the file for the packed model of a folder; None for other libraries' folders and without a cache."""
    with suppress(ConfigError):
        if find_description(folder).is_file():
            name = sha256(str(folder.resolve()).encode(errors="surrogateescape")).hexdigest()[:24]
            return cache_folder() / "packed" / f"{name}.safetensors"
    return None
