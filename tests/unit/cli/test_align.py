"""`pellucid align`: Pharaoh on standard output, scores against gold, and a head that is found."""

from pathlib import Path

import pytest

from pellucid.analysis.alignment import LinkExtraction, align_trace, write_links
from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters, write_pairs
from tests.unit.cli.command_line import CommandLine

PAIRS = [*reversed_letters(6, seed=9), ("", "a"), ("b", "")]
HEAD = ("--layer", 0, "--head", 1)


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    src, tgt = write_pairs(tmp_path, PAIRS, "test")
    return ["--src", src, "--tgt", tgt]


def by_hand(run: Path, **options: str) -> list[str]:
    translator = Translator.load(run, "cpu")
    traces = [translator.trace(*pair) if all(pair) else None for pair in PAIRS]
    extraction = LinkExtraction(**options)  # type: ignore[arg-type]
    return [write_links(align_trace(trace, 0, 1, extraction)) if trace else "" for trace in traces]


@pytest.mark.slow
def test_a_line_a_pair_by_a_given_head(pellucid: CommandLine, finished_run: Path, texts: list[str]) -> None:
    found = pellucid("align", finished_run, *texts, *HEAD)
    assert (found.status, found.err) == (0, "")
    assert found.out.splitlines() == by_hand(finished_run)
    assert len(found.out.splitlines()[0].split()) == len(PAIRS[0][1].split())
    reads = pellucid("align", finished_run, *texts, *HEAD, "--row", "reads", "--method", "mutual", "--tokens")
    assert reads.out.splitlines() == by_hand(finished_run, row="reads", method="mutual", level="tokens")


def test_the_head_is_found_and_told(
    pellucid: CommandLine, finished_run: Path, texts: list[str], tmp_path: Path
) -> None:
    found = pellucid("align", finished_run, *texts, "-o", tmp_path / "links")
    assert found.out == ""
    assert found.err.startswith("aligned by layer 0, head ")
    assert found.err.endswith("% of its links are the same from source to target\n")
    assert len((tmp_path / "links").read_text(encoding="utf-8").splitlines()) == len(PAIRS)


@pytest.mark.slow
def test_gold_chooses_the_head_and_scores_it(
    pellucid: CommandLine, finished_run: Path, texts: list[str], tmp_path: Path
) -> None:
    gold = tmp_path / "gold"
    gold.write_text(pellucid("align", finished_run, *texts, *HEAD, "--row", "reads").out, encoding="utf-8")
    found = pellucid("align", finished_run, *texts, "--gold", gold)
    assert found.out == gold.read_text(encoding="utf-8")
    assert found.err.splitlines() == [
        "aligned by layer 0, head 1, row that reads, which agrees best with the gold alignments",
        "AER 0.000  F1 1.000  precision 1.000  recall 1.000",
    ]
    table = pellucid("align", finished_run, *texts, "--gold", gold, "--all-heads").out.splitlines()
    assert table[0].split() == ["by", "AER", "F1", "precision", "recall", "links"]
    assert len(table) == 1 + 2 * (2 + 1 + 1) + 1
    assert table[1].startswith("layer 0, head 1, row that reads ")
    assert table[-1] == "best head: layer 0, head 1, row that reads"


def test_gold_that_counts_from_one(pellucid: CommandLine, finished_run: Path, texts: list[str], tmp_path: Path) -> None:
    links = [[link.split("-") for link in line.split()] for line in by_hand(finished_run)]
    gold = tmp_path / "gold"
    lines = (" ".join(f"{int(i) + 1}-{int(j) + 1}" for i, j in line) for line in links)
    gold.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    options = [*texts, *HEAD, "--gold", gold]
    assert pellucid("align", finished_run, *options, "--gold-one-based").err.startswith("AER 0.000")
    assert not pellucid("align", finished_run, *options).err.startswith("AER 0.000")


def test_what_it_cannot_do(pellucid: CommandLine, finished_run: Path, texts: list[str], tmp_path: Path) -> None:
    def error(*arguments: object) -> str:
        found = pellucid("align", finished_run, *texts, *arguments)
        assert found.status == 2
        return found.error

    assert error("--all-heads") == "`--all-heads` requires `--gold`"
    assert error("--head", 0) == "`--head 0` requires `--layer`"
    assert error("--method", "both") == "`method` 'both' is unknown"
    assert error("--layer", 7) == "`--layer 7` of `cross` must be in 0..0"
    gold = tmp_path / "gold"
    gold.write_text("0-0\n", encoding="utf-8")
    assert "has 1 lines, but" in error("--gold", gold)
    assert error("--gold-one-based") == "`--gold-one-based` requires `--gold`"
    assert error("-o", tmp_path) == f"cannot write to `{tmp_path}`: it is a folder"
    lines = Path(texts[1]).read_text(encoding="utf-8").splitlines()
    gold.write_text("0-99\n" + "\n" * (len(lines) - 1), encoding="utf-8")
    assert error("--gold", gold).startswith("line 1 of the alignments links word 0 to word 99, counted from 0")
    assert error("--gold", gold, "--all-heads", "--layer", 0) == "`--all-heads` and `--layer 0` exclude each other"


def test_a_threshold_is_of_its_method(pellucid: CommandLine, finished_run: Path) -> None:
    outcome = pellucid("align", finished_run, "--src", "a", "--tgt", "b", "--threshold", "0.3")
    assert (outcome.status, outcome.error) == (2, "`--threshold 0.3` has no effect with `--method argmax`")
    assert outcome.hint == "also set `--method threshold`"


def test_an_odd_line_is_an_empty_one(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path, [PAIRS[0], ("\ufeff", "a"), PAIRS[1]], "odd")
    found = pellucid("align", finished_run, "--src", src, "--tgt", tgt, *HEAD)
    assert (found.status, found.err) == (0, "")
    assert found.out.splitlines() == [by_hand(finished_run)[0], "", by_hand(finished_run)[1]]
    src, tgt = write_pairs(tmp_path, [("", "a"), ("\u200b", "b")], "blank")
    found = pellucid("align", finished_run, "--src", src, "--tgt", tgt)
    assert (found.status, found.out, found.err) == (0, "\n\n", "warning: no pair of lines can be aligned\n")
