"""Toy texts for a classifier and a language model, and recipes that are small enough."""

import random
from pathlib import Path

from pellucid.config import Recipe
from tests.toy_task import SMALL, write_pairs

LETTERS = "abcdefghijklmnopqrst"
CLASSIFY = ('task="classify"', "model.num_decoder_layers=0", 'model.tie_embeddings="none"')
GENERATE = (
    'task="generate"',
    "model.num_encoder_layers=0",
    'model.tie_embeddings="decoder"',
    'data.tokenizer="characters"',
)
RUNNING = (*GENERATE, 'data.text="continuous"', "data.byte_fallback=false", "data.max_length=16")
"""Settings on top of the toy recipe, as --set takes them."""


def labelled_letters(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """Letters with spaces between them, and whether most are from the alphabet's first half."""
    generator = random.Random(seed)
    rows = [generator.choices("abcdefgh", k=generator.choice([1, 3, 5, 7])) for _ in range(count)]
    return [(" ".join(row), "early" if sum(c < "e" for c in row) * 2 > len(row) else "late") for row in rows]


def write_labelled(folder: Path, rows: list[tuple[str, str]], name: str = "train") -> tuple[str, str]:
    """Writes texts and labels, and returns their paths."""
    return write_pairs(folder, rows, name)


def write_alphabet(folder: Path, lines: int = 150, seed: int = 1) -> str:
    """Writes lines of letters in the order of the alphabet, and returns their path."""
    generator = random.Random(seed)
    starts = [generator.randrange(len(LETTERS) - 6) for _ in range(lines)]
    path = folder / "alphabet.txt"
    rows = [" ".join(LETTERS[start : start + generator.randint(6, 12)]) for start in starts]
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return str(path)


def small_recipe_for(task: tuple[str, ...], src: str, tgt: str, *settings: str) -> Recipe:
    """A recipe of a few steps; `settings` come on top."""
    return Recipe.load("default", [*SMALL, *task, f'data.src="{src}"', f'data.tgt="{tgt}"', *settings])
