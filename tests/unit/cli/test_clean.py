"""`pellucid clean`: the summary, the options, and what is refused, in the options' names."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.unit.cli.command_line import CommandLine, start

PAIRS = [(f"der {n}. Hund läuft im Jahr {n + 1700} weg", f"dog number {n} runs off in {n + 1700}") for n in range(60)]
TEXTS = ("--src", "a.de", "--tgt", "a.en")


@pytest.fixture(autouse=True)
def _texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PELLUCID_DATA", raising=False)
    faulty = {7: ("ein Hund", "ein Hund"), 8: ("", "x")}
    pairs = [faulty.get(place, pair) for place, pair in enumerate(PAIRS)]
    for side, name in enumerate(("a.de", "a.en")):
        Path(name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    Path("t.de").write_text(f"{PAIRS[20][0].upper()}\n", encoding="utf-8")
    Path("t.en").write_text("x\n", encoding="utf-8")


def test_clean(pellucid: CommandLine) -> None:
    outcome = pellucid("clean", *TEXTS, "--test-src", "t.de", "--test-tgt", "t.en", "--out", "new/clean")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == (
        "60 pairs in `a.de` and `a.en`\n"
        "  1  empty: empty side\n"
        "  1  test: test sentences in the training text\n"
        "  1  copy: target equal to source\n"
        "57 kept (95.0 %), 3 removed; `new/clean/taken-out.tsv` lists them with the reasons\n"
    )
    assert len(Path("new/clean/a.en").read_text(encoding="utf-8").splitlines()) == 57
    again = pellucid("clean", *TEXTS, "--out", "new/clean")
    assert again.status == 2
    assert "error: `new/clean/a.de` already exists" in again.err
    assert "hint: name another file, or replace it with `--fresh`" in again.err
    assert pellucid("clean", *TEXTS, "--out", "new/clean", "--fresh").status == 0


def test_a_dry_run_and_rules(pellucid: CommandLine) -> None:
    outcome = pellucid("clean", *TEXTS, "--dry-run", "--skip-rules", "copy", "--report", "why.tsv")
    assert outcome.out.endswith("59 kept (98.3 %), 1 removed; `why.tsv` lists them with the reasons\n")
    assert pellucid("clean", *TEXTS, "--dry-run", "--rules", "copy,utf8").out.endswith("59 kept (98.3 %), 1 removed\n")
    assert pellucid("clean", *TEXTS, "--dry-run", "--rules", "ratio", "--max-ratio", "1.01").out.startswith("60 pairs")
    assert sorted(os.listdir()) == ["a.de", "a.en", "t.de", "t.en", "why.tsv"]


def test_what_is_repaired_and_what_is_not_to_be(pellucid: CommandLine) -> None:
    Path("a.de").write_text(Path("a.de").read_text(encoding="utf-8").replace("der 3. Hund", "der 3. <b>Hund</b>"))
    outcome = pellucid("clean", *TEXTS, "--dry-run")
    assert "repaired:\n  1  markup: markup\nremoved:\n" in outcome.out
    assert outcome.out.endswith("58 kept (96.7 %), of which 1 repaired, 2 removed\n")
    assert pellucid("clean", *TEXTS, "--dry-run", "--no-repair").out.endswith("57 kept (95.0 %), 3 removed\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([*TEXTS], "--out is missing"),
        ([*TEXTS, "--out", "x", "--dry-run"], "--dry-run writes no texts, so --out has no effect"),
        ([*TEXTS, "--out", "."], "`a.de` would be written over itself"),
        ([*TEXTS, "--out", "a.de"], "cannot write to `a.de`: File exists"),
        ([*TEXTS, "--out", "a.de/x"], "cannot write to `a.de/x`: Not a directory"),
        ([*TEXTS, "--dry-run", "--report", "-"], '`--report -` is not a file'),
        ([*TEXTS, "--dry-run", "--rules", "dupes"], "there is no rule `dupes`"),
        ([*TEXTS, "--dry-run", "--max-ratio", "0.5"], "`--max-ratio 0.5` must be above 1"),
        ([*TEXTS, "--dry-run", "--src-script", "Greeek"], "unknown script `Greeek`; did you mean `Greek`?"),
        (["--src", "a.de", "--dry-run"], "`--tgt` is not given"),
        (["--src", "no", "--tgt", "a.en", "--dry-run"], "no file `no`; looked for `no`"),
    ],
)  # fmt: skip
def test_what_is_refused(pellucid: CommandLine, arguments: list[str], error: str) -> None:
    outcome = pellucid("clean", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {error}")
    assert sorted(os.listdir()) == ["a.de", "a.en", "t.de", "t.en"]


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    many = "".join(f"a line of words, number {n}\n" for n in range(200_000))
    for name in ("b.de", "b.en"):
        Path(name).write_text(many, encoding="utf-8")
    process = start("clean", "--src", "b.de", "--tgt", "b.en", "--out", "out", cwd=tmp_path)
    while not Path("out").is_dir() or not list(Path("out").glob(".b.de*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert b"interrupted by SIGINT" in err
    assert not Path("out").exists()


@pytest.mark.foreign
def test_languages_are_identified(pellucid: CommandLine) -> None:
    """On 250 pairs, so that there are usual letters for a line to be beside."""
    pairs = [
        (f"Der {n}. Hund läuft heute durch den großen Wald.", f"Dog number {n} runs through the woods.")
        for n in range(250)
    ]
    pairs[100] = "Le chien court aujourd'hui dans la grande forêt.", pairs[100][1]
    for side, name in enumerate(("b.de", "b.en")):
        Path(name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    options = ("--src", "b.de", "--tgt", "b.en", "--dry-run", "--report", "why.tsv", "--rules", "language")
    assert pellucid("clean", *options, "--src-lang", "de", "--tgt-lang", "en").out.endswith(
        "249 kept (99.6 %), 1 removed; `why.tsv` lists them with the reasons\n"
    )
    assert "101\tlanguage\tfr, not de (" in Path("why.tsv").read_text(encoding="utf-8")
    outcome = pellucid("clean", *options, "--fresh", "--src-lang", "xx")
    assert outcome.status == 2
    assert "unknown language `xx`" in outcome.err
