"""The check of custom parts before a training: a leak of the future, or visible padding, spoils it silently."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from pellucid.config import DecodeConfig
from pellucid.model.families import Model
from pellucid.model.parts import Parts
from pellucid.properties import passes
from pellucid.properties.subject import ExaminedModel

CHECKS = passes.repeatable, passes.causal, passes.check_padding
"""In this order: each may fail because of an earlier one."""


def find_fault(model: Model, parts: Parts, decode: DecodeConfig) -> str:
    """Returns a warning about custom parts that make a model wrong, with the first place that differs; empty if none.

    Some passes over a text of a few tokens on a copy of the model: neither the model nor the global random numbers of
    PyTorch, NumPy and Python change. A part that fails on such a text is not wrong for that, and is named as unchecked.
    """
    given = ", ".join(f"{name}={made}" for name, made in parts.names.items())
    device = next(model.parameters()).device
    with keep_random_state(device):
        try:
            subject = ExaminedModel(model, decode=decode)
            if not all(bool(output.isfinite().all()) for output in subject.outputs()):
                return ""  # the training itself reports a loss that is not finite
            found = next((check for probe in CHECKS if (check := probe(subject)).level == "BAD"), None)
        except Exception as error:
            first = str(error).partition("\n")[0]
            return f"the custom parts ({given}) were not checked: {type(error).__name__} on a short text: {first}"
    if found is None:
        return ""
    return (
        f"with the custom parts ({given}) the model is wrong, and so is its training. {found.text}; {found.advice}. "
        "`pellucid.examine(run)` has all checks"
    )


@contextmanager
def keep_random_state(device: torch.device) -> Iterator[None]:
    """Restores the global random numbers of PyTorch, on the CPU and a GPU, NumPy and Python at exit."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.inference_mode():
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
