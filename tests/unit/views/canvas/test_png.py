import sys
import warnings
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from pellucid.errors import ConfigError, DataError, format_install_command
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.png import _learn_new_fonts, _spell, list_installed_fonts
from pellucid.views.canvas.shapes import Box, Dot, Label, Line, Raster
from pellucid.views.canvas.text import isolate_direction
from tests.processes import run_python

RED = np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8)


def drawing() -> Drawing:
    return Drawing("t", width=40, height=20).add(Raster(0, 0, 20, 20, RED))


def painted(found: Drawing, scale: float = 1) -> np.ndarray:
    from matplotlib.image import imread

    return np.rint(255 * imread(BytesIO(found.as_png(scale)))[..., :3]).astype(int)


def test_a_raster_lies_where_it_is_put() -> None:
    pixels = painted(drawing())
    assert pixels.shape == (20, 40, 3)
    assert (pixels[2:18, 2:8] == [255, 0, 0]).all()
    assert (pixels[2:18, 12:18] == [0, 0, 255]).all()
    assert (pixels[:, 22:] == 255).all()


def test_what_keeps_a_token_s_direction_is_not_painted() -> None:
    plain, kept = (
        Drawing("t", width=90, height=20).add(Label(t, 5, 15, 12)) for t in ("of 2,", f"of {isolate_direction('2')},")
    )
    assert (painted(plain) == painted(kept)).all()


def test_scale_is_dots_a_pixel() -> None:
    assert painted(drawing(), 2.5).shape == (50, 100, 3)


def test_a_picture_may_be_shown_smaller_than_it_is() -> None:
    found = drawing()
    found.shown_width = 20
    assert painted(found, 2).shape == (20, 40, 3)


def test_later_shapes_lie_on_earlier_ones() -> None:
    found = drawing().add(Box(0, 0, 40, 20, "#00ff00"), Dot(30, 10, 6, "#000000"))
    found.add(Line(((0, 10), (10, 0), (20, 20), (20, 10)), "#ff0000", 3, curved=True))
    pixels = painted(found)
    assert (pixels[10, 30] == 0).all()
    assert (pixels[2, 30] == [0, 255, 0]).all()
    assert (pixels == [255, 0, 0]).all(axis=2).any()


def test_text_is_painted_where_it_stands_and_dollars_are_no_mathematics() -> None:
    pixels = painted(Drawing("t", width=60, height=20).add(Label("$x^2$ a_b", 30, 14, 10, "middle")))
    ink = np.argwhere(pixels.min(axis=2) < 128)
    assert ink[:, 1].min() > 2
    assert ink[:, 1].max() < 58
    assert 3 < ink[:, 0].mean() < 15


def test_equal_drawings_give_equal_bytes() -> None:
    assert drawing().as_png() == drawing().as_png()


def test_characters_that_no_font_has_are_told_once() -> None:
    found = Drawing("t", width=60, height=20).add(
        Label("\U0010fffd\U0010fffc", 1, 10, 8), Label("\U0010fffd", 1, 10, 8)
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found.as_png()
    (warning,) = caught
    assert "2 of the picture's characters (U+10FFFC, U+10FFFD)" in str(warning.message)


def test_the_font_that_matplotlib_brings_is_always_there() -> None:
    assert "DejaVu Sans" in list_installed_fonts()
    assert "DejaVu Sans" in list_installed_fonts(bold=True)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0, -1, float("nan")])
def test_a_scale_must_be_above_0(scale: float) -> None:
    with pytest.raises(DataError, match=rf"`scale` \({scale}\) must be above 0"):
        drawing().as_png(scale)


def test_a_picture_can_be_too_large() -> None:
    with pytest.raises(DataError, match=r"80,000 x 40,000 dots is too large; at most 65,535 per side"):
        drawing().as_png(2000)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="PNG needs matplotlib") as error:
        drawing().as_png()
    assert format_install_command("plot") in error.value.hint


@pytest.mark.slow
def test_svg_needs_no_matplotlib(tmp_path: Path) -> None:
    code = f"""
import sys
import pellucid
assert "matplotlib" not in sys.modules
sys.modules["matplotlib"] = None
pellucid.plot_masks([2, 1]).svg({str(tmp_path / "a.svg")!r})
"""
    result = run_python("-c", code)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").endswith("</svg>\n")


def test_a_font_that_was_installed_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """matplotlib keeps a list of the fonts that there were when it first ran."""
    from matplotlib import font_manager

    own = [font for font in font_manager.fontManager.ttflist if font.name == "DejaVu Sans"]
    others = [font for font in font_manager.fontManager.ttflist if font.name != "DejaVu Sans"]
    assert own
    monkeypatch.setattr(font_manager.fontManager, "ttflist", others)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [font.fname for font in own] + [__file__])
    list_installed_fonts.cache_clear()
    assert "DejaVu Sans" not in list_installed_fonts()
    assert _learn_new_fonts()
    assert "DejaVu Sans" in list_installed_fonts()
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [font.fname for font in own])
    assert not _learn_new_fonts()


@pytest.mark.parametrize(
    ("text", "drawn"), [("·\u0e31", "·U+0E31"), ("\u0948\u0902", "U+0948 U+0902"), ("·คั", "·คั"), ("·", "·"), ("", "")]
)
def test_a_label_of_combining_marks_alone_is_written_as_code_points(text: str, drawn: str) -> None:
    assert _spell(text) == drawn
