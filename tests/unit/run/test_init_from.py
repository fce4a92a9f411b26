"""`--init-from`: trained weights go on training; what is taken from the model, what may change, what is refused."""

import json
import re
import shutil
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pellucid.config import Recipe
from pellucid.errors import CheckpointError, ConfigError, DecodingError
from pellucid.evaluation.scores import corpus_scores
from pellucid.run.average import average_run
from pellucid.run.folder import RunFolder, read_stored_recipe
from pellucid.run.init_from import apply_finetuning_rate
from pellucid.run.run import train
from pellucid.tasks.translator import Translator
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.weights.folder import DESCRIPTION, read_config
from pellucid.weights.opening import open_folder
from pellucid.weights.tensors import load_tensors
from tests.toy_task import SMALL, reversed_letters, small_recipe, write_pairs
from tests.unit.run.test_run import at_step, interrupt, metrics

GENTLE = ("train.learning_rate=1e-7", "train.schedule=constant")


@pytest.fixture
def base(finished_run: Path, tmp_path: Path) -> Path:
    """A trained model, in a folder that a test may spoil."""
    return shutil.copytree(finished_run, tmp_path / "base")


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    """Other texts than the model was trained on, of the same letters."""
    return write_pairs(tmp_path, reversed_letters(120, seed=3))


def tuned(texts: tuple[str, str], base: Path, out: Path, *settings: str, **options: Any) -> Path:
    """A run that starts from `base`, of a recipe that says nothing of the model."""
    src, tgt = texts
    overrides = [s for s in SMALL if s.startswith("train.")] + [f'data.src="{src}"', f'data.tgt="{tgt}"', *settings]
    train("default", out, overrides=overrides, init_from=base, device="cpu", quiet=True, **options)
    return out


@pytest.mark.slow
def test_tokenizer_and_shape_are_the_models(texts: tuple[str, str], base: Path, tmp_path: Path) -> None:
    run = tuned(texts, base, tmp_path / "run", "model.dropout=0.05", "train.label_smoothing=0.0")
    assert (run / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()
    ours, theirs = read_config(run)["model"], read_config(base)["model"]
    assert ours == theirs | {"dropout": 0.05}
    stored = read_stored_recipe(run)
    assert (stored.model.d_model, stored.data.tokenizer) == (16, "spaces")
    assert (stored.train.init_from, len(stored.train.init_sha256)) == (str(base), 64)
    assert f"| started from | weights with SHA-256 {stored.train.init_sha256} |" in (run / "README.md").read_text()


@pytest.mark.slow
def test_filler_is_no_target_where_every_id_is_a_word(base: Path, tmp_path: Path) -> None:
    """The validation at step 0 is the mean of what `score` says of each pair, however unequal the targets' lengths."""
    table = json.loads((base / DESCRIPTION).read_text(encoding="utf-8"))
    table["model"]["pad_id"] = None
    (base / DESCRIPTION).write_text(json.dumps(table), encoding="utf-8")
    pairs = [(" ".join(src), " ".join(src[: 1 + i % 6])) for i, src in enumerate(permutations("abcdefgh", 6)) if i < 60]
    valid = f"data.valid_src={write_pairs(tmp_path, pairs[:6], 'valid')[0]}"
    of_targets = f"data.valid_tgt={tmp_path / 'valid.tgt'}"
    texts = write_pairs(tmp_path, pairs[6:])
    run = tuned(texts, base, tmp_path / "run", valid, of_targets, "train.steps=1", "train.label_smoothing=0.0", *GENTLE)
    translator = Translator.load(base, device="cpu")
    assert translator.model.config.pad_id is None
    scores = translator.score(*map(list, zip(*pairs[:6], strict=True)))
    tokens = sum(len(target.split()) + 1 for _, target in pairs[:6])
    assert metrics(run)[0]["loss"] == pytest.approx(-sum(scores) / tokens, rel=1e-5)


@pytest.mark.slow
def test_it_begins_with_the_models_weights_and_a_new_schedule(
    texts: tuple[str, str], base: Path, tmp_path: Path
) -> None:
    run = tuned(texts, base, tmp_path / "run", *GENTLE, "train.average=1")
    lines = metrics(run)
    assert (lines[0]["event"], lines[0]["step"], lines[0]["best"]) == ("validation", 0, True)
    rates = [line["learning_rate"] for line in lines if line["event"] == "train"]
    assert rates[:2] == [0.5e-7, 1e-7], "warm-up from step 1"
    last = [line for line in lines if line["event"] == "validation"][-1]
    assert last["loss"] == pytest.approx(lines[0]["loss"], abs=1e-4)
    # Adam's first steps move each weight by about the rate.
    before = load_tensors(base / "model.safetensors")
    for name, weights in load_tensors(run / "model.safetensors").items():
        torch.testing.assert_close(weights, before[name], rtol=0, atol=1e-6)


@pytest.mark.slow
def test_weights_that_only_get_worse_leave_the_first_ones_kept(
    texts: tuple[str, str], base: Path, tmp_path: Path
) -> None:
    spoilt = ("train.learning_rate=30", "train.schedule=constant", "train.average=1", "train.best_metric=loss")
    run = tuned(texts, base, tmp_path / "run", *spoilt)
    assert (run / "model.safetensors").read_bytes() == (base / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 5])
