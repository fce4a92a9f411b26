"""Engines: the part of a Translator that searches, samples and scores ids.

`engine` has the interface and the PyTorch engine, `compiled` the engine that numba compiles, `ensemble` the engine of
several PyTorch models, `ctranslate2` that of CTranslate2; `conversion_cache` caches converted models. This file imports
neither PyTorch nor CTranslate2.
"""

from collections.abc import Callable
from typing import Literal, get_args

EngineName = Literal["torch", "auto", "compiled", "ctranslate2"]
"""auto: compiled if numba is installed and the model is known to it, else torch."""
ENGINES: tuple[str, ...] = get_args(EngineName)

converters: dict[EngineName, Callable[..., None]] = {}
"""The function of each engine that converts a model folder into the engine's files, with the arguments of
`convert_for_ctranslate2`. It verifies the files by translations, so its module imports `tasks`, and the package's
`__init__.py` registers it here."""
