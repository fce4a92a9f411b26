"""`pellucid.align`: the links of each pair, by a head that is given or found."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.analysis import align as alignment
from pellucid.analysis.align import LOOKED_AT
from pellucid.analysis.aligning_head import find_aligning_head
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.tasks.translator import Translator
from pellucid.tracing.trace import load_trace
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


@pytest.mark.slow
def test_a_folder_is_opened(translator: Translator, finished_run: Path) -> None:
    by_folder = pellucid.align(finished_run, SOURCES, TARGETS, layer=0, device="cpu")
    assert by_folder == pellucid.align(translator, SOURCES, TARGETS, layer=0)
    assert by_folder.head is None, "the mean of the layer's heads"


@pytest.mark.slow
def test_gold_chooses_the_head(translator: Translator) -> None:
    wanted = pellucid.align(translator, SOURCES, TARGETS, layer=0, head=1, row="reads")
    found = pellucid.align(translator, SOURCES, TARGETS, gold=str(wanted).split("\n"))
    assert found.links == wanted.links
    assert (found.layer, found.head, found.row) == (0, 1, "reads")
    assert found.agreement is not None
    assert (found.agreement.aer, found.agreement.f1) == (0.0, 1.0)
    assert found.reason == "layer 0, head 1, row that reads, which agrees best with the gold alignments"


@pytest.mark.slow
def test_without_gold_the_head_of_the_folder_aligns_and_without_one_a_head_is_found(translator: Translator) -> None:
    kept = translator.aligning_head
    assert kept is not None, "the run has found it on its validation text"
    found = pellucid.align(translator, SOURCES, TARGETS, method="mutual")
    assert (found.layer, found.head, found.row) == (kept.layer, kept.head, kept.row)
    assert "stored in its folder: in 20 validation sentences" in found.reason
    assert found.reason.endswith("% of its links are the same from source to target")
    other = pellucid.align(translator, SOURCES, TARGETS, row="reads" if kept.row == "writes" else "writes")
    assert other.row != kept.row, "whoever wants the other row gets the head that is found for it here"
    unknown = Translator(translator.model, translator.tokenizers, translator.decode)
    assert "its folder" not in pellucid.align(unknown, SOURCES, TARGETS).reason, "folders of earlier versions"


def test_the_head_that_is_kept_is_in_each_trace_and_goes_along(translator: Translator, tmp_path: Path) -> None:
    kept = translator.aligning_head
    assert kept is not None
    for other in range(translator.config.num_heads):
        named = replace(kept, head=other, row="reads")
        translator.save(tmp_path / str(other))
        named.save(tmp_path / str(other))
        opened = Translator.load(tmp_path / str(other), "cpu")
        assert opened.aligning_head == named
        trace = opened.trace(*PAIRS[0])
        assert find_aligning_head(trace, None, None)[:2] == (kept.layer, other), (
            "not what this sentence alone would say"
        )
        assert find_aligning_head(trace, None, None)[2].row == "reads"
        trace.save(tmp_path / "kept.trace")
        assert find_aligning_head(load_trace(tmp_path / "kept.trace"), None, None)[1] == other
    opened.aligning_head = None
    opened.save(tmp_path / "0")
    assert Translator.load(tmp_path / "0", "cpu").aligning_head is None, "a head of other weights is removed"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("layer", 7),
        ("head", -1),
        ("head", True),
        ("row", "both"),
        ("share", "much"),
        ("sentences", None),
        ("format", 2),
    ],
)
def test_a_damaged_head_is_refused(translator: Translator, tmp_path: Path, field: str, value: object) -> None:
    translator.save(tmp_path / "model")
    path = tmp_path / "model" / "aligning_head.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {field: value}), "utf-8")
    with pytest.raises(CheckpointError, match=f"aligning_head.json` is damaged: its `{field}` is {value}"):
        Translator.load(tmp_path / "model", "cpu")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"head": 1}, ConfigError, "`head=1` is given without a layer"),
        ({"threshold": 0.3}, ConfigError, '`threshold=0.3` has no effect with `method="argmax"`'),
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


ODD = ["\ufeff", "\u200b", "\u2581", "\u00ad \u2060"]


@pytest.mark.slow
def test_an_odd_line_is_empty_and_the_others_are_aligned(translator: Translator) -> None:
    """No line of a corpus ends the whole file."""
    pairs = [*PAIRS[:3], *((odd, "a") for odd in ODD), *(("b", odd) for odd in ODD), *PAIRS[3:6]]
    found = pellucid.align(translator, *map(list, zip(*pairs, strict=True)), layer=0, head=1)
    alone = pellucid.align(translator, SOURCES[:6], TARGETS[:6], layer=0, head=1)
    assert found.links == [*alone.links[:3], *[frozenset()] * 2 * len(ODD), *alone.links[3:]]


@pytest.mark.slow
def test_invisible_characters_move_no_link(translator: Translator) -> None:
    typed = ["\ufeff" + line.replace(" ", "\u00a0\u200b ") + "\u00ad" for line in SOURCES]
    links = pellucid.align(translator, typed, TARGETS, layer=0).links
    assert links == pellucid.align(translator, SOURCES, TARGETS, layer=0).links


@pytest.mark.slow
@pytest.mark.parametrize("gold", [None, ["", "", "", *["0-0"] * 8]])
def test_a_line_that_cannot_be_aligned_is_told(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, gold: list[str] | None
) -> None:
    trace = translator.trace

    def fail(source: str, target: str) -> Any:
        if target == "x":
            raise DataError("the text has 9 tokens, more than the model takes (8)")
        return trace(source, target)

    monkeypatch.setattr(translator, "trace", fail)
    monkeypatch.setattr(alignment, "MOST_NAMED", 1)
    monkeypatch.setattr(alignment, "LOOKED_AT", 2)
    sources, targets = ["a", "b", "", *SOURCES], ["x", "x", "", *TARGETS]
    with pytest.warns(UserWarning, match="not aligned") as told:
        found = pellucid.align(translator, sources, targets, gold=gold)
    assert [str(one.message) for one in told] == [
        "line 1 is not aligned: the text has 9 tokens, more than the model takes (8)",
        f"2 of {len(sources)} lines are not aligned",
    ]
    assert found.links[:3] == [frozenset()] * 3
    assert all(found.links[3:8])
    assert found.layer == 0


@pytest.mark.parametrize("gold", [None, ["", ""]])
def test_blank_lines_alone_have_no_head_and_no_links(translator: Translator, gold: list[str] | None) -> None:
    found = pellucid.align(translator, ["", "\ufeff"], ["a", "b"], gold=gold)
    assert (found.links, found.layer, found.head) == ([frozenset()] * 2, None, None)
    assert found.reason == "no pair of lines can be aligned"
