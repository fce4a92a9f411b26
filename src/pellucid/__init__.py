"""Pellucid: a Transformer toolkit that reads like the paper and runs like an engine.

    import pellucid

    pellucid.train("multi30k-de-en", "run", data_dir="data")
    translator = pellucid.Translator.load("run")
    translator.translate(["Ein Hund läuft über eine Wiese."])[0].text

What stands in `__all__`, here and in `pellucid.weights`, is public; modules below are internals. Names are imported
when they are first used: `import pellucid` itself loads no torch. A public name stands here three times: as an import
for type checkers and editors, in `__all__`, and in `_HOMES`, which hands it out; tests/project/test_public_api.py holds
the three together.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pellucid import weights as weights
    from pellucid.analysis.ablation import Ablation as Ablation
    from pellucid.analysis.align import Alignments as Alignments
    from pellucid.analysis.align import align as align
    from pellucid.analysis.heads import ablate as ablate
    from pellucid.config import DataConfig as DataConfig
    from pellucid.config import DecodeConfig as DecodeConfig
    from pellucid.config import ModelConfig as ModelConfig
    from pellucid.config import Recipe as Recipe
    from pellucid.config import TrainConfig as TrainConfig
    from pellucid.conversion.convert import convert as convert
    from pellucid.conversion.proof import Proof as Proof
    from pellucid.conversion.tutorial import TutorialOptions as TutorialOptions
    from pellucid.data.batching import BatchOrder as BatchOrder
    from pellucid.data.doctor import Check as Check
    from pellucid.data.doctor import doctor as doctor
    from pellucid.decoding.sampling import SamplingConfig as SamplingConfig
    from pellucid.errors import CheckpointError as CheckpointError
    from pellucid.errors import ConfigError as ConfigError
    from pellucid.errors import DataError as DataError
    from pellucid.errors import DecodingError as DecodingError
    from pellucid.errors import PellucidError as PellucidError
    from pellucid.evaluation.evaluate import evaluate as evaluate
    from pellucid.evaluation.scores import Scores as Scores
    from pellucid.model.attention import MultiHeadAttention as MultiHeadAttention
    from pellucid.model.attention import attention as attention
    from pellucid.model.attention import attention_weights as attention_weights
    from pellucid.model.fast.linear import Linear as Linear
    from pellucid.model.feed_forward import FeedForward as FeedForward
    from pellucid.model.layers import DecoderLayer as DecoderLayer
    from pellucid.model.layers import EncoderLayer as EncoderLayer
    from pellucid.model.masks import causal_mask as causal_mask
    from pellucid.model.masks import padding_mask as padding_mask
    from pellucid.model.positions import sinusoids as sinusoids
    from pellucid.model.transformer import DecoderOnly as DecoderOnly
    from pellucid.model.transformer import EncoderOnly as EncoderOnly
    from pellucid.model.transformer import SequenceClassifier as SequenceClassifier
    from pellucid.model.transformer import Transformer as Transformer
    from pellucid.planning.budget import Plan as Plan
    from pellucid.run.folder import RunResult as RunResult
    from pellucid.run.train import plan as plan
    from pellucid.run.train import train as train
    from pellucid.tasks.classifier import Classification as Classification
    from pellucid.tasks.classifier import Classifier as Classifier
    from pellucid.tasks.language_model import Generation as Generation
    from pellucid.tasks.language_model import LanguageModel as LanguageModel
    from pellucid.tasks.tracing import trace as trace
    from pellucid.tasks.translator import Translation as Translation
    from pellucid.tasks.translator import Translator as Translator
    from pellucid.text.tokenizer import Tokenizer as Tokenizer
    from pellucid.text.tokenizers import Tokenizers as Tokenizers
    from pellucid.tracing.file import load_trace as load_trace
    from pellucid.tracing.foreign import trace_hugging_face as trace_hugging_face
    from pellucid.tracing.ready import trace_from_weights as trace_from_weights
    from pellucid.tracing.trace import Token as Token
    from pellucid.tracing.trace import Trace as Trace
    from pellucid.training.interrupts import Interrupted as Interrupted
    from pellucid.training.loss import projected_cross_entropy as projected_cross_entropy
    from pellucid.training.loss import smoothed_cross_entropy as smoothed_cross_entropy
    from pellucid.training.schedule import learning_rate as learning_rate
    from pellucid.views.plots.masks import plot_masks as plot_masks
    from pellucid.views.plots.positions import plot_positions as plot_positions
    from pellucid.views.plots.run import plot_run as plot_run
    from pellucid.views.plots.schedule import plot_schedule as plot_schedule
    from pellucid.views.plots.smoothing import plot_smoothing as plot_smoothing
    from pellucid.views.view import View as View
    from pellucid.views.view import view as view

    __version__: str

__all__ = [
    "Ablation", "Alignments", "BatchOrder", "Check", "CheckpointError", "Classification", "Classifier", "ConfigError",
    "DataConfig", "DataError", "DecodeConfig", "DecoderLayer", "DecoderOnly", "DecodingError", "EncoderLayer",
    "EncoderOnly", "FeedForward", "Generation", "Interrupted", "LanguageModel", "Linear", "ModelConfig",
    "MultiHeadAttention", "PellucidError", "Plan", "Proof", "Recipe", "RunResult", "SamplingConfig", "Scores",
    "SequenceClassifier", "Token", "Tokenizer", "Tokenizers", "Trace", "TrainConfig", "Transformer", "Translation",
    "Translator", "TutorialOptions", "View", "ablate", "align", "attention", "attention_weights", "causal_mask",
    "convert", "doctor", "evaluate", "learning_rate", "load_trace", "padding_mask", "plan", "plot_masks",
    "plot_positions", "plot_run", "plot_schedule", "plot_smoothing", "projected_cross_entropy", "sinusoids",
    "smoothed_cross_entropy", "trace", "trace_from_weights", "trace_hugging_face", "train", "view", "weights",
]  # fmt: skip

_HOMES = {
    "Ablation": "pellucid.analysis.ablation",
    "Alignments": "pellucid.analysis.align",
    "BatchOrder": "pellucid.data.batching",
    "Check": "pellucid.data.doctor",
    "CheckpointError": "pellucid.errors",
    "Classification": "pellucid.tasks.classifier",
    "Classifier": "pellucid.tasks.classifier",
    "ConfigError": "pellucid.errors",
    "DataConfig": "pellucid.config",
    "DataError": "pellucid.errors",
    "DecodeConfig": "pellucid.config",
    "DecoderLayer": "pellucid.model.layers",
    "DecoderOnly": "pellucid.model.transformer",
    "DecodingError": "pellucid.errors",
    "EncoderLayer": "pellucid.model.layers",
    "EncoderOnly": "pellucid.model.transformer",
    "FeedForward": "pellucid.model.feed_forward",
    "Generation": "pellucid.tasks.language_model",
    "Interrupted": "pellucid.training.interrupts",
    "LanguageModel": "pellucid.tasks.language_model",
    "Linear": "pellucid.model.fast.linear",
    "ModelConfig": "pellucid.config",
    "MultiHeadAttention": "pellucid.model.attention",
    "PellucidError": "pellucid.errors",
    "Plan": "pellucid.planning.budget",
    "Proof": "pellucid.conversion.proof",
    "Recipe": "pellucid.config",
    "RunResult": "pellucid.run.folder",
    "SamplingConfig": "pellucid.decoding.sampling",
    "Scores": "pellucid.evaluation.scores",
    "SequenceClassifier": "pellucid.model.transformer",
    "Token": "pellucid.tracing.trace",
    "Tokenizer": "pellucid.text.tokenizer",
    "Tokenizers": "pellucid.text.tokenizers",
    "Trace": "pellucid.tracing.trace",
    "TrainConfig": "pellucid.config",
    "Transformer": "pellucid.model.transformer",
    "Translation": "pellucid.tasks.translator",
    "Translator": "pellucid.tasks.translator",
    "TutorialOptions": "pellucid.conversion.tutorial",
    "View": "pellucid.views.view",
    "ablate": "pellucid.analysis.heads",
    "align": "pellucid.analysis.align",
    "attention": "pellucid.model.attention",
    "attention_weights": "pellucid.model.attention",
    "causal_mask": "pellucid.model.masks",
    "convert": "pellucid.conversion.convert",
    "doctor": "pellucid.data.doctor",
    "evaluate": "pellucid.evaluation.evaluate",
    "learning_rate": "pellucid.training.schedule",
    "load_trace": "pellucid.tracing.file",
    "padding_mask": "pellucid.model.masks",
    "plan": "pellucid.run.train",
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
"""The module of each public name, but for `weights`, which is one itself."""

# A type checker must not see it: a module that hands out any name has no misspelt ones.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return version("pellucid")
        if name == "weights":
            return import_module("pellucid.weights")
        if name not in _HOMES:
            raise AttributeError(f"module `pellucid` has no attribute `{name}`{_meant(name)}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _meant(name: str) -> str:
    from pellucid.errors import did_you_mean

    return did_you_mean(name, __all__)
