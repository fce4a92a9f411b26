import numpy as np

from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.shapes import Box, Dot, Label, Line, Raster
from pellucid.views.canvas.svg import png_file
from tests.unit.views.drawn import HOSTILE, SVG, embedded, parsed, read_png


def drawing() -> Drawing:
    pixels = np.random.default_rng(0).integers(0, 256, size=(3, 5, 3), dtype=np.uint8)
    found = Drawing('A "title" of <b>', "What & why", width=100, height=80)
    found.add(Raster(1, 2, 50, 30, pixels), Box(0, 0, 10, 5, "#123456", "#654321", radius=2))
    found.add(Line(((0, 0), (1, 1), (2, 0)), "#000000", dashed=True), Dot(5, 6, 2, "#ffffff"))
    return found.add(*(Label(text, 10, 20, 8) for text in ("<script>", "a & b", "عربي")))


def test_an_image_is_read_back_as_it_was() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, size=(7, 11, 3), dtype=np.uint8)
    np.testing.assert_array_equal(read_png(png_file(pixels)), pixels)


def test_a_raster_is_one_embedded_image_of_even_pixels() -> None:
    svg = drawing().as_svg()
    (pixels,) = embedded(svg)
    raster = next(shape for shape in drawing().shapes if isinstance(shape, Raster))
    np.testing.assert_array_equal(pixels, raster.pixels)
    (image,) = parsed(svg).iter(f"{SVG}image")
    assert "pixelated" in image.attrib["style"]
    assert image.attrib["preserveAspectRatio"] == "none"


def test_it_says_what_it_is() -> None:
    root = parsed(drawing().as_svg())
    assert root.attrib["role"] == "img"
    assert root.findtext(f"{SVG}title") == 'A "title" of <b>'
    assert root.findtext(f"{SVG}desc") == "What & why"


def test_text_stays_text_and_keeps_its_direction_to_itself() -> None:
    found = {element.text: element for element in parsed(drawing().as_svg()).iter(f"{SVG}text")}
    assert set(found) == {"<script>", "a & b", "عربي"}
    assert found["عربي"].attrib["unicode-bidi"] == "isolate"


def test_nothing_is_fetched_and_nothing_runs() -> None:
    shapes = [Label(text, 1, 1, 1) for text in HOSTILE if text.isprintable()]
    svg = drawing().add(*shapes).as_svg()
    assert svg.count("http") == 1  # the name space
    assert "<script" not in svg
    assert "<img" not in svg
    assert " id=" not in svg
    parsed(svg)


def test_the_ground_is_opaque_and_below_everything() -> None:
    first = next(iter(parsed(drawing().as_svg()).iter(f"{SVG}rect")))
    assert (first.attrib["width"], first.attrib["height"], first.attrib["fill"]) == ("100", "80", "#ffffff")


def test_a_picture_may_be_shown_smaller_than_it_is() -> None:
    found = drawing()
    found.shown_width = 50
    root = parsed(found.as_svg())
    assert (root.attrib["width"], root.attrib["height"]) == ("50", "40")
    assert root.attrib["viewBox"] == "0 0 100 80"


def test_equal_drawings_give_equal_text() -> None:
    assert drawing().as_svg() == drawing().as_svg()
