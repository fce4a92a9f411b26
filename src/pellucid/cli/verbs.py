"""Lists the verbs of the command line. Each is a module of this folder, imported when it is asked for."""

from collections.abc import Callable
from importlib import import_module

VERBS = {
    "demo": "train and show a small model on data that comes with it",
    "train": "train a translator from two text files, or from a recipe",
    "sweep": "train settings x seeds from a file, and tell what each brings",
    "runs": "list all runs below a folder: settings that differ, steps, scores, time",
    "distill": "train a small translator on what larger ones write",
    "augment": "training pairs of text of one language: back- and forward-translation",
    "doctor": "look for what is wrong in a corpus, or in a model's mathematics",
    "clean": "take out of a corpus what is wrong in it, and say of each pair why",
    "translate": "translate lines of text",
    "classify": "label lines of text",
    "generate": "continue lines of text",
    "score": "log-probabilities of given translations",
    "calibrate": "fit the probabilities of a translator's words on held-out text",
    "evaluate": "BLEU and chrF of a model on a test set",
    "bench": "how fast a model is on this machine, and which command to use",
    "inspect": "look at every head of a model on a text: a page, a picture or a trace",
    "plot": "masks, positions, the learning rate, a run's metrics as pictures",
    "heads": "what kind of head each one is, and what the model loses without it",
    "align": "word alignments, read off cross-attention",
    "recipes": "list the shipped recipes, or show one",
    "info": "a model's parameters, or each step of a pass through it",
    "average": "the mean of a run's last checkpoints as a model",
    "convert": "a model of Hugging Face or of a tutorial into ours, or ours for other engines",
}
"""The verbs, with what each one does."""


def command_of(verb: str) -> Callable[..., int]:
    """Returns the function of a verb, whose signature is its options. Importing it loads nothing heavy."""
    command: Callable[..., int] = getattr(import_module(f"pellucid.cli.{verb}"), verb)
    return command
