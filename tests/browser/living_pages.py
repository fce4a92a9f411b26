"""Pages with a small model in them, and a trace of what it wrote, for the views that ask the model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.tracing.trace import Trace
from pellucid.views.model_page import model_islands
from pellucid.views.page import page
from tests.browser.page_models import random_model

WORDS = (
    "ein",
    "Hund",
    "jagt",
    "den",
    "Ball",
    "auf",
    "der",
    "Wiese",
    "a",
    "dog",
    "chases",
    "the",
    "ball",
    "on",
    "grass",
)
TEXT = "ein Hund jagt den Ball"
SIZES: dict[str, Any] = {"d_model": 16, "num_heads": 2, "d_ff": 24, "dropout": 0.0, "max_positions": 40}


def living(
    family: str = "translator", words: Sequence[str] = WORDS, text: str = TEXT, **fields: Any
) -> tuple[Any, Trace]:
    """A model of a family over these words, two layers deep, and a trace of a text; `fields` are of its config."""
    vocabulary = Vocabulary("spaces", tuple(words))
    both, size = TokenizerPair(vocabulary, vocabulary), vocabulary.size
    settings = {**SIZES, **fields}
    if family == "classifier":
        model = random_model(ModelConfig.encoder(vocab_size=size, num_layers=2, num_classes=3, **settings))
        task: Any = Classifier(model, both, labels=("calm", "wild", "odd"))
        return task, task.trace(text)
    if family == "decoder":
        model = random_model(ModelConfig.decoder(vocab_size=size, num_layers=2, **settings))
        task = LanguageModel(model, both, DecodeConfig(source_prefix=(1,)))
        return task, task.trace(text)
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2}
    model = random_model(ModelConfig(src_vocab_size=size, tgt_vocab_size=size, **layers, **settings))
    with torch.no_grad():
        model.tgt_embedding.tokens.weight[2] *= 0.05  # so that it does not end at once
    task = Translator(model, both, DecodeConfig(beam_size=1, max_length=6))
    return task, task.trace(text)


def write_living_page(path: Path, task: Any, traces: Sequence[Trace], view: str, views: Sequence[str] = ()) -> Path:
    """Writes the page of a model with these traces and views."""
    islands = model_islands(task, "float32")
    path.write_text(page(traces, view=view, views=[view, *views], model=islands), encoding="utf-8")
    return path
