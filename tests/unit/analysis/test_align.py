"""`pellucid.align`: the links of each pair, by a head that is given or found."""

from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.analysis.align import LOOKED_AT
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters

PAIRS = [*reversed_letters(6, seed=9), ("", "a"), ("b", "")]
SOURCES, TARGETS = ([pair[side] for pair in PAIRS] for side in (0, 1))


def test_a_set_of_links_a_pair_by_a_given_head(translator: Translator) -> None:
    found = pellucid.align(translator, SOURCES, TARGETS, layer=0, head=1)
    assert (found.layer, found.head, found.row, found.reason, found.agreement) == (0, 1, "writes", "", None)
    assert len(found.links) == len(PAIRS) <= LOOKED_AT
    assert [len(links) for links in found.links[-2:]] == [0, 0], "of an empty line nothing is aligned"
    for links, (source, target) in zip(found.links[:-2], PAIRS, strict=False):
        assert len(links) == len(target.split()), "argmax: one source word for each target word"
        assert all(i < len(source.split()) and j < len(target.split()) for i, j in links)
    assert str(found).splitlines()[0].split()[0].endswith("-0")
    assert str(found).count("\n") == len(PAIRS) - 1


def test_a_folder_is_opened(translator: Translator, finished_run: Path) -> None:
    by_folder = pellucid.align(finished_run, SOURCES, TARGETS, layer=0, device="cpu")
    assert by_folder == pellucid.align(translator, SOURCES, TARGETS, layer=0)
    assert by_folder.head is None, "the mean of the layer's heads"


def test_gold_chooses_the_head(translator: Translator) -> None:
    wanted = pellucid.align(translator, SOURCES, TARGETS, layer=0, head=1, row="reads")
    found = pellucid.align(translator, SOURCES, TARGETS, gold=str(wanted).split("\n"))
    assert found.links == wanted.links
    assert (found.layer, found.head, found.row) == (0, 1, "reads")
    assert found.agreement is not None
    assert (found.agreement.aer, found.agreement.f1) == (0.0, 1.0)
    assert found.reason == "layer 0, head 1, row that reads, which agrees best with the gold alignments"


def test_without_gold_a_head_is_found(translator: Translator) -> None:
    found = pellucid.align(translator, SOURCES, TARGETS, method="mutual")
    assert found.layer == 0
    assert found.reason.endswith("% of its links are the same from source to target")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"head": 1}, ConfigError, "`head=1` is given without its layer"),
        ({"threshold": 0.3}, ConfigError, '`threshold=0.3` means nothing to `method="argmax"`'),
        ({"method": "both"}, ConfigError, "`method` 'both' is unknown"),
        ({"gold": ["0-0"]}, DataError, f"`sources=` has {len(PAIRS)} lines and `gold=` 1"),
        ({"gold": ["0-99", *[""] * (len(PAIRS) - 1)]}, DataError, "line 1 of the alignments links word 0 to word 99"),
        ({"layer": 7}, DataError, r"`layer=7` of `cross` must be in 0..0"),
    ],
)
def test_what_cannot_be_aligned(
    translator: Translator, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        pellucid.align(translator, SOURCES, TARGETS, **given)


def test_lines_that_differ_in_number(translator: Translator) -> None:
    with pytest.raises(DataError, match=r"`sources=` has 1 lines and `targets=` 2"):
        pellucid.align(translator, ["a"], ["a", "b"])


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a model folder"):
        pellucid.align(tmp_path / "none", ["a"], ["b"])
