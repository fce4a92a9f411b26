"""Converts a model from one form into another, and proves that it stayed the same."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast, get_args

import torch

from pellucid.config import TASKS
from pellucid.conversion.counterparts import Kind
from pellucid.conversion.proof import Languages, Proof, not_compared, prove
from pellucid.conversion.tutorial import TutorialOptions, open_tutorial
from pellucid.errors import ConfigError, DataError, argument, did_you_mean
from pellucid.files.writing import flush, refusals_in_words, temporary_folder, write_json, write_output, write_text
from pellucid.model.parts import Parts
from pellucid.tasks.task import model_folder, open_task, tokenizers_of
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.views.model_page import model_islands, model_page, with_proof
from pellucid.weights.card import CARD, card, kept, parted
from pellucid.weights.export import ctranslate2, onnx
from pellucid.weights.export.card import KEPT, export_card
from pellucid.weights.export.page_weights import PageWeights
from pellucid.weights.folder import (
    CONVERSION,
    DESCRIPTION,
    SavedModel,
    description_of,
    is_foreign,
    save_description,
    save_weights,
)
from pellucid.weights.hugging_face.hub import find_folder, is_hub_name
from pellucid.weights.opening import open_folder
from pellucid.weights.tutorials.files import KINDS as FILE_KINDS
from pellucid.weights.tutorials.files import load_state_dict
from pellucid.weights.tutorials.layouts import LAYOUT_NAMES, find_layout
from pellucid.weights.tutorials.source import read_state_dict

OURS, HUGGING_FACE, PAGE = "pellucid", "hf", "page"
SOURCES = (OURS, HUGGING_FACE, *LAYOUT_NAMES)
Target = Literal["pellucid", "hf", "ct2", "onnx", "page"]
TARGETS: tuple[Target, ...] = get_args(Target)
QUANTIZATIONS = {"ct2": get_args(ctranslate2.Quantization), "onnx": get_args(onnx.Quantization)}
"""The types in which each target's matrices may be stored."""
OTHER_NAMES = {
    "ctranslate2": "ct2",
    "ctranslate": "ct2",
    "huggingface": HUGGING_FACE,
    "hugging-face": HUGGING_FACE,
    "transformers": HUGGING_FACE,
    "html": PAGE,
}
"""Our name of a kind, by other names that people have for it."""


ComparedOn = tuple[Sequence[str] | None, Sequence[str] | None, float | None, Languages]
"""Sentences, their translations, the tolerance and the languages, as prove() takes them."""


def convert(
    src: str | Path,
    dst: str | Path,
    *,
    from_: str | None = None,
    to: Target = "pellucid",
    quantization: str | None = None,
    weights: str | None = None,
    example: str | None = None,
    revision: str | None = None,
    tutorial: TutorialOptions | None = None,
    sentences: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    tolerance: float | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
) -> Proof:
    """Writes the model `src` into the new folder `dst` and compares both; the folder's conversion.json says the same.

        proof = pellucid.convert("run", "for-ctranslate2", to="ct2", quantization="int8")
        proof.passed

    A page is one file, `dst`; what the comparison found stands in it, and beside it in a file whose name ends in
    `.conversion.json`.

    Args:
        src: a model folder of ours or of Hugging Face's, a name on its hub, or a file with a tutorial's state dict.
        from_: pellucid, hf, or a tutorial's layout; None: what `src` looks like.
        to: pellucid, hf, ct2 (CTranslate2), onnx, or page (an HTML file that runs the model).
        quantization: of CTranslate2 and ONNX the type of their matrices: int8, float16 and so on; None: float32.
        weights: of a page the type of its matrices: int8, float16 or float32; None: int8.
        example: a text that a page offers to be tried.
        revision: of a name on the hub a branch, a tag or a commit.
        tutorial: what no tensor of a tutorial's model tells.
        sentences: what both sides are compared on; None: twenty that come with the project.
        references: a translation of each of the `sentences`, with which BLEU of both sides is measured.
        tolerance: the largest difference of logits that counts as equal, relative to the largest logit. None: 0.0001,
            which decides nothing where matrices are rounded.
        source_language, target_language: codes, for a multilingual model; None: its default, else the first it knows.
        parts, tokenizer: those of one's own that a folder of ours was saved with. Other programs have no such parts, so
            a model with some is refused; of such a tokenizer no file is written, and the model takes ids.

    Leaves nothing of a conversion that fails; one that was made but is not equal stays, for a look at it.

    Raises ConfigError for what cannot be asked or expressed, DataError and CheckpointError for what cannot be read.
    """
    source, place = Path(src) if revision is None else model_folder(src, revision), Path(dst)
    if os.path.lexists(place):
        kind_of_place = "file" if to == PAGE else "folder"
        raise ConfigError(f"`{place}` is there already", f"name a {kind_of_place} that does not exist yet")
    if to == PAGE and place.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"`{place}` does not end in .html, so no browser would open it", f"name it `{place}.html`")
    if references is not None and sentences is None:
        raise ConfigError("`references=` are given without what they translate", "give it as `sentences=`")
    _check_names(from_, to, quantization)
    of_pages = {"weights": weights, "example": example}
    if to != PAGE and (name := next((name for name, value in of_pages.items() if value is not None), "")):
        raise ConfigError(
            f"{argument(name, of_pages[name])} means nothing to {argument('to', to)}", f"choose {argument('to', PAGE)}"
        )
    kind = from_ or find_kind(source)
    if kind == to == OURS:
        raise ConfigError(f"`{source}` is a Pellucid model already", f"choose `to=` {', '.join(TARGETS[1:])}")
    if tutorial is not None and tutorial != TutorialOptions() and kind not in LAYOUT_NAMES:
        raise ConfigError(f"options of a tutorial are given, but `{source}` is of the kind `{kind}`", "leave them out")
    if kind == HUGGING_FACE:
        source = find_folder(source)
    compared_on: ComparedOn = sentences, references, tolerance, (source_language, target_language)
    if to == PAGE:
        with TemporaryDirectory(prefix="pellucid-") as workspace:
            if kind in LAYOUT_NAMES:
                saved = _opened(source, kind, tutorial or TutorialOptions(), parts, tokenizer)
                _write_ours(saved, Path(workspace), kind, source)
                source = Path(workspace)
            return _page(source, place, weights or "int8", example, compared_on, parts, tokenizer)
    with _new_folder(place) as folder, TemporaryDirectory(prefix="pellucid-") as workspace:
        saved = _opened(source, kind, tutorial or TutorialOptions(), parts, tokenizer)
        if kind in LAYOUT_NAMES and to != OURS:  # what the other side is compared with must be a folder
            _write_ours(saved, Path(workspace), kind, source)
            source = Path(workspace)
        _write(saved, folder, to, kind, source, quantization)
        proof = _proof(source, folder, kind, to, compared_on, quantization, tokenizer)
        proof.save(folder)
        if to != OURS:
            text = export_card(
                to, saved.model.config, tokenizers=saved.tokenizers, original=_card_of(source), proof=str(proof)
            )
            write_text(folder / CARD, text)
    return proof


