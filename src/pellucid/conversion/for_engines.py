"""The files that an engine loads, written from a model folder and verified: engines/conversion_cache.py keeps them."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch

from pellucid.conversion.proof import verify_conversion
from pellucid.engines.conversion_cache import MODEL, WITH_TORCH
from pellucid.errors import CheckpointError, ConfigError
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.weights.export.ctranslate2 import to_ctranslate2
from pellucid.weights.opening import open_folder


def convert_for_ctranslate2(folder: Path, dtype: str, tokenizer: GivenTokenizers | None, place: Path) -> None:
    """Writes a model for CTranslate2, the report of its verification and the model's description into `place`.

    Args:
        folder: the model folder.
        dtype: the type of the weights, one of `engines.ctranslate2.DTYPES`.
        tokenizer: the custom tokenizer that the model was trained with.

    Raises ConfigError for a model that CTranslate2 cannot express, CheckpointError if the outputs of both differ by
    more than the tolerance.
    """
    saved = open_folder(folder, torch.device("cpu"), tokenizer=tokenizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the caller opens the folder, too, and gets the same warnings
        opened = Translator._from_folder(folder, saved)
    opened.save_description(place)
    rounded_to = "" if dtype == "float32" else dtype
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of tokenizer.json, which is not read here
            to_ctranslate2(
                saved.model, opened.tokenizers, place / MODEL, cast(Any, rounded_to or None),
                decode=replace(saved.decode, add_source_eos=False),  # a call may set what surrounds a source
            )  # fmt: skip
    except ConfigError as error:
        raise ConfigError(str(error), WITH_TORCH) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # opening the folder has given them
        proof = verify_conversion(folder, place / MODEL, "ct2", rounded_to=rounded_to, tokenizer=tokenizer)
    proof.save(place / MODEL)
    most = proof.tolerance if proof.decides else sys.float_info.max
    if not proof.largest_difference <= most:
        raise CheckpointError(
            f"the model in `{folder}` differs in CTranslate2: {proof.measure} differ by "
            f"{proof.largest_difference:.1e} of the largest; the tolerance is {proof.tolerance:g}",
            WITH_TORCH,
        )
