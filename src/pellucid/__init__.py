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
    "BatchOrder": "pellucid.data.batching",
    "Classification": "pellucid.tasks.classifier",
    "Classifier": "pellucid.tasks.classifier",
    "CheckpointError": "pellucid.errors",
    "ConfigError": "pellucid.errors",
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
    "DecoderOnly": "pellucid.model.transformer",
    "DecoderLayer": "pellucid.model.layers",
    "EncoderLayer": "pellucid.model.layers",
    "EncoderOnly": "pellucid.model.transformer",
    "FeedForward": "pellucid.model.feed_forward",
    "Interrupted": "pellucid.training.interrupts",
    "Generation": "pellucid.tasks.language_model",
    "LanguageModel": "pellucid.tasks.language_model",
    "ModelConfig": "pellucid.config",
    "MultiHeadAttention": "pellucid.model.attention",
    "PellucidError": "pellucid.errors",
    "Recipe": "pellucid.config",
    "SamplingConfig": "pellucid.decoding.sampling",
    "SequenceClassifier": "pellucid.model.transformer",
    "RunResult": "pellucid.run.folder",
    "Scores": "pellucid.evaluation.scores",
    "TrainConfig": "pellucid.config",
    "Transformer": "pellucid.model.transformer",
    "Token": "pellucid.tracing.trace",
    "Trace": "pellucid.tracing.trace",
    "Translation": "pellucid.tasks.translator",
    "Translator": "pellucid.tasks.translator",
    "View": "pellucid.views.view",
    "attention": "pellucid.model.attention",
    "attention_weights": "pellucid.model.attention",
    "causal_mask": "pellucid.model.masks",
    "evaluate": "pellucid.evaluation.evaluate",
    "load_trace": "pellucid.tracing.file",
    "learning_rate": "pellucid.training.schedule",
    "padding_mask": "pellucid.model.masks",
    "plot_masks": "pellucid.views.plots.masks",
    "plot_positions": "pellucid.views.plots.positions",
    "plot_run": "pellucid.views.plots.run",
    "plot_schedule": "pellucid.views.plots.schedule",
    "plot_smoothing": "pellucid.views.plots.smoothing",
    "projected_cross_entropy": "pellucid.training.loss",
    "sinusoids": "pellucid.model.positions",
    "smoothed_cross_entropy": "pellucid.training.loss",
    "trace": "pellucid.tasks.tracing",
    "trace_from_weights": "pellucid.tracing.ready",
    "trace_hugging_face": "pellucid.tracing.foreign",
    "train": "pellucid.run.train",
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
