"""Pellucid: a Transformer toolkit that reads like the paper and runs like an engine.

    import pellucid

    pellucid.train("multi30k-de-en", "run", data_dir="data")
    translator = pellucid.Translator.load("run")
    translator.translate(["Ein Hund läuft über eine Wiese."])[0].text

Names are imported when they are first used: `import pellucid` itself loads no torch.
"""

from importlib import import_module
from importlib.metadata import version
from typing import Any

_HOMES = {
    "Batch": "pellucid.data.batching",
    "AddedPositions": "pellucid.model.positions",
    "Decoder": "pellucid.model.layers",
    "DecoderCache": "pellucid.model.cache",
    "Distances": "pellucid.model.relative",
    "Dropout": "pellucid.model.fast.dropout",
    "Embeddings": "pellucid.model.embeddings",
    "Encoder": "pellucid.model.layers",
    "LayerCache": "pellucid.model.cache",
    "LearnedPositions": "pellucid.model.positions",
    "Linear": "pellucid.model.fast.linear",
    "Parts": "pellucid.model.parts",
    "positions_of": "pellucid.model.cache",
    "RelativePositions": "pellucid.model.relative",
    "RotaryPositions": "pellucid.model.relative",
    "SinusoidalPositions": "pellucid.model.positions",
    "build_model": "pellucid.model.families",
    "rotate": "pellucid.model.relative",
    "rotation": "pellucid.model.relative",
    "BatchOrder": "pellucid.data.batching",
    "CheckpointEvent": "pellucid.training.events",
    "Classification": "pellucid.tasks.classifier",
    "Classifier": "pellucid.tasks.classifier",
    "CheckpointError": "pellucid.errors",
    "ConfigError": "pellucid.errors",
    "CrossEntropy": "pellucid.training.loss",
    "DataConfig": "pellucid.config",
    "DataError": "pellucid.errors",
    "DecodeConfig": "pellucid.config",
    "DecodingError": "pellucid.errors",
    "Found": "pellucid.decoding.hypothesis",
    "Hypothesis": "pellucid.decoding.hypothesis",
    "Search": "pellucid.decoding.beam",
    "StepModel": "pellucid.decoding.steps",
    "Steps": "pellucid.decoding.steps",
    "beam_search": "pellucid.decoding.beam",
    "greedy_search": "pellucid.decoding.beam",
    "DecoderOnly": "pellucid.model.families",
    "DecoderLayer": "pellucid.model.layers",
    "EncoderLayer": "pellucid.model.layers",
    "EncoderOnly": "pellucid.model.families",
    "EndEvent": "pellucid.training.events",
    "FeedForward": "pellucid.model.feed_forward",
    "Interrupted": "pellucid.training.interrupts",
    "Generation": "pellucid.tasks.language_model",
    "LabelScores": "pellucid.evaluation.label_scores",
    "LanguageModel": "pellucid.tasks.language_model",
    "Losses": "pellucid.training.loss",
    "ModelConfig": "pellucid.config",
    "MultiHeadAttention": "pellucid.model.attention",
    "PellucidError": "pellucid.errors",
    "RDrop": "pellucid.training.loss",
    "Recipe": "pellucid.config",
    "SamplingConfig": "pellucid.config",
    "SequenceClassifier": "pellucid.model.families",
    "Run": "pellucid.run.run",
    "RunResult": "pellucid.run.folder",
    "Scored": "pellucid.tasks.task",
    "Scores": "pellucid.evaluation.scores",
    "Sentence": "pellucid.tasks.translator",
    "StepEvent": "pellucid.training.events",
    "TextModel": "pellucid.tasks.task",
    "TextScores": "pellucid.evaluation.text_scores",
    "TrainConfig": "pellucid.config",
    "Transformer": "pellucid.model.transformer",
    "Tokenizer": "pellucid.text.tokenizer",
    "Tokenizers": "pellucid.text.tokenizers",
    "Token": "pellucid.tracing.tokens",
    "Trace": "pellucid.tracing.trace",
    "Translation": "pellucid.tasks.translator",
    "Translator": "pellucid.tasks.translator",
    "ValidationEvent": "pellucid.training.events",
    "View": "pellucid.views.view",
    "attention": "pellucid.model.attention",
    "attention_weights": "pellucid.model.attention",
    "causal_mask": "pellucid.model.masks",
    "evaluate": "pellucid.tasks.evaluate",
    "make_batch": "pellucid.data.batching",
    "load_trace": "pellucid.tracing.trace",
    "learning_rate": "pellucid.training.schedule",
    "padding_mask": "pellucid.model.masks",
    "plot_masks": "pellucid.views.plots.masks",
    "plot_positions": "pellucid.views.plots.positions",
    "plot_run": "pellucid.views.plots.run",
    "plot_schedule": "pellucid.views.plots.schedule",
    "plot_smoothing": "pellucid.views.plots.smoothing",
    "projected_cross_entropy": "pellucid.training.loss",
    "read_lines": "pellucid.data.lines",
    "read_pairs": "pellucid.data.lines",
    "sinusoids": "pellucid.model.positions",
    "smoothed_cross_entropy": "pellucid.training.loss",
    "trace": "pellucid.tasks.tracing",
    "trace_from_weights": "pellucid.tracing.ready",
    "trace_hugging_face": "pellucid.tracing.foreign",
    "train": "pellucid.run.run",
    "train_tokenizer": "pellucid.text.tokenizer_training",
    "view": "pellucid.views.view",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("pellucid")
    if name == "weights":  # pellucid.weights.from_hugging_face(...) and its like, without an import of their own
        return import_module("pellucid.weights")
    if name not in _HOMES:
        raise AttributeError(f"module `pellucid` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
