"""`pellucid generate`, and what `evaluate` and `score` say of a language model."""

import json
import math
from pathlib import Path

import pytest

from pellucid.data import chunks
from pellucid.run.run import train
from pellucid.tasks.language_model import LanguageModel
from tests.other_tasks import GENERATE, small_recipe_for, write_alphabet
from tests.unit.cli.command_line import CommandLine

PROMPTS = ["a b", "", "c d e f", "h", "g h"]


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder."""
    folder = tmp_path_factory.mktemp("language_model")
    recipe = small_recipe_for(GENERATE, write_alphabet(folder), "", "train.learning_rate=1e-2")
    train(recipe, folder / "run", device="cpu", quiet=True)
    return folder / "run"


@pytest.mark.slow
def test_prompts_and_what_follows_them(language_model: Path, tmp_path: Path, pellucid: CommandLine) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("".join(f"{prompt}\n" for prompt in PROMPTS), encoding="utf-8")
    options = ["--input", str(prompts), "--max-new-tokens", "9"]
    model = LanguageModel.load(language_model, "cpu")
    done = pellucid("generate", str(language_model), *options)
    assert done.out.splitlines() == [
        p + g.text for p, g in zip(PROMPTS, model.generate(PROMPTS, max_new_tokens=9), strict=True)
    ]
    done = pellucid("generate", str(language_model), *options, "--json", "--temperature", "0.9", "--seed", "5")
    drawn = model.generate(PROMPTS, max_new_tokens=9, temperature=0.9, seed=5)
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["text"] for row in rows] == [g.text for g in drawn]
    assert [row["score"] for row in rows] == pytest.approx([g.score for g in drawn], abs=1e-4)
    assert [row["ended"] for row in rows] == [g.ended for g in drawn]


def test_beam_search(language_model: Path, tmp_path: Path, pellucid: CommandLine) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("".join(f"{prompt}\n" for prompt in PROMPTS), encoding="utf-8")
    options = ["--input", prompts, "--max-new-tokens", "6", "--beam-size", "4", "--length-penalty", "0.5"]
    found = LanguageModel.load(language_model, "cpu").generate(
        PROMPTS, max_new_tokens=6, beam_size=4, n_best=3, length_penalty=0.5
    )
    done = pellucid("generate", language_model, *options)
    assert done.out.splitlines() == [p + g.text for p, g in zip(PROMPTS, found, strict=True)]
    done = pellucid("generate", language_model, *options, "--n-best", "3", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [[one["text"] for one in row["alternatives"]] for row in rows] == [
        [one.text for one in g.alternatives] for g in found
    ]
    assert {len(row["alternatives"]) for row in rows} == {3}
    assert sum(row["text"] != row["alternatives"][1]["text"] for row in rows) == len(PROMPTS)


def test_a_stopped_output_goes_on_by_the_same_search_alone(
    language_model: Path, tmp_path: Path, pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beam of 5 is what the model's settings say, and not what it writes by where no beam is asked for."""
    for bound in ("FEWEST", "MOST"):
        monkeypatch.setattr(chunks, bound, 64)
    prompts, output = tmp_path / "prompts.txt", tmp_path / "output.txt"
    run = ("generate", language_model, "--input", prompts, "--output", output, "--max-new-tokens", "1")
    options = ("--beam-size", "5")
    for before in ((), options):
        prompts.write_bytes(b"a b\n" * 64 + b"\xff\n")
        pellucid(*run, *before)
        prompts.write_bytes(b"a b\n" * 65)
        done = pellucid(*run, *options)
        assert ("resuming after line 64: " in done.err) == (before == options)
        assert ("is started over: " in done.err) == (before != options)


def test_evaluate_and_score(language_model: Path, tmp_path: Path, pellucid: CommandLine) -> None:
    text = tmp_path / "text.txt"
    lines = ["a b c d", "b c", "", "ü"]
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    model = LanguageModel.load(language_model, "cpu")
    found = model.token_scores([line for line in lines if line])
    total, tokens = -sum(map(sum, found)), sum(map(len, found))
    scores = json.loads(pellucid("evaluate", str(language_model), "--src", str(text), "--json").out)
    assert (scores["tokens"], scores["bytes"], scores["texts"]) == (tokens, len(text.read_bytes()) - 1, 3)
    assert scores["loss"] == pytest.approx(total / tokens, abs=1e-5)
    assert scores["perplexity"] == pytest.approx(math.exp(total / tokens), rel=1e-5)
    assert scores["bits_per_byte"] == pytest.approx(total / math.log(2) / scores["bytes"], rel=1e-5)
    running = json.loads(
        pellucid("evaluate", str(language_model), "--src", str(text), "--text", "continuous", "--json").out
    )
    assert running["texts"] == 1
    assert running["loss"] == pytest.approx(
        -sum(model.token_scores(["".join(f"{line}\n" for line in lines)], as_lines=False)[0]) / running["tokens"],
        abs=1e-5,
    )
    values = pellucid("score", str(language_model), "--src", str(text)).out.splitlines()
    assert [float(value) for value in values] == pytest.approx(model.score(lines), abs=1e-3)
    counts = [len(scores) for scores in model.token_scores(lines)]
    rows = pellucid("score", str(language_model), "--src", str(text), "--json").out.splitlines()
    for row, score, count in zip(map(json.loads, rows), model.score(lines), counts, strict=True):
        assert (row["tokens"], row["score"], row["mean"]) == (
            count, pytest.approx(score, abs=1e-4), pytest.approx(score / count, abs=1e-4)
        )  # fmt: skip


