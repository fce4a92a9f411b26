"""The shipped recipes on texts that lie as they expect them: every setting is carried through a few steps."""

import gzip
from pathlib import Path

import pytest
import torch

from pellucid.config import Recipe, list_shipped_recipes
from pellucid.data.dates import split_dates
from pellucid.data.locate import TEXT_FIELDS
from pellucid.model.transformer import Transformer
from pellucid.run.run import train
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.translator import Translator

WITH_TEXTS = [name for name in list_shipped_recipes() if Recipe.load(name).data.src]
OF_EACH_KIND = ("multi30k-de-en", "sst2")
"""The recipes that stand for the others where tests are to be fast."""
WMT = ["wmt14-en-de-base", "wmt14-en-de-big"]

SHORT = ("train.steps=2", "train.save_every=1", "train.average=2", "train.decode_and_evaluate=2", "train.log_every=1")
SMALL = ("model.d_model=16", "model.d_ff=32", "model.num_heads=2")
"""Settings that make a run of seconds; all others are the recipe's."""


def write_stand_ins(recipe: Recipe, folder: Path) -> None:
    """Dates in place of each text that the recipe names, at the place where it looks for it."""
    pairs, _ = split_dates(60, seed=1, held_out=5)
    for field in TEXT_FIELDS:
        for path in recipe.data.files(field):
            lines = [pair["tgt" in field] for pair in pairs]
            if recipe.task == "classify":  # as columns: a date, and whether its year is even
                lines = [f"{source}\t{int(target[3]) % 2}" for source, target in pairs]
            body = "".join(f"{line}\n" for line in lines).encode()
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(gzip.compress(body) if path.endswith(".gz") else body)


def run(name: str, folder: Path, *settings: str) -> Path:
    """The folder of a run of the recipe on stand-ins."""
    layers = Recipe.load(name).model
    depth = [f"model.{key}=1" for key in ("num_encoder_layers", "num_decoder_layers") if getattr(layers, key)]
    recipe = Recipe.load(name, [*SHORT, *(depth if SMALL[0] in settings else []), *settings])
    write_stand_ins(recipe, folder / "data")
    result = train(recipe, folder / "run", data_dir=folder / "data", offline=True, device="cpu", quiet=True)
    assert result.steps == 2
    return folder / "run"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in OF_EACH_KIND else [pytest.mark.slow]) for name in WITH_TEXTS]
)
def test_a_recipe_runs(name: str, tmp_path: Path) -> None:
    """All but the size of its model."""
    folder, recipe = run(name, tmp_path, *SMALL), Recipe.load(name)
    if recipe.task == "classify":
        assert Classifier.load(folder, "cpu").classify(["5 May 2020"])[0].label in ("0", "1")
    elif recipe.task == "generate":
        assert len(LanguageModel.load(folder, "cpu").generate(["5 May"], max_new_tokens=3)) == 1
    else:
        translator = Translator.load(folder, "cpu")
        assert len(translator.translate(["5 May 2020"])) == 1
        asked, kept = recipe.decode, translator.decode
        assert (kept.beam_size, kept.length_penalty) == (asked.beam_size, asked.length_penalty)
    corpora = len(recipe.data.files("src"))
    stored = Recipe.load(folder / "recipe.toml")
    assert [Path(path).is_file() for path in stored.data.files("src")] == [True] * corpora


@pytest.mark.slow
def test_the_base_model_runs_in_its_full_width(tmp_path: Path) -> None:
    folder = run("wmt14-en-de-base", tmp_path, "train.save_every=2", "train.average=1")
    shared = Translator.load(folder, "cpu").model
    assert shared.config.d_model == 512


@pytest.mark.parametrize(("name", "millions"), [(WMT[0], 63.08), (WMT[1], 214.25)])
def test_the_paper_has_as_many_parameters(name: str, millions: float) -> None:
    """Table 3 has 65 and 213 million, with a vocabulary of about 37,000."""
    recipe = Recipe.load(name)
    assert recipe.data.joint_vocab
    sizes = [f"model.{side}_vocab_size={recipe.data.vocab_size}" for side in ("src", "tgt")]
    with torch.device("meta"):
        model = Transformer(Recipe.load(name, sizes).model)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.01)


@pytest.mark.parametrize(
    ("name", "steps", "averaged", "dropout"), [(WMT[0], 100_000, 5, 0.1), (WMT[1], 300_000, 20, 0.3)]
)
def test_the_paper_is_trained_so(name: str, steps: int, averaged: int, dropout: float) -> None:
    """Sections 5.1 to 5.4 and 6.1."""
    recipe = Recipe.load(name)
    train, decode = recipe.train, recipe.decode
    assert (train.steps, train.average, recipe.model.dropout) == (steps, averaged, dropout)
    assert train.batch_tokens * train.accumulate == 25_000
    assert (train.schedule, train.warmup_steps, train.label_smoothing) == ("noam", 4000, 0.1)
    assert (train.adam_beta1, train.adam_beta2, train.adam_eps) == (0.9, 0.98, 1e-9)
    assert (recipe.data.tokenizer, recipe.data.vocab_size, decode.beam_size) == ("bpe", 37_000, 4)


def test_the_length_penalty_is_worth_as_much_as_the_papers() -> None:
    """The slope of the logarithm of ((5 + n) / 6) ** 0.6 by that of n, at 25 tokens."""
    length = 25.0
    paper = (0.6 * torch.log(torch.tensor((5 + length * 1.001, 5 + length)) / 6)).diff().abs()
    ours = torch.log(torch.tensor((length * 1.001, length))).diff().abs()
    assert float(paper / ours) == pytest.approx(Recipe.load(WMT[0]).decode.length_penalty, abs=0.01)
