"""Rejects the export of models with custom parts, which other libraries do not have."""

from pellucid.errors import ConfigError
from pellucid.model.families import Model


def refuse_parts(model: Model, program: str) -> None:
    """Raises ConfigError for a model with custom parts, which `program` cannot compute."""
    if model.parts is not None and model.parts.names:
        told = ", ".join(f"{name}={path}" for name, path in model.parts.names.items())
        raise ConfigError(
            f"the model has custom parts ({told}), which {program} does not have",
            "save it as a Pellucid model with `save(folder)`, and load it with `load(folder, parts=...)`",
        )
