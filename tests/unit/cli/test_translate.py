"""`pellucid translate`: as many lines out as in, through pipes and files, and what is said where that cannot be."""

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch

from pellucid.tasks.quality_flags import Flag
from pellucid.tasks.translation import Translation
from pellucid.tasks.translator import Translator
from tests.unit.cli.command_line import CommandLine, start

pytestmark = pytest.mark.usefixtures("unflagged")
FLAGGED = b"note: 4 of 5 lines are flagged: 4 loop, 1 source (--report FILE lists them)\n"
LINES = ["a b c", "", "h g f e d c b a b c d e f", "ä 안녕", "a b c", ""]


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Puts bytes on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def expected(run: Path) -> str:
    return "".join(f"{t.text}\n" for t in Translator.load(run, "cpu").translate(LINES))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_standard_input_to_standard_output(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch, end: str, last: bool
) -> None:
    text = end.join(LINES if last else LINES[:-1]) + end
    give(monkeypatch, text.encode() if last else text.removesuffix(end).encode())
    outcome = pellucid("translate", finished_run)
    wanted = expected(finished_run)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == (wanted if last else "".join(wanted.splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize(("data", "count"), [(b"", 0), (b"\n", 1), (b"\n\n\n", 3), (b"a", 1)])
def test_as_many_lines_come_out(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, count: int
) -> None:
    give(monkeypatch, data)
    assert pellucid("translate", finished_run, "--beam-size", "1").out.count("\n") == count


def test_files(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    outcome = pellucid("translate", finished_run, "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")
    assert (tmp_path / "out").read_text(encoding="utf-8") == expected(finished_run)


def test_options_reach_the_search(pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(
        Translator,
        "process_lines",
        lambda self, lines, place, **options: given.append(options) or [Translation("b", 0.0, ["b"])],
    )
    give(monkeypatch, b"a\n")
    options = ["--beam-size", "3", "--length-penalty", "0.5", "--max-length", "7", "--batch-tokens", "99"]
    assert pellucid("translate", finished_run, *options, "--n-best", "2", "--json").status == 0
    searching = {"beam_size": 3, "n_best": 2, "length_penalty": 0.5, "max_length": 7, "batch_tokens": 99}
    assert given == [{**searching, "confidence": True}]


@pytest.mark.slow
def test_json(pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, "\n".join(LINES).encode())
    plain = pellucid("translate", finished_run, "--json")
    tables = [json.loads(line) for line in plain.out.splitlines()]
    sure = ["calibrated", "flags", "probability", "words"]
    assert [sorted(table) for table in tables] == [sorted([*sure, "score", "text", "tokens"])] * 5
    assert [table["text"] for table in tables] == expected(finished_run).splitlines()[:5]
    give(monkeypatch, b"a b\n")
    (table,) = map(json.loads, pellucid("translate", finished_run, "--json", "--n-best", "2").out.splitlines())
    first, second = table["alternatives"]
    assert first == {key: table[key] for key in ("text", "score", "tokens")}
    assert sorted(second) == ["score", "text", "tokens"]


def test_samples(pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = []
    for options in (
        ["--seed", "1"],
        ["--seed", "1"],
        ["--seed", "2"],
        ["--top-k", "1"],
        ["--top-k", "1", "--seed", "3"],
    ):
        give(monkeypatch, b"a b c d\n" * 5)
        outputs.append(pellucid("translate", finished_run, "--sample", *options).out)
    assert outputs[0] == outputs[1] != outputs[2]
    assert outputs[3] == outputs[4], "from one token there is nothing to draw"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--n-best", "2"], "`--n-best 2` requires `--json`: plain output has one line per sentence"),
        (
            ["--next-token-alternatives", "2"],
            "`--next-token-alternatives 2` requires `--json`: plain output has one line per sentence",
        ),
        (
            ["--next-token-alternatives", "0", "--json"],
            "`--next-token-alternatives 0` must be a whole number from 1 to 1,024",
        ),
        (["--n-best", "3", "--json"], "`n_best` (3) cannot exceed `beam_size` (2)"),
        (["--beam-size", "0"], "`beam_size` (0) must be at least 1"),
        (["--temperature", "2"], "`--temperature` requires `--sample`"),
        (["--beam-size", "five"], "`--beam-size five` is not a whole number"),
        (["--length-penalty=long"], "`--length-penalty long` is not a number"),
        (["a b", "--input", "in.txt"], "a text is given, and `--input in.txt`"),
        (["a b", "c"], "pellucid translate takes no argument `c`"),
        (["--top-k", "0"], "`--top-k` requires `--sample`"),
        (["--sample", "--beam-size", "2"], "`--beam-size` cannot be combined with `--sample`"),
        (["--sample", "--top-p", "1.5"], "`top_p` (1.5) must be above 0 and at most 1"),
        (["--dtype", "float31"], "unknown dtype `float31`; did you mean `float32`?"),
        (["--device", "cuda"], "device `cuda` is not available on this machine"),
        (["--device", "foo"], "unknown device `foo`"),
        (["--src-lang", "de"], "`--src-lang de` has no effect on this model, which has no language codes"),
        (["--tgt-lang", "fr"], "`--tgt-lang fr` has no effect on this model, which has no language codes"),
        (["--threads", "0"], "`--threads 0` must be at least 1"),
        (["--beam-sise", "3"], "pellucid translate has no option `--beam-sise`; did you mean `--beam-size`?"),
        (["--input", "no.txt"], "no file `no.txt`"),
        (["--input", "."], "`.` is a folder, not a text file"),
        (["--output", "."], "cannot write to `.`: it is a folder"),
    ],
)
def test_what_cannot_be_done(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], error: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    give(monkeypatch, b"a\n")
    outcome = pellucid("translate", finished_run, *options)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {error}\n")
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("given", [[], ["--threads", "3"]])
def test_threads(pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch, given: list[str]) -> None:
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    assert pellucid("translate", finished_run, "a b", *given).status == 0
    assert asked == [int(number) for number in given[1:]]


def test_standard_input_that_is_not_utf_8(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").write_text("from before", encoding="utf-8")
    give(monkeypatch, "a b\nfür\n".encode("latin-1"))
    outcome = pellucid("translate", finished_run, "--output", tmp_path / "out")
    assert (outcome.status, outcome.error) == (2, "standard input is not UTF-8: line 2, byte 2 is 0xfc")
    assert "cp1252 (Western European)" in outcome.hint
    assert (tmp_path / "out").read_text(encoding="utf-8") == "from before"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
def test_a_model_that_is_damaged(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    model = shutil.copytree(finished_run, tmp_path / "model")
    weights = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(weights[:-1000])
    outcome = pellucid("translate", model)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error.startswith(f"`{model / 'model.safetensors'}` ({len(weights) - 1000:,} bytes) is damaged: ")
    (model / "model.safetensors").unlink()
    outcome = pellucid("translate", model)
    assert (outcome.status, outcome.error) == (1, f"no weights at `{model / 'model.safetensors'}`")


def test_a_model_that_there_is_not(pellucid: CommandLine, finished_run: Path) -> None:
    outcome = pellucid("translate", finished_run.with_name("rum"))
    assert outcome.status == 2
    assert "did you mean `run`?" in outcome.error


@pytest.fixture
def sentence_run(finished_run: Path, tmp_path: Path) -> Path:
    """A model that was trained, as its folder says, on single sentences of at most four tokens."""
    folder = tmp_path / "sentences"
    shutil.copytree(finished_run, folder)
    table = json.loads((folder / "pellucid.json").read_text(encoding="utf-8"))
    table["text"] |= {"sentence_ends": 1.0, "several_sentences": 0.0, "source_length": 4}
    (folder / "pellucid.json").write_text(json.dumps(table), encoding="utf-8")
    return folder


SENTENCES = b"Fade bed cab. Dead bad egg head!\nFade bed cab. Dead.\nFade bed cab dead bad egg.\n"
"""Two sentences that are long together, two that are not, and one long sentence."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* is unknown to the model")  # whose words are letters
def test_lines_of_several_sentences_are_cut_and_it_is_said_once(
    pellucid: CommandLine, sentence_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, SENTENCES * 50)  # which are translated in several chunks
    outcome = pellucid("translate", sentence_run, "--json", "--repair", "off")
    assert outcome.status == 0, outcome.err
    tables = [json.loads(line) for line in outcome.out.splitlines()]
    found = Translator.load(sentence_run, "cpu").translate(["Fade bed cab.", "Dead bad egg head!"], repair="off")
    assert [len(table.get("sentences", [])) for table in tables] == [2, 2, 0] * 50
    assert [(s["source"], s["text"]) for s in tables[0]["sentences"]] == [
        ("Fade bed cab.", found[0].text), ("Dead bad egg head!", found[1].text),
    ]  # fmt: skip
    assert tables[0]["score"] == pytest.approx(sum(s["score"] for s in tables[0]["sentences"]), abs=2e-5)
    assert outcome.err.splitlines() == [
        "note: 50 lines are longer than nearly all training lines of the model: the sentences in them were "
        "translated one by one (--json shows them, --segment off disables this)",
        "note: 50 sentences are longer than nearly all that the model was trained on (6 tokens; 999 of 1,000 lines "
        "there have at most 4): expect a worse translation",
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* is unknown to the model")  # whose words are letters
@pytest.mark.parametrize("options", [[], ["--sample"]])
def test_lines_can_be_left_whole(
    pellucid: CommandLine, sentence_run: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    outputs = []
    for segment in ("auto", "off"):
        give(monkeypatch, SENTENCES)
        outcome = pellucid("translate", sentence_run, "--json", "--segment", segment, *options)
        outputs.append(["sentences" in json.loads(line) for line in outcome.out.splitlines()])
    assert outputs == [[True, True, False], [False] * 3]
    assert outcome.err.startswith("note: 2 sentences are longer than nearly all that the model was trained on (7 tok")


def test_a_line_that_is_too_long_is_translated_with_a_warning(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, b"a " * 300 + b"\nb\n")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        outcome = pellucid("translate", finished_run, "--max-length", "3")
    assert (outcome.status, outcome.out.count("\n")) == (0, 2)
    assert outcome.err.startswith("warning: a line of 300 tokens is longer than the model takes (256)")
    assert outcome.err.count("\n") == 1


@pytest.mark.slow
def test_a_closed_pipe_is_quiet(finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a b c\n" * 300, encoding="utf-8")
    process = start("translate", finished_run, "--input", tmp_path / "in", "--beam-size", "1", "--device", "cpu")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().endswith(b"\n")
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


@pytest.mark.slow
def test_lines_go_through_real_pipes(finished_run: Path) -> None:
    command = [sys.executable, "-m", "pellucid", "translate", str(finished_run), "--device", "cpu"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, input="\n".join(LINES).encode(), capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, FLAGGED)
    assert done.stdout.decode() == "".join(expected(finished_run).splitlines(keepends=True)[: len(LINES) - 1])


@pytest.mark.slow
def test_a_program_that_waits_for_its_line_gets_it(finished_run: Path) -> None:
    options = ("--beam-size", "1", "--device", "cpu")
    process = start("translate", finished_run, *options, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    dog = threading.Timer(120, process.kill)
    dog.start()
    translator = Translator.load(finished_run, "cpu")
    for line in ("a b", "c", "", "d e f"):
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline().decode() == translator.translate([line], beam_size=1)[0].text + "\n"
    out, err = process.communicate()
    dog.cancel()
    assert (process.returncode, out) == (0, b"")
    assert err.startswith(b"note: 3 of 4 lines are flagged: ")
    assert err.count(b"\n") == 1


@pytest.mark.slow
def test_a_failure_ends_the_command_though_its_pipe_stays_open(finished_run: Path) -> None:
    process = start("translate", finished_run, "--device", "cpu", stdin=subprocess.PIPE)
    assert process.stdin is not None
    dog = threading.Timer(120, process.kill)
    dog.start()
    process.stdin.write(b"\xff\n")
    process.stdin.flush()
    assert process.wait() == 2
    dog.cancel()
    _, err = process.communicate()
    assert err.startswith(b"error: standard input is not UTF-8: line 1, byte 1 is 0xff\n")


def test_standard_input_may_be_gzip(pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, gzip.compress("".join(f"{line}\n" for line in LINES).encode()))
    outcome = pellucid("translate", finished_run)
    assert (outcome.status, outcome.err, outcome.out) == (0, "", expected(finished_run))


def test_standard_input_of_another_encoding_is_named(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, "a b\n".encode("utf-16"))
    outcome = pellucid("translate", finished_run)
    assert (outcome.status, outcome.error) == (2, "standard input is UTF-16, not UTF-8")
    assert outcome.hint == "convert it first: `iconv -f utf-16 -t utf-8 < FILE > FILE.utf8`"


def test_a_text_as_an_argument(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = expected(finished_run).splitlines(keepends=True)[0]
    outcome = pellucid("translate", finished_run, LINES[0])
    assert (outcome.status, outcome.out, outcome.err) == (0, first, "")
    assert pellucid("translate", finished_run, LINES[0], "--output", tmp_path / "out").status == 0
    assert (tmp_path / "out").read_text(encoding="utf-8") == first
    assert pellucid("translate", finished_run, "\n".join(LINES)).out == expected(finished_run)
    give(monkeypatch, b"a b c\n")
    assert pellucid("translate", finished_run, "-").out == first
    bad = pellucid("translate", finished_run, os.fsdecode(b"a \xfc"))
    assert (bad.status, bad.error) == (2, "`TEXT` is not UTF-8: line 1, byte 3 is 0xfc")


def test_drawing_is_switched_on(pellucid: CommandLine, finished_run: Path) -> None:
    refused = pellucid("translate", finished_run, "a", "--temperature", "0.5")
    assert refused.hint == "add `--sample`"


@pytest.mark.slow
def test_the_folder_that_was_meant(pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = finished_run.parent
    outcome = pellucid("translate", demo, "a")
    assert (outcome.status, outcome.error) == (
        2,
        f"`{demo}` is not a model folder: no pellucid.json in it; did you mean `{demo / 'run'}`?",
    )
    monkeypatch.chdir(demo)
    named = pellucid("translate", "bert-base-uncased", "a")
    assert (named.status, named.error) == (2, "`bert-base-uncased` is not a model folder: it does not exist")
    assert (
        named.hint
        == "check the path; a model on the Hugging Face hub is named `org/model`, and requires the extra `hf`"
    )
    assert pellucid("translate", "no/such/run", "a").hint == "check the path; a model is a folder"


@pytest.mark.slow
def test_an_ensemble(
    pellucid: CommandLine, finished_run: Path, other_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Translator.load(finished_run, "cpu", ensemble=[other_weights])
    text = "".join(f"{line}\n" for line in LINES).encode()
    found = []
    for workers in ("1", "2"):
        give(monkeypatch, text)
        options = ["--ensemble", other_weights, "--workers", workers, "--device", "cpu"]
        found.append(pellucid("translate", finished_run, *options).out)
    assert found == ["".join(f"{t.text}\n" for t in both.translate(LINES))] * 2
    assert found[0] != expected(finished_run)


def test_what_an_ensemble_is_not(pellucid: CommandLine, finished_run: Path) -> None:
    outcome = pellucid("translate", finished_run, "a b", "--ensemble", "nowhere")
    assert (outcome.status, outcome.error) == (2, "`nowhere` is not a model folder: it does not exist")
    outcome = pellucid("translate", finished_run, "a b", "--ensemble", finished_run, "--engine", "ctranslate2")
    assert outcome.error.startswith("`--engine ctranslate2` cannot be combined with `--ensemble`")


@pytest.mark.slow
def test_each_line_begins_as_a_file_says(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    begun = ["b a", "c c", "", "a", "h", ""]
    for name, lines in (("in", LINES), ("begun", begun)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = [
        pellucid("translate", finished_run, "--input", tmp_path / "in", "--prefix", tmp_path / "begun", *more).out
        for more in ([], ["--workers", "2", "--device", "cpu"])
    ]
    wanted = Translator.load(finished_run, "cpu").translate(LINES, prefixes=begun)
    assert found == ["".join(f"{t.text}\n" for t in wanted)] * 2
    assert [line[: len(start)] for line, start in zip(found[0].splitlines(), begun, strict=True) if line] == [
        start for source, start in zip(LINES, begun, strict=True) if source
    ]
    options = ["--input", tmp_path / "in", "--prefix", tmp_path / "begun", "--next-token-alternatives", "2", "--json"]
    tables = [json.loads(line) for line in pellucid("translate", finished_run, *options).out.splitlines()]
    parted = Translator.load(finished_run, "cpu").translate(LINES, prefixes=begun, next_token_alternatives=2)
    texts = [[one.text for one in best.alternatives if one.next_token] for best in parted]
    assert [[each["text"] for each in table.get("alternatives", [])] for table in tables] == texts
    assert pellucid("translate", finished_run, "a b c", "--prefix", tmp_path / "begun").error.endswith("and "
        f"`{tmp_path / 'begun'}` 6")  # fmt: skip
    outcome = pellucid("translate", finished_run, "--prefix", "-")
    assert outcome.error == "standard input (`-`) can be only one of --input and --prefix"
    outcome = pellucid("translate", finished_run, "a", "--sample", "--prefix", tmp_path / "begun")
    assert outcome.error == "`--prefix` cannot be combined with `--sample`"
    (tmp_path / "begun").write_text("a b c d e f g h a b c d e f g\n", encoding="utf-8")
    outcome = pellucid("translate", finished_run, "a", "--prefix", tmp_path / "begun")
    assert outcome.error.endswith("has 15 tokens, but the translation of its line has at most 12")
    assert outcome.hint == "shorten it, or set `--max-length`"


@pytest.mark.slow
def test_terms_of_a_file_and_of_each_line(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    held = ["h a", "", "", "b", "g\tc", ""]
    for name, lines in (("in", LINES), ("terms", ["a b\tg h", "c\td"]), ("held", held)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    translator = Translator.load(finished_run, "cpu")
    given = {"terms": [("a b", "g h"), ("c", "d")]}, {"constraints": [line.split("\t") for line in held]}
    for option, wanted in zip(("terms", "held"), given, strict=True):
        options = [
            "--input",
            tmp_path / "in",
            f"--{'terms' if option == 'terms' else 'constraints'}",
            tmp_path / option,
        ]
        found = [
            pellucid("translate", finished_run, *options, "--beam-size", "3", *more).out
            for more in ([], ["--workers", "2", "--device", "cpu"])
        ]
        texts = [t.text for t in translator.translate(LINES, beam_size=3, **wanted)]  # type: ignore[arg-type]
        assert found == ["".join(f"{text}\n" for text in texts)] * 2
        assert texts != [t.text for t in translator.translate(LINES, beam_size=3)]


def test_terms_that_cannot_be(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("a\tb\n", encoding="utf-8")
    given = ["translate", finished_run, "a b", "--terms", tmp_path / "terms"]
    assert pellucid(*given, "--sample").error == "`--terms` cannot be combined with `--sample`"
    assert pellucid(*given, "--beam-size", "1").hint == "set `--beam-size 5` or more"
    both = pellucid("translate", finished_run, "--constraints", tmp_path / "terms", "--prefix", tmp_path / "terms")
    assert both.error == "`--prefix` and `--constraints` cannot be combined"
    assert pellucid("translate", finished_run, "a", "--terms", tmp_path / "none").error.startswith("no file")


@pytest.mark.slow
def test_lengths_and_repetitions(pellucid: CommandLine, finished_run: Path) -> None:
    line = "a a a a"
    found = pellucid("translate", finished_run, line, "--min-length", 6, "--no-repeat-ngram-size", "2")
    (wanted,) = Translator.load(finished_run, "cpu").translate([line], min_length=6, no_repeat_ngram_size=2)
    assert found.out == f"{wanted.text}\n"
    assert len(wanted.tokens) >= 6
    outcome = pellucid("translate", finished_run, line, "--min-length", "-1")
    assert outcome.error == "`min_length` (-1) must be a whole number from 0 to 1,048,576"


@pytest.mark.slow
def test_of_many_draws_one(pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Translator.load(finished_run, "cpu").sample(LINES, mbr=4, epsilon_cutoff=0.05, seed=3)
    for workers in ("1", "2"):
        give(monkeypatch, "".join(f"{line}\n" for line in LINES).encode())
        options = ["--mbr", "4", "--epsilon-cutoff", "0.05", "--seed", "3", "--workers", workers, "--device", "cpu"]
        assert pellucid("translate", finished_run, *options).out == "".join(f"{t.text}\n" for t in wanted)
    outcome = pellucid("translate", finished_run, "a", "--mbr", "4", "--beam-size", "2")
    assert outcome.error == "`--beam-size` cannot be combined with `--mbr`"
    assert pellucid("translate", finished_run, "a", "--mbr", "1").error == "`--mbr 1` must be from 2 to 1,024 samples"


def test_placeholders_and_kept_patterns_stay(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, b"a b c d e f g h a b c d %s e f g h\na b c d e f g h a b c d XY-1 e f g h\n")
    outcome = pellucid("translate", finished_run, "--keep", "[A-Z]+-[0-9]", "--keep", "Q")
    assert outcome.status == 0
    first, second = outcome.out.splitlines()
    assert (first.count("%s"), second.count("XY-1")) == (1, 1)
    outcome = pellucid("translate", finished_run, "a", "--keep", "(")
    assert outcome.status == 2
    assert outcome.error == "`--keep (` is not a regular expression: missing ) at position 1"


def test_flagged_lines_are_counted_by_kind(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stand(self: Translator, lines: list[str], place: int, **options: object) -> list[Translation]:
        spans, loop, numbers = Flag("spans", "`%s` is lost"), Flag("loop", "ha ha"), Flag("numbers", "25 lost")
        flags = {"a": (), "b": (loop, numbers), "c": (spans,), "d": (loop,)}
        return [Translation(line, 0.0, [], flags=flags[line]) for line in lines]

    monkeypatch.setattr(Translator, "process_lines", stand)
    give(monkeypatch, b"a\nb\nc\nd\n")
    outcome = pellucid("translate", finished_run)
    assert outcome.out == "a\nb\nc\nd\n"
    assert outcome.err == (
        "note: 3 of 4 lines are flagged: 2 loop, 1 numbers, 1 spans; 1 left untranslated (--report FILE lists them)\n"
    )


def test_a_report_lists_the_flagged_lines_of_a_file(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flags = {"b": (Flag("numbers", "25 lost"),), "c": (Flag("spans", "`%s` is lost"), Flag("source", "no letters"))}

    def stand(self: Translator, lines: list[str], place: int, **options: object) -> list[Translation]:
        return [Translation(line.upper(), 0.0, [], flags=flags.get(line, ())) for line in lines]

    monkeypatch.setattr(Translator, "process_lines", stand)
    texts, report = tmp_path / "in", tmp_path / "report.json"
    texts.write_text("a\nb\na\nc\n", encoding="utf-8")
    outcome = pellucid("translate", finished_run, "--input", texts, "--output", tmp_path / "out", "--report", report)
    assert outcome.status == 0
    assert json.loads(report.read_text(encoding="utf-8")) == {
        "files": [
            {"file": str(texts), "lines": 4, "flagged": 2, "untranslated": 1,
             "flags": {"numbers": 1, "source": 1, "spans": 1}},
        ],
        "flagged": [
            {"place": f"{texts}:2", "source": "b", "text": "B", "state": "translated", "flags": ["numbers: 25 lost"]},
            {"place": f"{texts}:4", "source": "c", "text": "C", "state": "failed",
             "flags": ["spans: `%s` is lost", "source: no letters"]},
        ],
    }  # fmt: skip
    for name in (texts, tmp_path / "out"):
        refused = pellucid("translate", finished_run, "--input", texts, "--output", tmp_path / "out", "--report", name)
        assert (refused.status, refused.error) == (2, f"`--report {name}` is the input or the output")
    folder = pellucid(
        "translate", finished_run, "--input", texts, "--output", tmp_path / "out", "--report", tmp_path / "no" / "r"
    )
    missing = tmp_path / "no"
    assert (folder.status, folder.error) == (2, f"cannot write to `{missing / 'r'}`: no folder `{missing}`")


@pytest.mark.slow
def test_translations_of_a_low_probability_are_withheld(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*options: object) -> tuple[str, str]:
        give(monkeypatch, b"a b c\n\n")
        outcome = pellucid("translate", finished_run, *options)
        return outcome.out, outcome.err

    translated, _ = run()
    assert run("--min-confidence", 0)[0] == translated
    note = "note: 1 of 2 lines are flagged: 1 confidence; 1 left untranslated (--report FILE lists them)\n"
    assert run("--min-confidence", 1) == ("a b c\n\n", note)
    assert run("--min-confidence", 1, "--below", "empty") == ("\n\n", note)
    (table, _) = map(json.loads, run("--min-confidence", 1, "--json")[0].splitlines())
    assert (table["text"], table["flags"][-1]["flag"]) == ("a b c", "confidence")
    assert table["flags"][-1]["evidence"] == (
        f"the probability {table['probability']:.3g} is below 1: the source is kept"
    )
    for options, error in (
        (("--min-confidence", 1.5), "`--min-confidence 1.5` must be a probability from 0 to 1"),
        (("--below", "empty"), "`--below empty` requires `--min-confidence`"),
    ):
        assert pellucid("translate", finished_run, "a", *options).error == error