def test_evaluate_finds_what_training_found(tmp_path: Path, pellucid: CommandLine) -> None:
    """One line in four is blank: training leaves it out, and so does `evaluate`; by the token and by the byte."""
    text = tmp_path / "valid.txt"
    lines = ["a b c d", "b c d e f", " ", "o p q", "h i", "k l ü", "", "m n o p"]
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    recipe = small_recipe_for(GENERATE, write_alphabet(tmp_path), "", f'data.valid_src="{text}"', "train.steps=4")
    kept = train(recipe, tmp_path / "run", device="cpu", quiet=True).valid_loss
    metrics = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    last = next(line for line in metrics if line["loss"] == kept and line["event"] != "train")
    scores = json.loads(pellucid("evaluate", tmp_path / "run", "--src", text, "--json").out)
    # Sums of some 40 terms of single precision, in another order.
    assert scores["loss"] == pytest.approx(last["loss"], rel=40 * 2**-23)
    assert scores["bits_per_byte"] == pytest.approx(last["bits_per_byte"], rel=40 * 2**-23)
    assert scores["texts"] == 6


@pytest.mark.parametrize(
    ("verb", "options", "message"),
    [
        ("evaluate", ["--src", "{src}", "--text", "words"], "`--text words` is unknown"),
        ("evaluate", [], "the text to score `{run}` on is missing: `--src FILE`"),
        ("score", ["--src", "{src}", "--tgt", "{src}"], "`--tgt` has no effect on the language model `{run}`, which"),
        ("score", ["--src", "{src}", "--src-lang", "de"], "`--src-lang` has no effect on the language model `{run}`"),
        ("evaluate", ["--src", "{src}", "--ref", "{src}"], "`--ref` has no effect on `{run}`, a language model"),
        (
            "generate",
            ["--input", "{src}", "--max-new-tokens", "0"],
            "`max_new_tokens` (0) must be at least 1 and at most 1,048,576",
        ),
        (
            "generate",
            ["--input", "{src}", "--max-new-tokens", "2000000000"],
            "`max_new_tokens` (2000000000) must be at least 1 and at most 1,048,576",
        ),
        ("generate", ["--input", "{src}", "--batch-tokens", "0"], "`batch_tokens` (0) must be at least 1"),
        (
            "generate",
            ["--input", "{src}", "--seed", "9" * 30],
            f"`seed` ({'9' * 30}) must be at least 0 and at most 9,223,372,036,854,775,807",
        ),
        (
            "generate",
            ["--input", "{src}", "--n-best", "2"],
            "`--n-best 2` requires --json: plain output has one text per line",
        ),
        (
            "generate",
            ["--input", "{src}", "--n-best", "3", "--beam-size", "2", "--json"],
            "`n_best` (3) cannot exceed `beam_size` (2)",
        ),
        ("generate", ["--input", "{src}", "--beam-size", "0"], "`beam_size` (0) must be at least 1"),
        (
            "generate",
            ["--input", "{src}", "--beam-size", "4", "--top-k", "5"],
            "`--top-k 5` is for sampling, `--beam-size 4` for beam search",
        ),
        ("generate", ["--input", "{src}", "--temperature", "-1"], "`temperature` (-1.0) must be above 0"),
        ("classify", ["--input", "{src}"], "`{run}` holds a language model, not a classifier"),
    ],
)
def test_what_cannot_be_done(
    language_model: Path, tmp_path: Path, pellucid: CommandLine, verb: str, options: list[str], message: str
) -> None:
    names = {"run": str(language_model), "src": write_alphabet(tmp_path, 3)}
    done = pellucid(verb, str(language_model), *(option.format(**names) for option in options))
    assert done.status in (1, 2)
    assert message.format(**names) in done.err
