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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pellucid import weights as weights
    from pellucid.analysis.ablation import Ablation as Ablation
    from pellucid.analysis.align import Alignments as Alignments
    from pellucid.analysis.align import align as align
    from pellucid.analysis.contributions import Contributions as Contributions
    from pellucid.analysis.contributions import contributions as contributions
    from pellucid.analysis.heads import ablate as ablate
    from pellucid.analysis.lens import Lens as Lens
    from pellucid.analysis.lens import lens as lens
    from pellucid.analysis.occlusion import Attribution as Attribution
    from pellucid.analysis.occlusion import attribute as attribute
    from pellucid.config import DataConfig as DataConfig
    from pellucid.config import DecodeConfig as DecodeConfig
    from pellucid.config import ModelConfig as ModelConfig
    from pellucid.config import Recipe as Recipe
    from pellucid.config import SamplingConfig as SamplingConfig
    from pellucid.config import TrainConfig as TrainConfig
    from pellucid.conversion.convert import convert as convert
    from pellucid.conversion.proof import Proof as Proof
    from pellucid.conversion.tutorial import TutorialOptions as TutorialOptions
    from pellucid.data.batching import Batch as Batch
    from pellucid.data.batching import BatchOrder as BatchOrder
    from pellucid.data.batching import make_batch as make_batch
    from pellucid.data.doctor import Check as Check
    from pellucid.data.doctor import doctor as doctor
    from pellucid.data.lines import read_lines as read_lines
    from pellucid.data.lines import read_pairs as read_pairs
    from pellucid.decoding.beam import Search as Search
    from pellucid.decoding.beam import beam_search as beam_search
    from pellucid.decoding.beam import greedy_search as greedy_search
    from pellucid.decoding.hypothesis import Found as Found
    from pellucid.decoding.hypothesis import Hypothesis as Hypothesis
    from pellucid.decoding.steps import StepModel as StepModel
    from pellucid.decoding.steps import Steps as Steps
    from pellucid.errors import CheckpointError as CheckpointError
    from pellucid.errors import ConfigError as ConfigError
    from pellucid.errors import DataError as DataError
    from pellucid.errors import DecodingError as DecodingError
    from pellucid.errors import PellucidError as PellucidError
    from pellucid.evaluation.label_scores import LabelScores as LabelScores
    from pellucid.evaluation.scores import Scores as Scores
    from pellucid.evaluation.text_scores import TextScores as TextScores
    from pellucid.examining.examine import examine as examine
    from pellucid.examining.resume import verify_resume as verify_resume
    from pellucid.examining.subject import ModelCheck as ModelCheck
    from pellucid.model.attention import MultiHeadAttention as MultiHeadAttention
    from pellucid.model.attention import attention as attention
    from pellucid.model.attention import attention_weights as attention_weights
    from pellucid.model.cache import DecoderCache as DecoderCache
    from pellucid.model.cache import LayerCache as LayerCache
    from pellucid.model.embeddings import Embeddings as Embeddings
    from pellucid.model.families import DecoderOnly as DecoderOnly
    from pellucid.model.families import EncoderOnly as EncoderOnly
    from pellucid.model.families import SequenceClassifier as SequenceClassifier
    from pellucid.model.families import build_model as build_model
    from pellucid.model.fast.dropout import Dropout as Dropout
    from pellucid.model.fast.linear import Linear as Linear
    from pellucid.model.feed_forward import FeedForward as FeedForward
    from pellucid.model.layers import Decoder as Decoder
    from pellucid.model.layers import DecoderLayer as DecoderLayer
    from pellucid.model.layers import Encoder as Encoder
    from pellucid.model.layers import EncoderLayer as EncoderLayer
    from pellucid.model.masks import causal_mask as causal_mask
    from pellucid.model.masks import padding_mask as padding_mask
    from pellucid.model.parts import Parts as Parts
    from pellucid.model.positions import AddedPositions as AddedPositions
    from pellucid.model.positions import LearnedPositions as LearnedPositions
    from pellucid.model.positions import SinusoidalPositions as SinusoidalPositions
    from pellucid.model.positions import sinusoids as sinusoids
    from pellucid.model.relative import Distances as Distances
    from pellucid.model.relative import RelativePositions as RelativePositions
    from pellucid.model.relative import RotaryPositions as RotaryPositions
    from pellucid.model.relative import positions_of as positions_of
    from pellucid.model.relative import rotate as rotate
    from pellucid.model.relative import rotation as rotation
    from pellucid.model.transformer import Transformer as Transformer
    from pellucid.planning.budget import Plan as Plan
    from pellucid.run.folder import RunResult as RunResult
    from pellucid.run.run import Run as Run
    from pellucid.run.run import plan as plan
    from pellucid.run.run import train as train
    from pellucid.tasks.classifier import Classification as Classification
    from pellucid.tasks.classifier import Classifier as Classifier
    from pellucid.tasks.ensemble import EnsembleTranslator as EnsembleTranslator
    from pellucid.tasks.evaluate import evaluate as evaluate
    from pellucid.tasks.language_model import Generation as Generation
    from pellucid.tasks.language_model import LanguageModel as LanguageModel
    from pellucid.tasks.reranking import Reranker as Reranker
    from pellucid.tasks.task import Scored as Scored
    from pellucid.tasks.task import TextModel as TextModel
    from pellucid.tasks.tracing import trace as trace
    from pellucid.tasks.translator import Sentence as Sentence
    from pellucid.tasks.translator import Translation as Translation
    from pellucid.tasks.translator import Translator as Translator
    from pellucid.text.tokenizer import Tokenizer as Tokenizer
    from pellucid.text.tokenizer_training import train_tokenizer as train_tokenizer
    from pellucid.text.tokenizers import Tokenizers as Tokenizers
    from pellucid.tracing.foreign import trace_hugging_face as trace_hugging_face
    from pellucid.tracing.ready import trace_from_weights as trace_from_weights
    from pellucid.tracing.tokens import Token as Token
    from pellucid.tracing.trace import Trace as Trace
    from pellucid.tracing.trace import load_trace as load_trace
    from pellucid.training.events import CheckpointEvent as CheckpointEvent
    from pellucid.training.events import EndEvent as EndEvent
    from pellucid.training.events import StepEvent as StepEvent
    from pellucid.training.events import ValidationEvent as ValidationEvent
    from pellucid.training.interrupts import Interrupted as Interrupted
    from pellucid.training.loss import CrossEntropy as CrossEntropy
    from pellucid.training.loss import Losses as Losses
    from pellucid.training.loss import RDrop as RDrop
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
    "Ablation", "AddedPositions", "Alignments", "Attribution", "Batch", "BatchOrder", "Check", "CheckpointError",
    "CheckpointEvent", "Classification", "Classifier", "ConfigError", "Contributions", "CrossEntropy", "DataConfig",
    "DataError", "DecodeConfig", "Decoder", "DecoderCache", "DecoderLayer", "DecoderOnly", "DecodingError",
    "Distances", "Dropout", "Embeddings", "Encoder", "EncoderLayer", "EncoderOnly", "EndEvent",
    "EnsembleTranslator", "FeedForward", "Found",
    "Generation", "Hypothesis", "Interrupted", "LabelScores", "LanguageModel", "LayerCache", "LearnedPositions",
    "Lens", "Linear", "Losses", "ModelCheck", "ModelConfig", "MultiHeadAttention", "Parts", "PellucidError", "Plan",
    "Proof", "RDrop", "Recipe", "RelativePositions", "Reranker", "RotaryPositions", "Run", "RunResult",
    "SamplingConfig", "Scored",
    "Scores", "Search", "Sentence", "SequenceClassifier", "SinusoidalPositions", "StepEvent", "StepModel", "Steps",
    "TextModel", "TextScores", "Token", "Tokenizer", "Tokenizers", "Trace", "TrainConfig", "Transformer",
    "Translation", "Translator", "TutorialOptions", "ValidationEvent", "View", "ablate", "align", "attention",
    "attention_weights", "attribute", "beam_search", "build_model", "causal_mask", "contributions", "convert",
    "doctor", "evaluate", "examine", "greedy_search", "learning_rate", "lens", "load_trace", "make_batch",
    "padding_mask", "plan", "plot_masks", "plot_positions", "plot_run", "plot_schedule", "plot_smoothing",
    "positions_of", "projected_cross_entropy", "read_lines", "read_pairs", "rotate", "rotation", "sinusoids",
    "smoothed_cross_entropy", "trace", "trace_from_weights", "trace_hugging_face", "train", "train_tokenizer",
    "verify_resume", "view", "weights",
]  # fmt: skip

