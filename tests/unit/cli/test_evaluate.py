"""`pellucid evaluate`: a report for people, JSON for programs; models, finished translations, and two of them."""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from pellucid.errors import format_value
from pellucid.evaluation.comparison import compare_outputs
from pellucid.evaluation.scores import score_corpus
from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters, write_pairs
from tests.unit.cli.command_line import CommandLine

PAIRS = [*reversed_letters(6, seed=9), ("", "a")]
SOURCES, REFERENCES = ([pair[side] for pair in PAIRS] for side in (0, 1))
OTHER = ["a b c d e f g h", *REFERENCES[1:]]


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Finished translations."""
    return write(tmp_path / "other.txt", OTHER)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def translations(run: Path, **options: int) -> list[str]:
    return [t.text for t in Translator.load(run, "cpu").translate(SOURCES, **options)]


@pytest.mark.slow
def test_evaluate_reports_and_gives_json(pellucid: CommandLine, finished_run: Path, texts: tuple[str, str]) -> None:
    options = ["--src", texts[0], "--ref", texts[1], "--beam-size", "1"]
    report = pellucid("evaluate", finished_run, *options)
    assert (report.status, report.err) == (0, "")
    for text in ("BLEU", "chrF", "nrefs:1|case:mixed", "7 sentences"):
        assert text in report.out
    table = json.loads(pellucid("evaluate", finished_run, *options, "--json").out)
    assert table["sentences"] == 7
    assert f"{table['bleu']:.2f}" in report.out
    assert table["signature"].startswith("nrefs:1|case:mixed")


@pytest.mark.slow
def test_finished_translations_need_no_model(
    pellucid: CommandLine, texts: tuple[str, str], other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = score_corpus(OTHER, REFERENCES)
    from_file = pellucid("evaluate", other, "--ref", texts[1])
    assert (from_file.status, from_file.out, from_file.err) == (0, f"{scores.report()}\n", "")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(other.read_bytes())))
    assert pellucid("evaluate", "-", "--ref", texts[1]) == from_file


@pytest.mark.slow
def test_two_models(pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], tmp_path: Path) -> None:
    second = shutil.copytree(finished_run, tmp_path / "second")
    config = json.loads((second / "pellucid.json").read_text(encoding="utf-8"))
    config["decode"]["beam_size"] = 1
    (second / "pellucid.json").write_text(json.dumps(config), encoding="utf-8")
    options = ["--src", texts[0], "--ref", texts[1]]
    outcome = pellucid("evaluate", finished_run, "--baseline", second, *options)
    outputs = translations(finished_run), translations(second)
    assert outputs[0] != outputs[1]
    comparison = compare_outputs(*outputs, REFERENCES)
    report = comparison.report(str(finished_run), str(second))
    assert (outcome.status, outcome.out, outcome.err) == (0, f"{report}\n", "")
    table = json.loads(pellucid("evaluate", finished_run, "--baseline", second, *options, "--json").out)
    assert table == json.loads(json.dumps({"a": str(finished_run), "b": str(second), **comparison.to_json()}))


@pytest.mark.slow
def test_a_model_against_a_file(pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], other: Path) -> None:
    options = ["--src", texts[0], "--ref", texts[1], "--beam-size", "1", "--json"]
    for systems, outputs in (
        ((finished_run, other), (translations(finished_run, beam_size=1), OTHER)),
        ((other, finished_run), (OTHER, translations(finished_run, beam_size=1))),
    ):
        table = json.loads(pellucid("evaluate", systems[0], "--baseline", systems[1], *options).out)
        assert table["bleu"]["difference"] == compare_outputs(*outputs, REFERENCES).bleu.difference


@pytest.mark.slow
def test_on_a_terminal_it_says_what_takes_so_long(
    pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    outcome = pellucid("evaluate", finished_run, "--src", texts[0], "--ref", texts[1])
    assert outcome.err.split() == f"translating 7 sentences with {finished_run}".split()


@pytest.mark.slow
def test_the_tokenizer_is_chosen_by_the_script_or_by_name(pellucid: CommandLine, tmp_path: Path) -> None:
    ref = write(tmp_path / "ref.zh", ["一只黑狗在街上跑步", "两个男人在看一场足球比赛"])
    found = write(tmp_path / "out.zh", ["一只黑狗在街上走路", "两个女人在看一场足球比赛"])
    outputs, references = (path.read_text(encoding="utf-8").splitlines() for path in (found, ref))
    for options, tokenize in (([], "zh"), (["--tokenize", "char"], "char"), (["--tokenize", "13a"], "13a")):
        table = json.loads(pellucid("evaluate", found, "--ref", ref, *options, "--json").out)
        theirs = BLEU(force=True, tokenize=tokenize)
        assert table["bleu"] == pytest.approx(theirs.corpus_score(outputs, [references]).score)
        assert table["signature"] == str(theirs.get_signature())
    compared = json.loads(pellucid("evaluate", found, ref, "--ref", ref, "--json").out)
    assert "|tok:zh|" in compared["bleu"]["signature"]


def test_several_references_and_ter(pellucid: CommandLine, tmp_path: Path, texts: tuple[str, str], other: Path) -> None:
    second = write(tmp_path / "second.txt", [line[::-1] for line in OTHER])
    scores = score_corpus(OTHER, [REFERENCES, [line[::-1] for line in OTHER]], ter=True)
    assert "nrefs:2|" in scores.ter_signature
    for names in (("--ref", "--ref"), ("--tgt", "--tgt"), ("--ref", "--tgt")):
        outcome = pellucid("evaluate", other, names[0], texts[1], names[1], second, "--ter")
        assert (outcome.status, outcome.out) == (0, f"{scores.report()}\n")


@pytest.mark.slow
def test_several_systems(pellucid: CommandLine, tmp_path: Path, texts: tuple[str, str], other: Path) -> None:
    third = write(tmp_path / "third.txt", ["x", *REFERENCES[1:]])
    spoken = (REFERENCES, OTHER, ["x", *REFERENCES[1:]])
    first = write(tmp_path / "first.txt", REFERENCES)
    reports = [
        compare_outputs(spoken[0], outputs, REFERENCES).report(str(first), str(name))
        for name, outputs in ((other, spoken[1]), (third, spoken[2]))
    ]
    last = "2 comparisons: of 20 comparisons of equally good systems, one has p below 0.05 by chance"
    for arguments in (
        [first, other, third],
        [first, "--baseline", other, "--baseline", third],
        [first, other, "--baseline", third],
    ):
        outcome = pellucid("evaluate", *arguments, "--ref", texts[1])
        assert (outcome.status, outcome.out) == (0, "\n\n".join([*reports, f"{last}\n"]))
    tables = json.loads(pellucid("evaluate", first, other, third, "--ref", texts[1], "--json").out)["comparisons"]
    assert [(table["a"], table["b"]) for table in tables] == [(str(first), str(other)), (str(first), str(third))]


@pytest.mark.slow
def test_the_test_set_of_the_recipe(
    pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    recipe = run / "recipe.toml"
    text = recipe.read_text(encoding="utf-8")
    assert 'test_src = ""' in text
    text = text.replace('test_src = ""', 'test_src = "sub/test.src"').replace(
        'test_tgt = ""', 'test_tgt = "sub/test.tgt"'
    )
    recipe.write_text(text, encoding="utf-8")
    expected = pellucid("evaluate", run, "--src", texts[0], "--ref", texts[1])
    missing = pellucid("evaluate", run, "--test", "--data-dir", tmp_path / "data")
    assert missing.status == 2
    assert missing.error == f"no file `sub/test.src`; looked for `sub/test.src`, `{tmp_path / 'data/sub/test.src'}`"
    write_pairs_at(tmp_path / "data" / "sub")
    found = pellucid("evaluate", run, "--test", "--data-dir", tmp_path / "data")
    assert (found.status, found.out) == (0, expected.out)
    paths = [tmp_path / "data" / "sub" / name for name in ("test.src", "test.tgt")]
    assert found.err == f"test set: `{paths[0]}` and `{paths[1]}`\n"
    monkeypatch.setenv("PELLUCID_DATA", str(tmp_path / "data"))
    assert pellucid("evaluate", run, "--test") == found
    compared = pellucid("evaluate", paths[1], "--baseline", run, "--test")
    assert (compared.status, compared.err) == (0, found.err)


def write_pairs_at(folder: Path) -> None:
    folder.mkdir(parents=True)
    write_pairs(folder, PAIRS, "test")


@pytest.mark.slow
def test_both_sides_in_one_file(
    pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], tmp_path: Path
) -> None:
    both = write(tmp_path / "test.tsv", [f"{source}\t{target}" for source, target in PAIRS])
    expected = pellucid("evaluate", finished_run, "--src", texts[0], "--ref", texts[1])
    assert pellucid("evaluate", finished_run, "--src", both) == expected
    short = write(tmp_path / "short.txt", OTHER[:2])
    outcome = pellucid("evaluate", short, "--src", both)
    assert outcome.error.startswith(f"`{both}` and `{short}` must have the same number of lines, but `{both}` has 7")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (
            ["{run}", "--ref", "{ref}"],
            "the source sentences for `{run}` are missing: `--src FILE`",
            "name the file of source sentences",
        ),
        (
            ["{run}", "--baseline", "{run}/.", "--src", "{src}", "--ref", "{ref}"],
            "`{run}` is compared with itself",
            "name another model with `--baseline`",
        ),
        (["{other}", "--baseline", "{other}", "--ref", "{ref}"], "`{other}` is compared with itself", None),
        (["-", "--baseline", "-", "--ref", "{ref}"], "`-` is compared with itself", None),
        (["-", "--ref", "-"], "standard input (`-`) can be only one of the files", None),
        (
            ["{short}", "--ref", "{ref}"],
            "`{ref}` and `{short}` must have the same number of lines, but `{ref}` has 7 and `{short}` 2",
            "line n of each file must belong to the same sentence; an empty translation is an empty line",
        ),
        (
            ["{other}", "--src", "{short}", "--ref", "{ref}"],
            "`{ref}` and `{short}` must have the same number of lines",
            None,
        ),
        (
            ["{other}", "--baseline", "{short}", "--ref", "{ref}"],
            "`{ref}` and `{short}` must have the same number of lines",
            None,
        ),
        (["{empty}", "--ref", "{empty}"], "`{empty}` is empty", "use one sentence per line"),
        (["{other}", "--ref", "no.txt"], "no file `no.txt`", None),
        (["{run}", "--ref", "{run}", "--src", "{src}"], "`{run}` is a folder, not a text file", None),
        (["{other}"], "the reference translations are missing: `--ref FILE`", "name the file of references"),
        (
            [],
            "MODEL is missing",
            "name a run folder, a model folder, or a text file of translations; - is standard input",
        ),
        (
            ["{other}", "--ref", "{ref}", "--ref", "{short}"],
            "`{ref}` and `{short}` must have the same number of lines",
            None,
        ),
        (
            ["{other}", "--ref", "{ref}", "--tokenize", "intel"],
            "the tokenizer `intel` is unknown; did you mean `intl`?",
            "choose one of auto, 13a, zh, char, intl, none, ja-mecab, ko-mecab, flores200",
        ),
        (["{other}", "{short}", "--ref", "{ref}", "--ter"], "`--ter` cannot be used in a comparison", None),
        (
            ["{run}", "--test", "--src", "{src}"],
            "`--test` replaces --src and --ref",
            "leave out --test, or --src and --ref",
        ),
        (["{run}", "--data-dir", "data", "--src", "{src}"], "`--data-dir` requires --test", None),
        (
            ["{run}", "--test"],
            "the recipe of `{run}` names no test set (`data.test_src`)",
            "name the test files with `--src`",
        ),
        (
            ["{other}", "--test"],
            "`--test` requires a run folder, and `{other}` is not one: it has no recipe.toml",
            "name the test files with `--src` and `--ref`",
        ),
    ],
)
def test_what_cannot_be_evaluated(
    pellucid: CommandLine,
    finished_run: Path,
    texts: tuple[str, str],
    other: Path,
    tmp_path: Path,
    arguments: list[str],
    error: str,
    hint: str | None,
) -> None:
    names = {
        "run": finished_run, "src": texts[0], "ref": texts[1], "other": other,
        "short": write(tmp_path / "short.txt", OTHER[:2]), "empty": write(tmp_path / "empty.txt", []),
    }  # fmt: skip
    outcome = pellucid("evaluate", *(argument.format(**names) for argument in arguments))
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error.startswith(error.format(**names))
    assert hint is None or outcome.hint == hint


@pytest.mark.parametrize("place", ["model", "against"])
def test_a_model_that_there_is_not_is_said_before_another_translates(
    pellucid: CommandLine,
    finished_run: Path,
    texts: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    monkeypatch.delattr(Translator, "translate")
    missing = finished_run.with_name("rum")
    first, second = (missing, finished_run) if place == "model" else (finished_run, missing)
    outcome = pellucid("evaluate", first, "--baseline", second, "--src", texts[0], "--ref", texts[1])
    assert outcome.status == 2
    assert outcome.error == (
        f"`{missing}` is neither a model folder nor a file of translations: it does not exist; did you mean `run`?"
    )


def test_a_system_that_there_is_not(pellucid: CommandLine, finished_run: Path, texts: tuple[str, str]) -> None:
    outcome = pellucid("evaluate", finished_run, "--src", texts[0], "--ref", texts[1], "--baseline", "nosuch")
    assert (outcome.status, outcome.error) == (
        2,
        "`nosuch` is neither a model folder nor a file of translations: it does not exist",
    )
    assert outcome.hint == "check the path to the folder or file"


@pytest.mark.parametrize("option", ["--ref", "--tgt"])
def test_a_second_name_behind_a_reference_is_refused(
    pellucid: CommandLine, texts: tuple[str, str], finished_run: Path, option: str
) -> None:
    """It is meant as a second reference, or as a system to compare with."""
    for given in ([option, texts[1]], [f"{option}={texts[1]}"]):
        outcome = pellucid("evaluate", finished_run, "--src", texts[0], *given, "second.en")
        assert (outcome.status, outcome.out) == (2, "")
        assert outcome.error == f"`second.en` follows `{option} {format_value(texts[1])}`, which takes one file"
        again = f"{option} {format_value(texts[1])} {option} second.en"
        assert (
            outcome.hint
            == f"for another file, repeat the option: `{again}`; for another system, `--baseline second.en`"
        )


def test_references_of_other_lengths(pellucid: CommandLine, texts: tuple[str, str], tmp_path: Path) -> None:
    short = write(tmp_path / "short.en", ["a"])
    outcome = pellucid("evaluate", texts[1], "--ref", texts[1], "--ref", short)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error.endswith(f"`{texts[1]}` has 7 and `{short}` 1")


@pytest.mark.slow
def test_an_ensemble_is_the_first_system(
    pellucid: CommandLine, finished_run: Path, other_weights: Path, texts: tuple[str, str], other: Path
) -> None:
    both = ["--src", texts[0], "--ref", texts[1], "--json"]
    joint = Translator.load(finished_run, "cpu", ensemble=[other_weights])
    lines = Path(texts[0]).read_text(encoding="utf-8").splitlines()
    outputs = other.with_name("ensemble.out")
    outputs.write_text("".join(f"{found.text}\n" for found in joint.translate(lines)), encoding="utf-8")
    found = json.loads(pellucid("evaluate", finished_run, *both, "--ensemble", other_weights).out)
    assert found == json.loads(pellucid("evaluate", outputs, *both).out)
    member = json.loads(
        pellucid("evaluate", finished_run, *both, "--ensemble", other_weights, "--baseline", finished_run).out
    )
    assert (member["a"], member["b"]) == (f"{finished_run} + {other_weights}", str(finished_run))
    assert member["bleu"]["a"] == found["bleu"]
    outcome = pellucid("evaluate", outputs, *both, "--ensemble", other_weights)
    assert outcome.error == (f"`--ensemble` requires a model, but `{outputs}` is a file of translations")


@pytest.fixture
def comet(tmp_path: Path) -> Path:
    """Scores of two systems, as `comet-score --to_json` writes them."""
    systems = {"other": (OTHER, 0.5), "third": (REFERENCES, 0.75)}
    table = {
        name: [{"src": "s", "mt": output, "ref": "r", "COMET": score + 0.01 * i} for i, output in enumerate(outputs)]
        for name, (outputs, score) in systems.items()
    }
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(table), encoding="utf-8")
    return path


@pytest.mark.slow
def test_comet_s_scores_are_reported_with_the_others(
    pellucid: CommandLine, texts: tuple[str, str], other: Path, comet: Path
) -> None:
    options = ["--ref", texts[1], "--comet", comet]
    report = pellucid("evaluate", other, *options)
    assert (report.status, report.err) == (0, "")
    scores = score_corpus(OTHER, REFERENCES)
    assert report.out.startswith(f"{scores.report()}\nCOMET")
    table = json.loads(pellucid("evaluate", other, *options, "--json").out)
    found = table.pop("comet")
    assert table == scores.to_json()
    assert found["lines"] == [0.5 + 0.01 * i for i in range(len(PAIRS))]
    assert f"{found['score']:.4f}" in report.out
    alone = pellucid("evaluate", other, "--comet", comet)
    assert (alone.status, alone.out[:5], alone.err) == (0, "COMET", "")


@pytest.mark.slow
def test_comet_compares_each_with_the_first(
    pellucid: CommandLine, texts: tuple[str, str], other: Path, comet: Path, tmp_path: Path
) -> None:
    third = write(tmp_path / "third.txt", REFERENCES)
    options = ["--ref", texts[1], "--comet", comet]
    outcome = pellucid("evaluate", other, third, *options)
    assert outcome.out.startswith(compare_outputs(OTHER, REFERENCES, REFERENCES).report(str(other), str(third)))
    assert "\nCOMET  " in outcome.out
    table = json.loads(pellucid("evaluate", other, third, *options, "--json").out)
    assert table["comet"]["b"] - table["comet"]["a"] == pytest.approx(0.25)
    assert table["comet"]["signature"].endswith("|ar:10000|bs:1000|seed:12345")
    alone = pellucid("evaluate", other, third, "--comet", comet)
    assert alone.out.startswith(f"A  {other}\nB  {third}\n\n")


def test_what_comet_cannot_do_without(
    pellucid: CommandLine, texts: tuple[str, str], other: Path, comet: Path, finished_run: Path, tmp_path: Path
) -> None:
    fourth = write(tmp_path / "fourth.txt", REFERENCES[::-1])
    for words, said in (
        ([other, "--ter", "--comet", comet], "`--ter` requires reference translations: `--ref FILE`"),
        ([other, "--tokenize", "char", "--comet", comet], "`--tokenize` requires reference translations"),
        ([fourth, "--comet", comet], f"`{format_value(comet)}` has no scores of the {len(PAIRS)} translations by"),
        # before a sentence is translated
        ([finished_run, "--src", texts[0], "--comet", "/none"], "cannot read `/none`: No such file"),
    ):
        outcome = pellucid("evaluate", *words)
        assert outcome.status == 2
        assert outcome.error.startswith(said)
