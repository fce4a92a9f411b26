"""The choice between PyTorch's engine and the compiled one, which give the same translations."""

from importlib.util import find_spec
from typing import Any

from pellucid.engines import EngineName
from pellucid.engines.engine import PyTorchEngine
from pellucid.errors import ConfigError


def choose_engine(model: Any, engine: EngineName) -> PyTorchEngine:
    """Returns the engine of a PyTorch model: "torch", "compiled", or with "auto" compiled if it knows the model.

    "auto" imports numba only when the engine searches. Raises ConfigError for "compiled" if numba is missing or cannot
    be used here, or for a model that the compiled engine does not know.
    """
    if engine == "torch" or (engine == "auto" and find_spec("numba") is None):
        return PyTorchEngine(model)
    from pellucid.engines.compiled.weights import find_obstacle

    if engine == "compiled" and (reason := explain_torch(model.eval())):
        raise ConfigError(
            f"the compiled engine cannot be used: {reason}", 'use `engine="auto"` or `engine="torch"`' + _advise(reason)
        )
    if find_obstacle(model.eval()):
        return PyTorchEngine(model)
    from pellucid.engines.compiled.engine import CompiledEngine

    return CompiledEngine(model)


def explain_torch(model: Any) -> str:
    """Returns the reason why a model in evaluation mode has PyTorch's engine with "auto"; empty if the compiled one."""
    from pellucid.engines.compiled.compiling import find_missing
    from pellucid.engines.compiled.weights import find_obstacle

    return find_missing() or find_obstacle(model)


def _advise(reason: str) -> str:
    from pellucid.engines.compiled.compiling import EXTRA
    from pellucid.errors import format_install_command

    return f", or install the extra: {format_install_command(EXTRA)}" if f"`{EXTRA}`" in reason else ""
