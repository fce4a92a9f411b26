"""Models with parts of somebody's own stay here: other programs do not have them."""

from pellucid.errors import ConfigError
from pellucid.model.families import Model


def refuse_parts(model: Model, program: str) -> None:
    """Raises ConfigError for a model with parts that are not Pellucid's, which `program` cannot compute."""
    if model.parts is not None and model.parts.names:
        told = ", ".join(f"{name}={path}" for name, path in model.parts.names.items())
        raise ConfigError(
            f"the model has parts of your own ({told}), which {program} does not have",
            "keep it as a Pellucid model: `save(folder)`, and `load(folder, parts=...)` where it is used",
        )
