"""The viewer's colours: heads that people tell apart, whatever they see, and scales whose steps look even."""

import numpy as np
import pytest

from tests.browser.conftest import Open
from tests.browser.traces import made

pytestmark = pytest.mark.browser

# Machado, Oliveira and Fernandes 2009, severity 1: what linear RGB turns into.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
TO_LMS = np.array([
    [0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
])  # fmt: skip
TO_LAB = np.array([
    [0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.808675766],
])  # fmt: skip


def linear(rgb: np.ndarray) -> np.ndarray:
    """sRGB, 0 to 255, as light."""
    c = rgb / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def oklab(light: np.ndarray) -> np.ndarray:
    """Linear RGB as OKLab (Ottosson 2020), in which equal distances look equal."""
    return np.cbrt(light.clip(0, 1) @ TO_LMS.T) @ TO_LAB.T


def hexes(colours: list[str]) -> np.ndarray:
    """ "#rrggbb" as numbers."""
    return np.array([[int(one[i : i + 2], 16) for i in (1, 3, 5)] for one in colours], dtype=float)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sixteen_heads_can_be_told_apart(open_page: Open, scheme: str, vision: str) -> None:
    heads = hexes(open_page(made(2), color_scheme=scheme).ask("p.app.colours.heads"))
    labs = oklab(linear(heads) @ np.array(VISIONS[vision]).T)
    distances = np.linalg.norm(labs[:, None] - labs[None], axis=-1) + 9 * np.eye(16)
    assert len(heads) == 16
    assert distances.min() > 0.06
    assert distances[:6, :6].min() > 0.14


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_drawn_stands_out_from_its_ground(open_page: Open, scheme: str) -> None:
    opened = open_page(made(2), color_scheme=scheme)
    of = opened.ask("['paper', 'ink', 'faint', 'accent', 'mark'].map((name) => p.app.colours.rgb(`var(--${name})`))")
    heads = hexes(opened.ask("p.app.colours.heads"))
    luminance = linear(np.vstack([of, heads])) @ [0.2126, 0.7152, 0.0722]
    paper, others = luminance[0], luminance[1:]
    contrast = (np.maximum(others, paper) + 0.05) / (np.minimum(others, paper) + 0.05)
    assert contrast[:4].min() >= 4.5  # text
    assert contrast[4:].min() >= 2.95  # lines


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_larger_weight_looks_as_much_larger(open_page: Open, scheme: str) -> None:
    opened = open_page(made(2), color_scheme=scheme)
    for name, middle in (("sequential", None), ("diverging", 127)):
        ramp = oklab(linear(np.array(opened.ask(f"p.app.colours.{name}"), dtype=float)))
        parts = [ramp] if middle is None else [ramp[:middle], ramp[middle + 1 :]]
        for part in parts:
            steps = np.diff(part[::8, 0])
            assert (np.sign(steps) == np.sign(steps[0])).all()
            assert np.abs(steps).max() < 3 * np.abs(steps).min()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_on_cells_can_be_read(open_page: Open, scheme: str) -> None:
    colours, inks = open_page(made(2), color_scheme=scheme).ask(
        "((c) => [c.sequential, c.sequential.map((_, i) => c.inkOn(i / 255))])(p.app.colours)"
    )
    ground = linear(np.array(colours, dtype=float)) @ [0.2126, 0.7152, 0.0722]
    ink = np.array([{"#000": 0.0, "#fff": 1.0}[one] for one in inks])
    assert ((np.maximum(ink, ground) + 0.05) / (np.minimum(ink, ground) + 0.05)).min() >= 4.5
