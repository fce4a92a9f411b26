"""A drawing with what one does with it: write it as SVG or PNG, or look at it in a notebook."""

from base64 import b64encode
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pellucid.files.writing import write_output
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.painted import to_png
from pellucid.views.canvas.svg import to_svg


@dataclass(frozen=True)
class Picture:
    """A still picture."""

    drawing: Drawing

    def svg(self, path: str | Path) -> None:
        """Writes it for a paper: text that stays text, and no library is needed."""
        write_output(path, to_svg(self.drawing))

    def png(self, path: str | Path, scale: float = 2) -> None:
        """Writes it with `scale` dots a pixel of 1/96 inch. Raises ConfigError without the extra `plot`."""
        write_output(path, to_png(self.drawing, scale))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return still_bundle(self.drawing)

    def __repr__(self) -> str:
        return f"<pellucid picture: {self.drawing.title}>"


def still_bundle(drawing: Drawing) -> dict[str, str]:
    """What a notebook shows of a drawing: an image, and a line of text."""
    bundle = {"text/plain": f"{drawing.title}. {drawing.description}"}
    if find_spec("matplotlib") is None:
        return bundle | {"image/svg+xml": to_svg(drawing)}
    return bundle | {"image/png": b64encode(to_png(drawing, 1.5)).decode()}
