"""Validation: the plain loss per token of all held-out pairs, and BLEU of the first of them."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pellucid.config import Recipe, TrainConfig
from pellucid.data.prepare import TrainingData, open_corpus, prepare
from pellucid.evaluation.scores import corpus_scores
from pellucid.run.validation import Validator, _shorten_for_display
from pellucid.tasks.translation import Translation
from pellucid.tasks.translator import Translator
from pellucid.training.log import RunLog
from pellucid.training.validation import Validation


@pytest.fixture(scope="module")
def prepared(finished_run: Path, translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    folder = tmp_path_factory.mktemp("prepared")
    corpus = open_corpus(Recipe.load(finished_run / "recipe.toml").data)
    return prepare(
        corpus, translator.tokenizers, folder / "data", RunLog(folder, 1, quiet=True).log_line, resuming=False
    )


def validate(translator: Translator, prepared: TrainingData, **settings: int) -> Validation:
    with torch.inference_mode():
        return Validator(translator.model, prepared, TrainConfig(**settings))()


def test_the_loss_is_the_mean_over_all_tokens(translator: Translator, prepared: TrainingData) -> None:
    total, tokens = 0.0, 0
    for src, tgt in zip(prepared.valid.source, prepared.valid.target, strict=True):
        source, target = torch.tensor([[*src.tolist(), 2]]), torch.tensor([[1, *tgt.tolist(), 2]])
        logits = translator.model(source, target[:, :-1])
        total += F.cross_entropy(logits[0], target[0, 1:], reduction="sum").item()
        tokens += len(tgt) + 1
    for budget in (10, 4096):
        found = validate(translator, prepared, batch_tokens=budget, decode_and_evaluate=0)
        assert found.loss == pytest.approx(total / tokens, rel=1e-5)
        size = sum(len(f"{target}\n".encode()) for _, target in prepared.valid_pairs)
        assert found.bits_per_byte == pytest.approx(total / math.log(2) / size, rel=1e-5)
        assert (found.bleu, found.sample) == (None, "")


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_bleu_is_of_the_first_sentences_translated_greedily(
    translator: Translator, prepared: TrainingData, count: int
) -> None:
    found = validate(translator, prepared, decode_and_evaluate=count)
    sources, references = zip(*prepared.valid_pairs[:count], strict=True)
    outputs = [t.text for t in translator.translate(sources, beam_size=1)]
    assert (found.bleu, found.chrf, found.tokenizer) == corpus_scores(outputs, references)
    sample = zip(("source", "reference", "output"), (sources[0], references[0], outputs[0]), strict=True)
    assert found.sample == "\n".join(f"  {name:<10} {_shorten_for_display(text)}" for name, text in sample)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Two men walk on a street.", "Two men walk on a street."),
        ("no no no no no", "no no no no no"),
        (" ".join(["man"] * 60) + " .", "man man … (60 times) ."),
        (" ".join(["a man"] * 20), "a man a man … (19 times) a man"),
        ("の" * 30, "のの… (30 times)"),
        ("1 2 3 4 5 6 7 8 9 " * 40, "1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9 … (40 times)"),
        ("".join(chr(256 + n) for n in range(500)), "".join(chr(256 + n) for n in range(299)) + "…"),
        ("", ""),
    ],
)
def test_a_sample_that_repeats_itself_is_cut(text: str, shown: str) -> None:
    assert _shorten_for_display(text) == shown


def test_bleu_is_cut_as_the_script_asks(
    translator: Translator, prepared: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Translator, "translate", lambda self, sources, **_: [Translation("一只黑狗在街上走路", 0.0, [])] * len(sources)
    )
    pairs = [(source, "一只黑狗在街上跑步") for source, _ in prepared.valid_pairs]
    found = validate(translator, replace(prepared, valid_pairs=pairs), decode_and_evaluate=3)
    assert found.tokenizer == "zh"
    assert found.bleu is not None
    assert found.bleu > 40
    assert f"BLEU {found.bleu:.2f} (greedy, tok:zh), chrF {found.chrf:.2f}" in str(found)


def test_without_sentences_to_translate_the_loss_decides(translator: Translator, prepared: TrainingData) -> None:
    found = validate(translator, replace(prepared, valid_pairs=[]))
    assert found.bleu is None
    assert found.loss > 0


@pytest.mark.parametrize(
    ("settings", "count"), [({}, 12), ({"budget": 10.0}, 5), ({"budget": 5.0, "decode_and_evaluate": 7}, 7)]
)
def test_the_choice_at_the_end_is_on_all_sentences_or_as_many_as_the_budget_bears(
    translator: Translator, prepared: TrainingData, settings: dict[str, Any], count: int
) -> None:
    pairs = (prepared.valid_pairs * 12)[:12]
    more = replace(prepared, valid_pairs=pairs)
    config = TrainConfig(**{"decode_and_evaluate": 3} | settings)
    validator = Validator(translator.model, more, config).for_all_text()
    with torch.inference_mode():
        found = validator()
    sources, references = zip(*pairs[:count], strict=True)
    outputs = [t.text for t in translator.translate(sources, beam_size=1)]
    assert found.bleu == corpus_scores(outputs, references)[0]
    assert (
        Validator(translator.model, more, replace(config, decode_and_evaluate=0))
        .for_all_text()
        .config.decode_and_evaluate
        == 0
    )