def test_it_resumes_exactly_and_without_the_models_folder(
    texts: tuple[str, str], base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    """Killed before the first checkpoint that is due, and later."""
    expected = tuned(texts, base, tmp_path / "unbroken")
    with monkeypatch.context() as patch:
        at_step(stop, interrupt if stop > 1 else killed, patch)
        with pytest.raises(TrainingInterrupted if stop > 1 else Killed):
            tuned(texts, base, tmp_path / "run")
    shutil.rmtree(base)
    run = tuned(texts, base, tmp_path / "run")
    assert (run / "model.safetensors").read_bytes() == (expected / "model.safetensors").read_bytes()
    assert [(line["event"], line["step"]) for line in metrics(run)] == [
        (line["event"], line["step"]) for line in metrics(expected)
    ]
    assert train(
        "default", run, overrides=[*overrides_of(run), *(s for s in SMALL if s.startswith("train."))], init_from=base
    ).already_finished


class Killed(BaseException):
    """Stands for SIGKILL."""


def killed() -> None:
    raise Killed


def overrides_of(run: Path) -> list[str]:
    data = read_stored_recipe(run).data
    return [f'data.src="{data.src}"', f'data.tgt="{data.tgt}"']


@pytest.mark.slow
def test_another_model_is_refused(texts: tuple[str, str], base: Path, tmp_path: Path) -> None:
    run = tuned(texts, base, tmp_path / "run")
    before = (run / "model.safetensors").read_bytes()
    of_base = f"the weights of `{base}` (SHA-256 {read_stored_recipe(run).train.init_sha256})"
    began = f"^the run in `{run}` was started with {re.escape(of_base)}, this command starts with "
    other = tuned(texts, run, tmp_path / "other")
    with pytest.raises(ConfigError, match=rf"{began}the weights of `{other}` \(SHA-256 [0-9a-f]{{64}}\)$"):
        tuned(texts, other, run)
    plain = [s for s in SMALL if s.startswith("train.")]
    with pytest.raises(ConfigError, match=f"{began}random weights$"):
        train("default", run, overrides=[*overrides_of(run), *plain], quiet=True)
    assert (run / "model.safetensors").read_bytes() == before
    moved = base.rename(tmp_path / "moved")
    assert RunFolder(run).check(replace_start(read_stored_recipe(run), moved), fresh=False), "the same model elsewhere"


def test_a_run_with_random_weights_is_not_gone_on_with(texts: tuple[str, str], base: Path) -> None:
    other = base.parent / "other"
    shutil.copytree(base, other)
    before = (base / "model.safetensors").read_bytes()
    with pytest.raises(ConfigError, match=r"was started with random weights, this command starts with the weights of"):
        tuned(texts, other, base)
    assert (base / "model.safetensors").read_bytes() == before


def replace_start(recipe: Recipe, folder: Path) -> Recipe:
    return replace(recipe, train=replace(recipe.train, init_from=str(folder)))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.d_model=32", "`overrides=model.d_model=32` contradicts `{base}`, which has `d_model = 16`"),
        ("model.norm=post", '`overrides=model.norm=post` contradicts `{base}`, which has `norm = "pre"`'),
        ("model.preset=base", "`overrides=model.preset=base` contradicts `{base}`, which has another shape"),
        ("data.vocab_size=99", "`overrides=data.vocab_size=99` has no effect: the run uses the tokenizer of `{base}`"),
    ],
)
def test_a_setting_that_contradicts_the_model(
    texts: tuple[str, str], base: Path, tmp_path: Path, setting: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message.format(base=base))}$") as error:
        tuned(texts, base, tmp_path / "run", setting)
    assert "leave the setting out" in error.value.hint
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_setting_that_agrees_is_none(texts: tuple[str, str], base: Path, tmp_path: Path) -> None:
    assert tuned(texts, base, tmp_path / "run", "model.d_model=16", "model.final_norm=none").is_dir()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda base: shutil.rmtree(base), "`{base}` is not a model folder: it does not exist"),
        (
            lambda base: (base / "pellucid.json").unlink(),
            "`{base}` lacks pellucid.json, which describes its weights",
        ),
        (lambda base: (base / "model.safetensors").unlink(), "no weights at `{base}/model.safetensors`"),
        (
            lambda base: (base / "model.safetensors").write_bytes(b"x"),
            "`{base}/model.safetensors` (1 bytes) is damaged",
        ),
    ],
)
def test_a_folder_that_holds_no_model(
    texts: tuple[str, str], base: Path, tmp_path: Path, spoil: Any, message: str
) -> None:
    spoil(base)
    with pytest.raises(CheckpointError, match=f"^{re.escape(message.format(base=base))}"):
        tuned(texts, base, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_cannot_start_from_itself(texts: tuple[str, str], base: Path) -> None:
    before = (base / "model.safetensors").read_bytes()
    for fresh in (False, True):
        with pytest.raises(ConfigError, match="cannot be both the initial model and the run folder"):
            tuned(texts, base, base, fresh=fresh)
    assert (base / "model.safetensors").read_bytes() == before


def test_a_recipe_may_say_which_weights_it_means(texts: tuple[str, str], base: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^`train.init_sha256` is abc, but the weights in `.*base` have [0-9a-f]{64}$"
    ):
        tuned(texts, base, tmp_path / "run", "train.init_sha256=abc")


def test_r_drop_needs_dropout(texts: tuple[str, str], tmp_path: Path) -> None:
    recipe = small_recipe(*texts, "train.r_drop=5", "model.dropout=0.0")
    with pytest.raises(ConfigError, match=r"^`train.r_drop` \(5.0\) compares two passes with different dropout, but"):
        train(recipe, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


CODES = {"xx": 4, "yy": 5, "zz": 6}


def of_many_languages(base: Path, **decode: Any) -> Path:
    """`base` as a model with codes of languages, and something around its texts."""
    table = read_config(base)
    table["decode"] |= {
        "source_prefix": [4],
        "source_suffix": [7],
        "target_prefix": [5],
        "suppress_tokens": [8],
    } | decode
    (base / "pellucid.json").write_text(json.dumps(table | {"languages": CODES}), encoding="utf-8")
    return base


@torch.inference_mode()
def loss_around(folder: Path, pairs: list[tuple[str, str]], before: int, behind: list[int], first: int) -> float:
    """The mean over what the decoder writes, `first` included, by a plain pass over each pair."""
    saved = open_folder(folder, torch.device("cpu"))
    config, tokenizers, total, count = saved.model.config, saved.tokenizers, 0.0, 0
    assert tokenizers is not None
    for src, tgt in pairs:
        out = [first, *tokenizers.target.encode(tgt), config.eos_id]
        given = [before, *tokenizers.source.encode(src), *behind]
        logits = saved.model(torch.tensor([given]), torch.tensor([[config.bos_id, *out[:-1]]]))[0]
        total += float(F.cross_entropy(logits, torch.tensor(out), reduction="sum"))
        count += len(out)
    return total / count


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.slow
def test_what_stands_around_texts_is_the_models(
    ended: bool, texts: tuple[str, str], base: Path, tmp_path: Path
) -> None:
    of_many_languages(base, add_source_eos=ended)
    pairs = reversed_letters(9, seed=5)
    valid = write_pairs(tmp_path, pairs, "valid")
    settings = (f'data.valid_src="{valid[0]}"', f'data.valid_tgt="{valid[1]}"', *GENTLE, "train.average=1")
    run = tuned(texts, base, tmp_path / "run", *settings)
    end = [read_config(base)["model"]["eos_id"]] if ended else []
    expected = loss_around(base, pairs, 4, [*end, 7], 5)
    assert metrics(run)[0]["loss"] == pytest.approx(expected, abs=1e-4)
    greedy = Translator.load(base, "cpu").translate([src for src, _ in pairs[:4]], beam_size=1, max_length=None)
    assert metrics(run)[0]["bleu"] == corpus_scores([t.text for t in greedy], [tgt for _, tgt in pairs[:4]])[0]
    ours, theirs = read_config(run), read_config(base)
    assert ours["languages"] == CODES
    assert ours["decode"] == theirs["decode"]
    lines = [src for src, _ in pairs]
    assert [t.text for t in Translator.load(run, "cpu").translate(lines)] == [
        t.text for t in Translator.load(base, "cpu").translate(lines)
    ]
    averaged = tmp_path / "averaged"
    average_run(tuned(texts, base, tmp_path / "two", *settings, "train.average=2"), averaged)
    assert read_config(averaged)["languages"] == CODES


@pytest.mark.slow
def test_the_languages_that_are_given_and_settings_that_win(texts: tuple[str, str], base: Path, tmp_path: Path) -> None:
    of_many_languages(base, length_penalty=0.5)
    spoken = {"source_language": "yy", "target_language": "zz"}
    run = tuned(texts, base, tmp_path / "run", "decode.suppress_tokens=[]", "decode.beam_size=5", **spoken)
    decode = read_config(run)["decode"]
    assert (decode["source_prefix"], decode["target_prefix"], decode["source_suffix"]) == ([5], [6], [7])
    assert (decode["suppress_tokens"], decode["beam_size"], decode["length_penalty"]) == ([], 5, 0.5)
    with pytest.raises(
        ConfigError, match=r"^the run in .* has `decode.target_prefix = \[6\]`, this command `.*\[4\]`$"
    ):
        tuned(
            texts,
            base,
            run,
            "decode.suppress_tokens=[]",
            "decode.beam_size=5",
            source_language="yy",
            target_language="xx",
        )
    with pytest.raises(ConfigError, match=r'^unknown `target_language="qq"`'):
        tuned(texts, base, tmp_path / "other", target_language="qq")
    shutil.rmtree(base)
    same = "decode.suppress_tokens=[]", "decode.beam_size=5"
    tuned(texts, base, run, *same, **spoken)
    with pytest.raises(ConfigError, match=r"has `decode.target_prefix = \[6\]`, this command `.*\[4\]`$"):
        tuned(texts, base, run, *same, target_language="xx")


@pytest.mark.slow
def test_languages_that_are_missing_or_of_no_use(texts: tuple[str, str], base: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^languages are given \(`xx`\), but `target_language=` is missing"):
        tuned(texts, base, tmp_path / "run", source_language="xx")
    with pytest.raises(ConfigError, match=r"^languages are given \(`xx`\), but `source_language=` is missing"):
        train("default", tmp_path / "run", target_language="xx", quiet=True)
    with pytest.raises(ConfigError, match=r"^`target_language=` has 'x-y', which is not a language code: "):
        train("default", tmp_path / "run", source_language="xx", target_language="x-y", quiet=True)
    with pytest.raises(ConfigError, match=r'^languages are given \(`xx` and `yy`\), but `task = "generate"` has no'):
        train("tiny-shakespeare", tmp_path / "run", source_language="xx", target_language="yy", quiet=True)
    of_many_languages(base, target_prefix=[])
    with pytest.raises(ConfigError, match=r"3 languages, and `target_language=` is not given$"):
        tuned(texts, base, tmp_path / "run")
    of_many_languages(base, suppress_tokens=[999])
    with pytest.raises(DecodingError, match=r"^`suppress_tokens` holds the id 999"):
        tuned(texts, base, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_language_pair_stays_until_the_command_names_another(
    texts: tuple[str, str], base: Path, tmp_path: Path
) -> None:
    first = tuned(texts, base, tmp_path / "first", *GENTLE, source_language="de", target_language="pt_BR")
    assert read_config(first)["text"]["pairs"] == ["de-pt_BR"]
    assert read_stored_recipe(first).languages == ("de", "pt_BR")
    translator = Translator.load(first, "cpu")
    translator.save(tmp_path / "saved")
    assert Translator.load(tmp_path / "saved", "cpu").pairs == translator.pairs == ("de-pt_BR",)
    again = tuned(texts, first, tmp_path / "again", *GENTLE)
    assert Translator.load(again, "cpu").pairs == ("de-pt_BR",), "its texts, train.src and train.tgt, name no language"
    other = tuned(texts, first, tmp_path / "other", *GENTLE, source_language="de", target_language="nl")
    assert Translator.load(other, "cpu").pairs == ("de-nl",)
    assert Translator.load(base, "cpu").pairs == ()


@pytest.mark.parametrize(
    ("recipe", "given", "rates"),
    [
        ("default", (), ("linear", 2e-4, 100)),
        ("default", ("train.steps=60",), ("linear", 2e-4, 6)),
        ("default", ("train.learning_rate=1e-4",), ("linear", 1e-4, 100)),
        ("default", ("train.warmup_steps=300",), ("linear", 2e-4, 300)),
        ("wmt14-en-de-base", (), ("inverse_sqrt", (512 * 4000) ** -0.5 / 20, 400)),
        ("wmt14-en-de-base", ("train.schedule=noam",), ("noam", None, 4000)),
    ],
)
def test_trained_weights_have_a_rate_of_their_own(recipe: str, given: tuple[str, ...], rates: Any) -> None:
    loaded = Recipe.load(recipe, list(given))
    found = apply_finetuning_rate(loaded, {each.partition("=")[0] for each in given}, None).train
    assert (found.schedule, found.learning_rate, found.warmup_steps) == pytest.approx(rates)
    fixed = {"schedule", "learning_rate", "warmup_steps"}
    same = replace(found, **{name: getattr(loaded.train, name) for name in fixed})
    assert same == loaded.train, "nothing else changes"


def test_a_rate_that_ends_above_zero_ends_lower_too() -> None:
    before = Recipe.load("tiny-shakespeare").train
    found = apply_finetuning_rate(Recipe.load("tiny-shakespeare"), (), None).train
    assert found.final_learning_rate == pytest.approx(before.final_learning_rate / 20)


def test_the_matrices_of_muon_have_a_lower_rate_too() -> None:
    loaded = Recipe.load("default", ["train.optimizer=muon"])
    assert apply_finetuning_rate(loaded, (), None).train.muon_learning_rate == pytest.approx(0.01 / 20)
    assert apply_finetuning_rate(loaded, ("train.muon_learning_rate",), None).train.muon_learning_rate == 0.01


@pytest.mark.slow
def test_the_command_that_names_the_model_lowers_the_rate(texts: tuple[str, str], base: Path, tmp_path: Path) -> None:
    own = Recipe.load("default").train.learning_rate
    assert own is not None
    assert read_stored_recipe(tuned(texts, base, tmp_path / "run")).train.learning_rate == pytest.approx(own / 20)
    named = small_recipe(*texts, f'train.init_from="{base}"')
    train(named, tmp_path / "named", device="cpu", quiet=True)
    assert read_stored_recipe(tmp_path / "named").train.learning_rate == own, (
        "a recipe that names its start has its own"
    )


@pytest.mark.slow
def test_a_run_that_began_at_the_full_rate_goes_on_with_it(
    texts: tuple[str, str], base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As earlier versions began them."""
    with monkeypatch.context() as patch:
        patch.setattr("pellucid.run.settings.apply_finetuning_rate", lambda recipe, *_: recipe)
        at_step(3, interrupt, patch)
        with pytest.raises(TrainingInterrupted):
            tuned(texts, base, tmp_path / "run")
    before = read_stored_recipe(tmp_path / "run")
    assert read_stored_recipe(tuned(texts, base, tmp_path / "run")) == before


@pytest.mark.slow
def test_what_can_only_get_worse_stays_as_it_was(texts: tuple[str, str], base: Path, tmp_path: Path) -> None:
    """With means to choose from, too: a model that has learned its text by heart, and a rate that spoils it."""
    by_heart = ("train.steps=150", "train.learning_rate=3e-3", "model.dropout=0", "train.validate_every=50")
    learned = tuned(texts, base, tmp_path / "learned", *by_heart, "train.save_every=50")
    spoilt = tuned(texts, learned, tmp_path / "spoilt", "train.learning_rate=30", "train.average=2")
    assert (spoilt / "model.safetensors").read_bytes() == (learned / "model.safetensors").read_bytes()
    result = json.loads((spoilt / "result.json").read_text(encoding="utf-8"))
    assert (result["kept"], result["best_step"]) == ("the best validation (step 0)", 0)
