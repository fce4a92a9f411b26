"""Exports a model as one HTML page that translates, classifies or generates text, without network or Python."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pellucid.data.catalogue import catalogue
from pellucid.errors import ConfigError
from pellucid.files.writing import write_output
from pellucid.tasks.task import TextModel, open_task
from pellucid.tasks.translator import Translator
from pellucid.text.normalization_rules import nmt_nfkc_map
from pellucid.text.vocabulary import Vocabulary
from pellucid.views import KINDS
from pellucid.views.page import page
from pellucid.views.page_data import view_extras
from pellucid.weights.card import CARD, select_entries, split_front_matter
from pellucid.weights.export.custom_parts import refuse_parts
from pellucid.weights.export.page_weights import PageWeights, page_weights
from pellucid.weights.folder import DESCRIPTION

ABOUT = "model.about"
NMT_NFKC = "nmt_nfkc"
BYTES: dict[PageWeights, int] = {"float32": 4, "float16": 2, "int8": 1}
"""The number of bytes per parameter of each type."""
CHARACTERS_A_BYTE = 1.25
"""The number of characters in a page per byte of weights, which hardly compress."""
MOST_BYTES = 400_000_000
"""The largest size of the weights. They are one string in the page, and browsers limit strings to 2^29 - 24
characters."""


def to_page(
    model: TextModel[Any] | str | Path,
    path: str | os.PathLike[str],
    weights: PageWeights = "int8",
    *,
    examples: Sequence[str] = (),
    title: str = "",
    note: str = "",
) -> Path:
    """Writes a page that holds `model` and the views to inspect it, and returns its path.

        pellucid.weights.to_page("run", "translator.html")

    The opened page translates, classifies or continues text, without a network, a server or Python. Scripts in the page
    call `pellucid.translate(text)`, see docs/concepts/page.md.

    Args:
        model: a Translator, Classifier, LanguageModel or encoder, or a folder with one.
        weights: the type of the model's matrices: int8 (one scale per row), float16 or float32. Vectors are float32.
        examples: texts that the page offers as input.
        title: the page's title; empty: a translator's languages, or the kind of model.
        note: a line from the author, below the title; empty: none.

    Raises ConfigError for another type of weights, for custom parts or tokenizers, which a page cannot run, and for a
    model that is too large for a page.
    """
    opened = model if isinstance(model, TextModel) else open_task(model, "cpu")
    write_output(
        os.fspath(path), model_page(opened, model_islands(opened, weights, examples=examples, title=title, note=note))
    )
    return Path(path)


def model_page(opened: TextModel[Any], islands: Mapping[str, bytes]) -> str:
    """Returns the HTML of a page with the data blocks of a model."""
    views = list_views(opened)
    extras = view_extras((), views)  # the formulas that the views show, and their limits
    title = json.loads(islands[ABOUT])["title"] or _title(opened)
    return page((), view="translate", views=views, model=islands, extras=extras, title=title)


def list_views(opened: TextModel[Any]) -> list[str]:
    """Returns the views of a page with a model: the views of its traces, and the views that run the model."""
    missing = {"other", "evolution"} | (set() if opened.task.name == "translate" else {"cross", "search"})
    return [name for name, kind in KINDS.items() if kind.needs not in missing]


def model_islands(
    opened: TextModel[Any],
    weights: PageWeights,
    *,
    examples: Sequence[str] = (),
    title: str = "",
    note: str = "",
) -> dict[str, bytes]:
    """Returns the data of a model in a page, by block name, uncompressed.

    Raises ConfigError for a model that a page cannot run or hold.
    """
    refuse_parts(opened.model, "a page")
    stored = page_weights(opened.model, weights)
    if len(stored) > MOST_BYTES:
        smaller = "" if weights == "int8" else "; int8 is the smallest"
        raise ConfigError(
            f"the model has {len(stored):,} bytes in {weights}, and browsers open pages of at most "
            f"{MOST_BYTES:,}{smaller}",
            'convert it for another program: `to="onnx"` or `to="ct2"`',
        )
    with TemporaryDirectory(prefix="pellucid-") as folder:
        opened.save_description(Path(folder))
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
    description = json.loads(files[DESCRIPTION])
    named = sorted(set(description["tokenizer"].get("files", {}).values()))
    if missing := [name for name in named if name not in files]:
        raise ConfigError(
            f"the model's tokenizer has no file `{missing[0]}`, which a page requires", "use a tokenizer of Pellucid"
        )
    sides = (opened.tokenizers.source, opened.tokenizers.target)
    if any(isinstance(side, Vocabulary) and side.normalization == NMT_NFKC for side in sides):
        files[NMT_NFKC] = nmt_nfkc_map()  # a SentencePiece model contains these rules, a vocabulary only names them
        named.append(NMT_NFKC)
    head = opened.aligning_head if isinstance(opened, Translator) else None
    about = {
        "files": named,
        "weights": weights,
        "parameters": sum(parameter.numel() for parameter in opened.model.parameters()),
        "bytes": len(stored),
        "card": public_card(files.get(CARD, b"").decode("utf-8")),
        "examples": list(examples),
        "title": title,
        "note": note,
        "aligning": None if head is None else head.to_trace_facts(),
        "proof": None,
        "version": version("pellucid"),
    }
    return {
        ABOUT: _json(about),
        "model.description": files[DESCRIPTION],
        "model.weights": stored,
        **{f"model.file.{name}": files[name] for name in named},
    }


def add_verification(islands: Mapping[str, bytes], proof: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the data blocks of a model together with the results of its comparison with Python."""
    return {**islands, ABOUT: _json(json.loads(islands[ABOUT]) | {"proof": dict(proof)})}


def islands_within(opened: TextModel[Any], room: int, examples: Sequence[str] = ()) -> Iterator[dict[str, bytes]]:
    """Yields the data blocks of a model at decreasing precision whose weights take at most about `room` characters.

    Yields nothing for a model that a page cannot run.
    """
    parameters = sum(parameter.numel() for parameter in opened.model.parameters())
    with suppress(ConfigError):
        for weights, size in BYTES.items():
            if parameters * size * CHARACTERS_A_BYTE <= room:
                yield model_islands(opened, weights, examples=examples)


def public_card(text: str) -> str:
    """Returns a model card for strangers: without names of private files and without fields for hubs."""
    lines, body = split_front_matter(text)
    names = [line.split(":")[0] for line in lines if line[:1].isalpha() and ":" in line]
    published = {file.data_set for file in catalogue().values()}
    sets = [line.strip(' -"') for line in select_entries(lines, ("datasets",))[1:]]
    left_out = {"model-index"} | (set() if set(sets) <= published else {"datasets"})
    head = select_entries(lines, tuple(name for name in names if name not in left_out))
    rows = [line for line in body.splitlines() if not (line.startswith("| trained on |") and "." in line)]
    return "\n".join(["---", *head, "---", *rows, ""]) if lines else "\n".join([*rows, ""])


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _title(opened: TextModel[Any]) -> str:
    return {"translate": "Translator", "classify": "Classifier", "generate": "Language model"}.get(
        opened.task.name, "Model"
    )
