"""Puts a model into a page: one HTML file that translates, classifies or writes, with no network and no Python."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pellucid.errors import ConfigError
from pellucid.files.writing import write_output
from pellucid.tasks.task import TextModel, open_task
from pellucid.text.normalization_rules import nmt_nfkc_map
from pellucid.text.vocabulary import Vocabulary
from pellucid.views import VIEWS
from pellucid.views.page import page
from pellucid.views.payload import view_extras
from pellucid.weights.card import CARD
from pellucid.weights.export.own_parts import refuse_parts
from pellucid.weights.export.page_weights import PageWeights, page_weights
from pellucid.weights.folder import DESCRIPTION

ABOUT = "model.about"
NMT_NFKC = "nmt_nfkc"
BYTES: dict[PageWeights, int] = {"float32": 4, "float16": 2, "int8": 1}
"""The number of bytes that a parameter takes in each type."""
CHARACTERS_A_BYTE = 1.25
"""Characters of a page that a byte of weights takes: they hardly deflate."""
MOST_BYTES = 400_000_000
"""The most bytes of weights. They stand in one string of a page, and browsers have strings of 2^29 - 24 characters."""


def to_page(
    model: TextModel[Any] | str | Path,
    path: str | os.PathLike[str],
    weights: PageWeights = "int8",
    *,
    examples: Sequence[str] = (),
) -> Path:
    """Writes a page that holds `model` and everything to look at it with; returns its path.

        pellucid.weights.to_page("run", "translator.html")

    Whoever opens the file translates, classifies or goes on writing in it, without a network, a server or Python.
    Scripts in the page ask `pellucid.translate(text)`, as docs/concepts/page.md says.

    Args:
        model: a Translator, Classifier, LanguageModel or encoder, or a folder with one.
        weights: the type of its matrices: int8 (a scale a row), float16 or float32. Vectors stay in float32.
        examples: texts that the page offers to be tried.

    Raises ConfigError for another type of weights, parts or tokenizers of one's own, which a page cannot run, and a
    model that is too large for a page.
    """
    opened = model if isinstance(model, TextModel) else open_task(model, "cpu")
    write_output(os.fspath(path), model_page(opened, model_islands(opened, weights, examples=examples)))
    return Path(path)


def model_page(opened: TextModel[Any], islands: Mapping[str, bytes]) -> str:
    """Returns the HTML of a page with the islands of a model."""
    views = views_of(opened)
    extras = view_extras((), views)  # the formulas that the views tell, and their limits
    return page((), view="translate", views=views, model=islands, extras=extras, title=_title(opened))


def views_of(opened: TextModel[Any]) -> list[str]:
    """Returns the views of a page that holds a model: those of the traces that it makes, and those that ask it."""
    left_out = {"compare", "evolution"} | (set() if opened.task.name == "translate" else {"alignment", "beam"})
    return [name for name in VIEWS if name not in left_out]


def model_islands(
    opened: TextModel[Any],
    weights: PageWeights,
    *,
    examples: Sequence[str] = (),
) -> dict[str, bytes]:
    """Returns what a page carries of a model, by the names of its islands, not yet deflated.

    Raises ConfigError for what a page cannot run, or not hold.
    """
    refuse_parts(opened.model, "a page")
    stored = page_weights(opened.model, weights)
    if len(stored) > MOST_BYTES:
        smaller = "" if weights == "int8" else "; int8 takes least"
        raise ConfigError(
            f"the model takes {len(stored):,} bytes in {weights}, and browsers open pages of at most "
            f"{MOST_BYTES:,}{smaller}",
            'convert it for a program instead: `to="onnx"` or `to="ct2"`',
        )
    with TemporaryDirectory(prefix="pellucid-") as folder:
        opened.save_description(Path(folder))
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
    description = json.loads(files[DESCRIPTION])
    named = sorted(set(description["tokenizer"].get("files", {}).values()))
    if missing := [name for name in named if name not in files]:
        raise ConfigError(f"the model's tokenizer has no file `{missing[0]}` that a page could hold", "use one of ours")
    sides = (opened.tokenizers.source, opened.tokenizers.target)
    if any(isinstance(side, Vocabulary) and side.normalization == NMT_NFKC for side in sides):
        files[NMT_NFKC] = nmt_nfkc_map()  # a SentencePiece model holds these rules itself, a vocabulary names them
        named.append(NMT_NFKC)
    about = {
        "files": named,
        "weights": weights,
        "parameters": sum(parameter.numel() for parameter in opened.model.parameters()),
        "bytes": len(stored),
        "card": files.get(CARD, b"").decode("utf-8"),
        "examples": list(examples),
        "proof": None,
        "version": version("pellucid"),
    }
    return {
        ABOUT: _json(about),
        "model.description": files[DESCRIPTION],
        "model.weights": stored,
        **{f"model.file.{name}": files[name] for name in named},
    }


def with_proof(islands: Mapping[str, bytes], proof: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the islands of a model that tell of a comparison with Python, by its findings, as well."""
    return {**islands, ABOUT: _json(json.loads(islands[ABOUT]) | {"proof": dict(proof)})}


def islands_within(opened: TextModel[Any], room: int, examples: Sequence[str] = ()) -> Iterator[dict[str, bytes]]:
    """Yields the islands of a model, with fewer digits each time, whose weights take about `room` characters at most.

    A model that a page cannot run has none.
    """
    parameters = sum(parameter.numel() for parameter in opened.model.parameters())
    with suppress(ConfigError):
        for weights, size in BYTES.items():
            if parameters * size * CHARACTERS_A_BYTE <= room:
                yield model_islands(opened, weights, examples=examples)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _title(opened: TextModel[Any]) -> str:
    return {"translate": "Translator", "classify": "Classifier", "generate": "Language model"}.get(
        opened.task.name, "Model"
    )
