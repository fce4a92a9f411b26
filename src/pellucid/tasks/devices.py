"""Where a model runs, and in which precision."""

import torch

from pellucid.errors import ConfigError, did_you_mean

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def find_device(name: str) -> torch.device:
    """The device called `name`; "auto" takes CUDA, then MPS, then the CPU.

    Raises ConfigError where there is none such.
    """
    available = ["cpu"]
    if torch.backends.mps.is_available():
        available.insert(0, "mps")
    if torch.cuda.is_available():
        available.insert(0, "cuda")
    if name == "auto":
        return torch.device(available[0])
    hint = f"this machine has: auto, {', '.join(available)}"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"unknown device `{name}`{did_you_mean(name, available)}", hint) from error
    if device.type not in available or (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()):
        raise ConfigError(f"device `{name}` is not on this machine", hint)
    return device


def find_dtype(name: str | torch.dtype | None) -> torch.dtype | None:
    """The precision called `name`; None: float32. Raises ConfigError for an unknown one."""
    if name is None or (isinstance(name, torch.dtype) and name.is_floating_point):
        return name
    if name not in DTYPES:
        raise ConfigError(
            f"unknown dtype `{name}`{did_you_mean(str(name), DTYPES)}", f"choose one of {', '.join(DTYPES)}"
        )
    return DTYPES[str(name)]