def _page(
    source: Path,
    place: Path,
    weights: str,
    example: str | None,
    compared_on: ComparedOn,
    parts: Parts | None,
    tokenizer: GivenTokenizers | None,
) -> Proof:
    """Writes the page of a model folder with what its comparison found, and that beside it as well."""
    opened = open_task(source, "cpu", parts=parts, tokenizer=tokenizer)
    # Another word than a type is refused.
    islands = model_islands(opened, cast(PageWeights, weights), examples=[example] if example else ())
    with TemporaryDirectory(prefix="pellucid-") as workspace:
        tried = Path(workspace) / "tried.html"
        write_text(tried, model_page(opened, islands))
        rounded_to = "" if weights == "float32" else weights
        proof = prove(source, tried, "page", *compared_on, rounded_to, tokenizer)
    islands = with_proof(islands, proof.to_dict() | {"said": str(proof)})
    with refusals_in_words(place):
        place.parent.mkdir(parents=True, exist_ok=True)
    write_output(os.fspath(place), model_page(opened, islands))
    write_json(place.with_name(f"{place.stem}.{CONVERSION}"), proof.to_dict())
    return proof


def find_kind(source: Path) -> str:
    """Returns what kind of model lies at a path: pellucid, hf, or a tutorial's layout. Raises DataError where it is
    unclear.
    """
    if source.is_file():
        found = find_layout(read_state_dict(load_state_dict(source)))
        if found is None:
            raise DataError(
                f"`{source}` does not have the names of any tutorial that is known: {', '.join(LAYOUT_NAMES)}",
                "rename its tensors as one of these has them, or take them in by hand",
            )
        return found
    if description_of(source).is_file():
        return HUGGING_FACE if is_foreign(source) else OURS
    if "/" in str(source) and is_hub_name(source) and source.suffix not in FILE_KINDS:
        return HUGGING_FACE
    reason = f"it has no {DESCRIPTION} or config.json" if source.is_dir() else "it does not exist"
    raise DataError(f"no model at `{source}`: {reason}", "name a model folder, or a file with a state dict")


def _check_names(from_: str | None, to: str, quantization: str | None) -> None:
    """Raises ConfigError for a kind, a target or a type that does not exist."""
    types = QUANTIZATIONS.get(to, ())
    if quantization is not None and to in TARGETS and not types:
        raise ConfigError(
            f"{argument('quantization', quantization)} means nothing to {argument('to', to)}",
            f"choose {argument('to', 'ct2')}, or {argument('to', 'onnx')}",
        )
    known: dict[str, tuple[str | None, Sequence[str]]] = {
        "from_": (from_, SOURCES), "to": (to, TARGETS), "quantization": (quantization, types),
    }  # fmt: skip
    for name, (value, choices) in known.items():
        if value is not None and value not in choices:
            of = f" of {argument('to', to)}" if name == "quantization" else ""
            meant = did_you_mean(OTHER_NAMES.get(value.lower(), value), choices)
            raise ConfigError(f"unknown {argument(name, value)}{of}{meant}", f"choose {', '.join(choices)}")


