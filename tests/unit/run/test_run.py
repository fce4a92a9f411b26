"""Training as a whole: what a run folder holds, what is said of a finished run, what a failure leaves."""

import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config import ModelConfig, Recipe
from pellucid.errors import ConfigError, DataError, PellucidError
from pellucid.planning.settings import fit_to_tokenizers
from pellucid.run.folder import read_stored_recipe
from pellucid.run.run import Run, plan, train
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.training import precision
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.log import RunLog
from tests.toy_task import reversed_letters, small_recipe, write_pairs

MODEL_FILES = [
    "README.md", "config.json", "pellucid.json", "model.safetensors", "vocabulary.json", "tokenizer.json",
    "tokenizer_config.json",
]  # fmt: skip


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    return write_pairs(tmp_path, reversed_letters(120))


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def at_step(step: int, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a run do something when it reports a step."""
    report = RunLog.progress

    def reported(log: RunLog, now: int, text: str) -> None:
        report(log, now, text)
        if now == step:
            act()

    monkeypatch.setattr(RunLog, "progress", reported)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_run_folder_is_a_model_folder(finished_run: Path) -> None:
    names = {path.name for path in finished_run.iterdir()}
    assert names >= {*MODEL_FILES, "recipe.toml", "metrics.jsonl", "result.json", "checkpoints", "data"}
    assert not any(name.startswith(".") for name in names)
    translations = Translator.load(finished_run, "cpu").translate(["a b c", ""])
    assert translations[1].text == ""
    stored = Recipe.load(finished_run / "recipe.toml")
    assert stored == small_recipe(str(finished_run.parent / "train.src"), str(finished_run.parent / "train.tgt"))


def test_a_model_names_no_place_and_no_time(finished_run: Path) -> None:
    for name in MODEL_FILES:
        data = (finished_run / name).read_bytes()
        assert str(finished_run.parent).encode() not in data, name
        assert not re.search(rb"\b20\d\d-\d\d", data), name
    card = (finished_run / "README.md").read_text(encoding="utf-8")
    assert "train.src" not in card
    assert "default" not in card, "the recipe's name says nothing of the model"


@pytest.mark.slow
@pytest.mark.parametrize(("average", "kept"), [(2, "candidate"), (1, "validation")])
def test_the_result_is_of_the_weights_that_are_kept(
    tmp_path: Path, texts: tuple[str, str], average: int, kept: str
) -> None:
    # A rate far too high, so that the best validation is not the last.
    settings = [f"train.average={average}", "train.learning_rate=0.3", "train.validate_every=1"]
    result = train(small_recipe(*texts, *settings), tmp_path / "run", quiet=True)
    lines = [line for line in metrics(tmp_path / "run") if line["event"] == kept]
    found = [line for line in lines if line.get("best") or line.get("kept")][-1]
    assert (result.valid_loss, result.valid_bleu) == (found["loss"], found["bleu"])
    assert (result.steps, result.folder, result.already_finished) == (6, str(tmp_path / "run"), False)
    if kept == "validation":
        assert found["step"] == result.best_step < 6
    again = Translator.load(tmp_path / "run", "cpu")
    assert sum(p.numel() for p in again.model.parameters()) > 0


def test_a_finished_run_is_left_alone_and_says_so(finished_run: Path) -> None:
    before = contents(finished_run)
    recipe = Recipe.load(finished_run / "recipe.toml")
    result = train(recipe, finished_run)
    assert result.already_finished
    assert (result.steps, result.folder) == (6, str(finished_run))
    assert contents(finished_run) == before
    with pytest.raises(ConfigError, match=re.escape("has `train.steps = 6`, this command `train.steps = 7`")):
        train(replace(recipe, train=replace(recipe.train, steps=7)), finished_run)
    assert contents(finished_run) == before


def test_a_recipe_by_name_with_overrides(tmp_path: Path, texts: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=r'`overrides=\["train\.steps"\]` has no value'):
        train("default", tmp_path / "run", overrides=["train.steps"])
    with pytest.raises(DataError, match=r"no file `multi30k/train\.de\.gz`; looked for"):
        train("multi30k-de-en", tmp_path / "run", data_dir=tmp_path)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda src: src.write_bytes(b""), "`.*train.src` has 0 and `.*train.tgt` 120"),
        (lambda src: src.write_bytes("ä\n".encode("latin-1") * 120), "line 1, byte 1 is 0xe4"),
        (lambda src: (src.unlink(), src.mkdir()), "is a folder, not a text file"),
        (lambda src: src.unlink(), "no file `"),
    ],
)
def test_a_text_that_cannot_be_used_leaves_no_folder(
    tmp_path: Path, texts: tuple[str, str], spoil: Callable[[Path], object], message: str
) -> None:
    spoil(Path(texts[0]))
    with pytest.raises(DataError, match=message):
        train(small_recipe(*texts), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_failure_under_fresh_leaves_the_earlier_run(finished_run: Path, tmp_path: Path) -> None:
    before = contents(finished_run)
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(DataError, match="are empty"):
        train(small_recipe(str(empty), str(empty)), finished_run, fresh=True)
    with pytest.raises(ConfigError, match=r"^device `meta` is not available on this machine$"):
        train(small_recipe(str(empty), str(empty)), finished_run, fresh=True, device="meta")
    assert contents(finished_run) == before


@pytest.mark.slow
@pytest.mark.parametrize("place", ["pellucid.data.shards._encode", "pellucid.data.prepare.train_tokenizer"])
def test_stopped_before_step_1_the_same_command_goes_on(
    tmp_path: Path, texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, stopped)
        with pytest.raises(KeyboardInterrupt):
            train(small_recipe(*texts), tmp_path / "run", quiet=True)
    assert train(small_recipe(*texts), tmp_path / "run", quiet=True).steps == 6
    assert sorted(path.name for path in (tmp_path / "run" / "data").iterdir()) == ["train", "valid"]


@pytest.mark.slow
def test_a_setting_that_fails_before_step_1_can_be_mended(tmp_path: Path, texts: tuple[str, str]) -> None:
    bad = small_recipe(*texts, "data.tokenizer=bpe", "data.vocab_size=100")
    with pytest.raises(ConfigError, match=r"`vocab_size` \(100\) is too small"):
        train(bad, tmp_path / "run", quiet=True)
    assert train(small_recipe(*texts), tmp_path / "run", quiet=True).steps == 6


def test_a_training_that_diverges_before_it_validates_says_so(tmp_path: Path, texts: tuple[str, str]) -> None:
    settings = "train.learning_rate=1e30", "train.schedule=constant", "train.validate_every=1", "train.warmup_steps=1"
    with pytest.raises(PellucidError, match=r"training has diverged|the loss is not finite") as caught:
        train(small_recipe(*texts, *settings), tmp_path / "run", quiet=True)
    assert (caught.value.exit_status, "`train.learning_rate`" in caught.value.hint) == (1, True)


@pytest.mark.slow
def test_embeddings_begin_as_large_as_is_said_and_a_start_keeps_its_own(
    texts: tuple[str, str], finished_run: Path, tmp_path: Path
) -> None:
    def tables(*settings: str) -> list[torch.Tensor]:
        model = Run(small_recipe(*texts, *settings), tmp_path / "run", device="cpu").model
        return [model.state_dict()[f"{side}_embedding.tokens.weight"] for side in ("src", "tgt")]

    for tied in ("all", "decoder"):
        tie = f"model.tie_embeddings={tied}"
        for whole, small in zip(tables(tie), tables(tie, "train.embedding_init_scale=0.25"), strict=True):
            assert torch.equal(small, whole * 0.25), tied
    start = f'train.init_from="{finished_run}"'
    assert all(map(torch.equal, tables(start), tables(start, "train.embedding_init_scale=0.25")))
    with pytest.raises(ConfigError, match=r"`embedding_init_scale` \(0.0\) must be above 0"):
        small_recipe(*texts, "train.embedding_init_scale=0.0")


def test_a_seed_that_no_generator_takes_is_refused_at_once(tmp_path: Path, texts: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"^`seed` \(9{30}\) must be at most 9,223,372,036,854,775,807$"):
        small_recipe(*texts, f"train.seed={'9' * 30}")
    assert small_recipe(*texts, f"train.seed={2**63 - 1}").train.seed == 2**63 - 1


def test_two_vocabularies_cannot_share_one_matrix(tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path, [(letters, "x") for letters, _ in reversed_letters(120)])
    recipe = small_recipe(src, tgt, "data.joint_vocab=false")
    with pytest.raises(
        ConfigError, match=r'^`tie_embeddings = "all"` needs one vocabulary, but `src_vocab_size` is 12'
    ):
        train(recipe, tmp_path / "run", quiet=True)


@pytest.mark.slow
def test_another_text_under_an_interrupted_run_is_an_error(
    tmp_path: Path, texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        at_step(3, interrupt, patch)
        with pytest.raises(TrainingInterrupted, match="SIGINT"):
            train(small_recipe(*texts), run, quiet=True)
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["step-00000002", "step-00000003"]
    Translator.load(run, "cpu")  # the first validation was at step 3
    before = contents(run)
    write_pairs(tmp_path, reversed_letters(120, seed=2))
    with pytest.raises(
        DataError, match=f"^the texts differ from those that the run in `{re.escape(str(run))}` was started with$"
    ):
        train(small_recipe(*texts), run, quiet=True)
    assert contents(run) == before
    fresh = train(small_recipe(*texts), run, fresh=True, quiet=True)
    assert (fresh.steps, [line["step"] for line in metrics(run) if line["event"] == "train"]) == (6, [1, 2, 3, 4, 5, 6])


@pytest.mark.slow
def test_a_run_says_what_it_does_on_stderr(
    tmp_path: Path, texts: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    train(small_recipe(*texts), tmp_path / "run", quiet=True)
    assert capsys.readouterr() == ("", "")
    train(small_recipe(*texts), tmp_path / "run", fresh=True)
    said = capsys.readouterr()
    assert said.out == ""
    for text in ("vocabulary: 12 (", "training: ", "parameters on ", "step 6: loss ", "mean of the last 2 checkpoints"):
        assert text in said.err


@pytest.mark.slow
def test_a_plan_writes_nothing(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it take the folder that it is made in for a run's."""
    before = contents(finished_run)
    texts = [str(finished_run.parent / f"train.{side}") for side in ("src", "tgt")]
    monkeypatch.chdir(finished_run)
    recipe = Recipe.load("default", [f'data.src="{texts[0]}"', f'data.tgt="{texts[1]}"'])
    found = plan(recipe, "15m", init_from=".", device="cpu")
    assert (found.recipe.model.d_model, found.request.fixed_text) == (16, "the shape of .")
    assert contents(finished_run) == before


def test_the_model_takes_its_sizes_and_ids_from_the_tokenizers() -> None:
    source, target = Vocabulary("spaces", ("a", "b")), Vocabulary("characters", ("a",), byte_fallback=True)
    config = fit_to_tokenizers(ModelConfig(d_model=64, pad_id=9, eos_id=8), TokenizerPair(source, target))
    assert (config.src_vocab_size, config.tgt_vocab_size, config.d_model) == (6, 261, 64)
    assert (config.pad_id, config.bos_id, config.eos_id) == (0, 1, 2)


@pytest.mark.slow
def test_no_source_is_longer_than_what_was_trained_on(
    finished_run: Path, tmp_path: Path, texts: tuple[str, str]
) -> None:
    assert Translator.load(finished_run, "cpu").decode.max_source_length == 256
    train(small_recipe(*texts, "model.max_positions=20"), tmp_path / "run", quiet=True)
    assert Translator.load(tmp_path / "run", "cpu").decode.max_source_length == 19


@pytest.mark.slow
@pytest.mark.parametrize(("gain", "chosen"), [(2.0, "bfloat16"), (1.0, "float32")])
def test_auto_takes_the_precision_that_is_fast_here(
    tmp_path: Path, texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch, gain: float, chosen: str
) -> None:
    recipe = small_recipe(*texts, "train.precision=auto")
    monkeypatch.setattr(precision, "bfloat16_gain", lambda device: gain)
    train(recipe, tmp_path / "run", device="cpu", quiet=True)
    assert read_stored_recipe(tmp_path / "run").train.precision == chosen
    # Decided once: the run is the same on a day when the machine measures otherwise.
    monkeypatch.setattr(precision, "bfloat16_gain", lambda device: 3.0 - gain)
    assert train(recipe, tmp_path / "run", device="cpu", quiet=True).already_finished


def test_a_rate_that_is_far_too_high_is_named(texts: tuple[str, str], tmp_path: Path) -> None:
    """Weights of 1e30 are still numbers, what they give is none: validation meets it before the next step does."""
    settings = ["train.learning_rate=1e30", "train.warmup_steps=1", "train.validate_every=1", "train.grad_clip=1"]
    with pytest.raises(
        PellucidError, match=r"^the loss is not finite in the validation after step 1 .*1e\+30"
    ) as error:
        train(small_recipe(*texts, *settings), tmp_path / "run", quiet=True)
    assert (type(error.value), error.value.exit_status) == (PellucidError, 1)
