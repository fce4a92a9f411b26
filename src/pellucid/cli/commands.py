"""Lists the verbs of the command line. Each is a module of this package and is imported when it runs."""

from collections.abc import Callable
from importlib import import_module

GROUPS = {
    "start": {
        "demo": "train a small model on included data and show it in a page",
        "recipes": "list the shipped recipes, or show one",
        "check": "judge your own code of attention, masks, layers, loss or search",
    },
    "data": {
        "doctor": "check a corpus or a model for errors",
        "clean": "filter a corpus, with a report of the removed pairs",
        "augment": "create synthetic training data from monolingual text (back-translation)",
    },
    "train": {
        "train": "train a model on two text files, or by a recipe",
        "sweep": "compare settings over several seeds",
        "runs": "list training runs with settings and scores",
        "distill": "knowledge distillation: train a small model on a larger one's translations",
        "average": "average a run's checkpoints",
    },
    "use": {
        "translate": "translate texts, documents and folders of them",
        "remember": "add corrections to a translation memory",
        "serve": "serve translators over HTTP: LibreTranslate, DeepL and OpenAI interfaces",
        "classify": "label lines of text",
        "generate": "generate text from prompts (language models)",
        "score": "compute the log-probability of given translations",
        "evaluate": "compute BLEU, chrF (TER, COMET) on a test set",
        "calibrate": "fit word confidences on held-out data",
        "fit-reranker": "tune n-best reranking weights on held-out data",
        "bench": "measure translation speed on this machine",
        "convert": "import from Hugging Face or tutorials, export to other formats",
    },
    "look inside": {
        "inspect": "visualize attention for a text",
        "align": "word-align a parallel text with cross-attention",
        "heads": "attention head statistics and ablation",
        "info": "summarize a model: sizes, parameters, layer shapes",
        "plot": "plot masks, positions, schedules or training curves",
    },
}
"""The one-line summary of each verb, by group."""

OLD_VERBS = {"rerank": "fit-reranker"}
"""The names of verbs in earlier versions, with today's names."""

VERBS = {verb: text for verbs in GROUPS.values() for verb, text in verbs.items()}
"""The one-line summary of each verb."""


def load_command(verb: str) -> Callable[..., int]:
    """Returns the function of a verb, whose signature defines the options. Importing it loads no large library."""
    name = verb.replace("-", "_")
    command: Callable[..., int] = getattr(import_module(f"pellucid.cli.{name}"), name)
    return command