def _opened(
    source: Path, kind: str, options: TutorialOptions, parts: Parts | None, tokenizer: GivenTokenizers | None
) -> SavedModel:
    if kind in LAYOUT_NAMES:
        for name in (name for name, value in (("parts", parts), ("tokenizer", tokenizer)) if value is not None):
            raise ConfigError(
                f"`{name}=` is of a folder of Pellucid's own, but `{source}` is a `{kind}`", "leave it out"
            )
        return open_tutorial(load_state_dict(source), kind, options)
    foreign = is_foreign(source)
    if foreign != (kind == HUGGING_FACE):
        raise ConfigError(f"`{source}` is not of the kind `{kind}`", f"leave `from_=` out, or give {find_kind(source)}")
    return open_folder(source, torch.device("cpu"), parts=parts, tokenizer=tokenizer)


@contextmanager
def _new_folder(place: Path) -> Iterator[Path]:
    """Yields a folder beside `place` to write into; on success it becomes `place`, else it is removed."""
    with ExitStack() as stack:
        with refusals_in_words(place, "folder"):
            place.parent.mkdir(parents=True, exist_ok=True)
            beside = stack.enter_context(temporary_folder(place))
        folder = beside / "model"
        folder.mkdir()
        yield folder
        folder.rename(place)
    flush(place.parent)


def _write(saved: SavedModel, folder: Path, target: str, kind: str, source: Path, quantization: str | None) -> None:
    if target == OURS:
        _write_ours(saved, folder, kind, source)
    elif target == HUGGING_FACE:
        from pellucid.weights import to_hugging_face

        to_hugging_face(saved.model, saved.tokenizers, folder, decode=saved.decode, labels=saved.labels)
    elif target == "ct2":
        from pellucid.weights import to_ctranslate2

        to_ctranslate2(saved.model, saved.tokenizers, folder, cast(Any, quantization), decode=saved.decode)
    else:
        from pellucid.weights import to_onnx

        to_onnx(
            saved.model, folder, saved.tokenizers, decode=saved.decode, labels=saved.labels,
            quantization=cast(Any, quantization),
        )  # fmt: skip


def _write_ours(saved: SavedModel, folder: Path, kind: str, source: Path) -> None:
    tokenizers = tokenizers_of(saved, source)
    card = converted_card(saved, kind, _card_of(source))
    about = saved.labels, saved.languages, saved.text
    save_description(folder, saved.model.config, tokenizers, saved.decode, card, *about)
    save_weights(folder, saved.model)


def _proof(
    source: Path,
    folder: Path,
    kind: str,
    to: str,
    compared_on: ComparedOn,
    quantization: str | None,
    tokenizer: GivenTokenizers | None,
) -> Proof:
    """Returns the comparison of the two sides; a tutorial's own code is not here to compare with."""
    if to != OURS:
        return prove(source, folder, cast(Kind, to), *compared_on, quantization or "", tokenizer)
    if kind == HUGGING_FACE:
        return prove(folder, source, "hf", *compared_on)
    return not_compared(
        f"the code that trained the model is not here; Pellucid's own tests compare the layout `{kind}` with its text"
    )


def _card_of(source: Path) -> str:
    path = source / CARD
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def converted_card(saved: SavedModel, kind: str, original: str = "") -> str:
    """Returns the model card of a converted model, in Markdown; the original's card stands below, and its licence
    above.

    It names no path, host or time.
    """
    config = saved.model.config
    lines, body = parted(original)
    rows = {
        "converted from": "a Hugging Face folder" if kind == HUGGING_FACE else f"a state dict of `{kind}`",
        "encoder / decoder layers": f"{config.num_encoder_layers} / {config.num_decoder_layers}",
        "d_model, d_ff, heads": f"{config.d_model}, {config.d_ff}, {config.num_heads}",
        "vocabulary": f"{config.src_vocab_size:,} / {config.tgt_vocab_size:,}",
    }
    table = "".join(f"| {name} | {value} |\n" for name, value in rows.items())
    rest = f"\n## The original's card\n\n{body.strip()}\n" if body.strip() else ""
    head: dict[str, Any] = {
        "library_name": "pellucid",
        "pipeline_tag": TASKS[saved.task].pipeline_tag,
    }
    if saved.languages and not any(line.startswith("language:") for line in lines):
        head["language"] = sorted(saved.languages)
    return card(head, f"# A converted model\n\n| | |\n| --- | --- |\n{table}{rest}", kept(lines, KEPT))