_HOMES = {
    "Ablation": "pellucid.analysis.ablation",
    "AddedPositions": "pellucid.model.positions",
    "Alignments": "pellucid.analysis.align",
    "Attribution": "pellucid.analysis.occlusion",
    "Batch": "pellucid.data.batching",
    "BatchOrder": "pellucid.data.batching",
    "Check": "pellucid.data.doctor",
    "CheckpointError": "pellucid.errors",
    "CheckpointEvent": "pellucid.training.events",
    "Classification": "pellucid.tasks.classifier",
    "Classifier": "pellucid.tasks.classifier",
    "ConfigError": "pellucid.errors",
    "Contributions": "pellucid.analysis.contributions",
    "CrossEntropy": "pellucid.training.loss",
    "DataConfig": "pellucid.config",
    "DataError": "pellucid.errors",
    "DecodeConfig": "pellucid.config",
    "Decoder": "pellucid.model.layers",
    "DecoderCache": "pellucid.model.cache",
    "DecoderLayer": "pellucid.model.layers",
    "DecoderOnly": "pellucid.model.families",
    "DecodingError": "pellucid.errors",
    "Distances": "pellucid.model.relative",
    "Dropout": "pellucid.model.fast.dropout",
    "Embeddings": "pellucid.model.embeddings",
    "Encoder": "pellucid.model.layers",
    "EncoderLayer": "pellucid.model.layers",
    "EncoderOnly": "pellucid.model.families",
    "EndEvent": "pellucid.training.events",
    "EnsembleTranslator": "pellucid.tasks.ensemble",
    "FeedForward": "pellucid.model.feed_forward",
    "Found": "pellucid.decoding.hypothesis",
    "Generation": "pellucid.tasks.language_model",
    "Hypothesis": "pellucid.decoding.hypothesis",
    "Interrupted": "pellucid.training.interrupts",
    "LabelScores": "pellucid.evaluation.label_scores",
    "LanguageModel": "pellucid.tasks.language_model",
    "LayerCache": "pellucid.model.cache",
    "LearnedPositions": "pellucid.model.positions",
    "Lens": "pellucid.analysis.lens",
    "Linear": "pellucid.model.fast.linear",
    "Losses": "pellucid.training.loss",
    "ModelCheck": "pellucid.examining.subject",
    "ModelConfig": "pellucid.config",
    "MultiHeadAttention": "pellucid.model.attention",
    "Parts": "pellucid.model.parts",
    "PellucidError": "pellucid.errors",
    "Plan": "pellucid.planning.budget",
    "Proof": "pellucid.conversion.proof",
    "RDrop": "pellucid.training.loss",
    "Recipe": "pellucid.config",
    "RelativePositions": "pellucid.model.relative",
    "Reranker": "pellucid.tasks.reranking",
    "RotaryPositions": "pellucid.model.relative",
    "Run": "pellucid.run.run",
    "RunResult": "pellucid.run.folder",
    "SamplingConfig": "pellucid.config",
    "Scored": "pellucid.tasks.task",
    "Scores": "pellucid.evaluation.scores",
    "Search": "pellucid.decoding.beam",
    "Sentence": "pellucid.tasks.translator",
    "SequenceClassifier": "pellucid.model.families",
    "SinusoidalPositions": "pellucid.model.positions",
    "StepEvent": "pellucid.training.events",
    "StepModel": "pellucid.decoding.steps",
    "Steps": "pellucid.decoding.steps",
    "TextModel": "pellucid.tasks.task",
    "TextScores": "pellucid.evaluation.text_scores",
    "Token": "pellucid.tracing.tokens",
    "Tokenizer": "pellucid.text.tokenizer",
    "Tokenizers": "pellucid.text.tokenizers",
    "Trace": "pellucid.tracing.trace",
    "TrainConfig": "pellucid.config",
    "Transformer": "pellucid.model.transformer",
    "Translation": "pellucid.tasks.translator",
    "Translator": "pellucid.tasks.translator",
    "TutorialOptions": "pellucid.conversion.tutorial",
    "ValidationEvent": "pellucid.training.events",
    "View": "pellucid.views.view",
    "ablate": "pellucid.analysis.heads",
    "align": "pellucid.analysis.align",
    "attention": "pellucid.model.attention",
    "attention_weights": "pellucid.model.attention",
    "attribute": "pellucid.analysis.occlusion",
    "beam_search": "pellucid.decoding.beam",
    "build_model": "pellucid.model.families",
    "causal_mask": "pellucid.model.masks",
    "contributions": "pellucid.analysis.contributions",
    "convert": "pellucid.conversion.convert",
    "doctor": "pellucid.data.doctor",
    "evaluate": "pellucid.tasks.evaluate",
    "examine": "pellucid.examining.examine",
    "greedy_search": "pellucid.decoding.beam",
    "learning_rate": "pellucid.training.schedule",
    "lens": "pellucid.analysis.lens",
    "load_trace": "pellucid.tracing.trace",
    "make_batch": "pellucid.data.batching",
    "padding_mask": "pellucid.model.masks",
    "plan": "pellucid.run.run",
    "plot_masks": "pellucid.views.plots.masks",
    "plot_positions": "pellucid.views.plots.positions",
    "plot_run": "pellucid.views.plots.run",
    "plot_schedule": "pellucid.views.plots.schedule",
    "plot_smoothing": "pellucid.views.plots.smoothing",
    "positions_of": "pellucid.model.relative",
    "projected_cross_entropy": "pellucid.training.loss",
    "read_lines": "pellucid.data.lines",
    "read_pairs": "pellucid.data.lines",
    "rotate": "pellucid.model.relative",
    "rotation": "pellucid.model.relative",
    "sinusoids": "pellucid.model.positions",
    "smoothed_cross_entropy": "pellucid.training.loss",
    "trace": "pellucid.tasks.tracing",
    "trace_from_weights": "pellucid.tracing.ready",
    "trace_hugging_face": "pellucid.tracing.foreign",
    "train": "pellucid.run.run",
    "train_tokenizer": "pellucid.text.tokenizer_training",
    "verify_resume": "pellucid.examining.resume",
    "view": "pellucid.views.view",
}
"""The module of each public name, but for `weights`, which is one itself."""

# A type checker must not see it: a module that hands out any name has no misspelt ones.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version  # not at the top: it takes half of the time of `import pellucid`

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
