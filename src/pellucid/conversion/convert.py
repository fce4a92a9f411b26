"""Converts a model from one format to another and verifies that its outputs are unchanged."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast, get_args

import torch

from pellucid.analysis.aligning_head import VALIDATED_ON, head_to_keep
from pellucid.config import TASKS
from pellucid.conversion.counterparts import Kind
from pellucid.conversion.proof import (
    ConversionReport,
    Languages,
    set_translation_direction,
    skip_verification,
    verify_conversion,
)
from pellucid.conversion.texts import get_language_tag
from pellucid.conversion.tutorial import TutorialOptions, find_nonsense, open_tutorial
from pellucid.data.prepare import read_validation_pairs
from pellucid.errors import ConfigError, DataError, did_you_mean, format_argument
from pellucid.files.writing import convert_write_errors, fsync, temporary_folder, write_json, write_output, write_text
from pellucid.model.parts import Parts
from pellucid.tasks.task import TextModel, open_task, require_tokenizers, resolve_model
from pellucid.tasks.translator import Translator
from pellucid.text.language_codes import codes_are_special
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.views.model_page import add_verification, model_islands, model_page
from pellucid.weights.card import CARD, card, select_entries, split_front_matter
from pellucid.weights.export import ctranslate2, onnx
from pellucid.weights.export.calls import ExportedCall, make_call
from pellucid.weights.export.card import KEPT, export_card
from pellucid.weights.export.page_weights import PageWeights
from pellucid.weights.folder import (
    CONVERSION,
    DESCRIPTION,
    SavedModel,
    find_description,
    is_hugging_face_folder,
    save_description,
    save_weights,
)
from pellucid.weights.hugging_face.hub import find_folder, is_hub_name
from pellucid.weights.opening import open_folder
from pellucid.weights.tutorials.files import KINDS as FILE_KINDS
from pellucid.weights.tutorials.files import load_state_dict
from pellucid.weights.tutorials.layouts import LAYOUT_NAMES, find_layout
from pellucid.weights.tutorials.source import describe, read_state_dict

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
"""Common names of formats, with Pellucid's name for each."""


OWN_SENTENCES = 20
"""The number of a run's validation sentences on which its page is compared."""

ComparedOn = tuple[Sequence[str] | None, Sequence[str] | None, float | None, Languages]
"""Sentences, their translations, the tolerance and the languages, as verify_conversion() takes them."""


def convert(
    src: str | Path,
    dst: str | Path,
    *,
    from_: str | None = None,
    to: Target = "pellucid",
    quantization: str | None = None,
    weights: str | None = None,
    example: str | None = None,
    title: str | None = None,
    note: str | None = None,
    revision: str | None = None,
    tutorial: TutorialOptions | None = None,
    sentences: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    tolerance: float | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
) -> ConversionReport:
    """Writes the model `src` into the new folder `dst` and compares both; conversion.json in the folder is the same
    report.

        proof = pellucid.convert("run", "for-ctranslate2", to="ct2", quantization="int8")
        proof.passed

    A page is one file, `dst`; the report is in the page, and in a file next to it whose name ends in
    `.conversion.json`.

    Args:
        src: a Pellucid or Hugging Face model folder, a name on the hub, or a file with a tutorial's state dict.
        from_: pellucid, hf, or a tutorial's layout; None: detected from `src`.
        to: pellucid, hf, ct2 (CTranslate2), onnx, or page (an HTML file that runs the model).
        quantization: the type of the matrices for CTranslate2 and ONNX: int8, float16 and so on; None: float32.
        weights: the type of a page's matrices: int8, float16 or float32; None: int8.
        example: the example text on a page.
        title: a page's title; None: a translator's languages, or the kind of model.
        note: a line by a page's author, below the title; None: none.
        revision: a branch, a tag or a commit for a name on the hub.
        tutorial: facts about a tutorial's model that its tensors do not contain.
        sentences: the sentences for the comparison; None: the first twenty validation sentences of a run, whose ids are
            in its folder, or for another model twenty sentences that come with the project.
        references: a translation of each of the `sentences`, used to compute BLEU of both sides.
        tolerance: the largest difference of logits that counts as equal, relative to the largest logit. None: 0.0001,
            which has no effect if matrices are rounded.
        source_language, target_language: codes, for a multilingual model; None: its default, else its first language.
        parts, tokenizer: the custom objects that a Pellucid folder was saved with. Other libraries have no custom
            parts, so a model with some is rejected; a custom tokenizer is not exported, and the exported model takes
            ids.

    A failed conversion leaves no files; a conversion with different outputs stays, for inspection.

    Raises ConfigError for invalid options and for models that the target cannot express, DataError and CheckpointError
    for files that cannot be read.
    """
    source, place = Path(src) if revision is None else resolve_model(src, revision), Path(dst)
    if os.path.lexists(place):
        kind_of_place = "file" if to == PAGE else "folder"
        raise ConfigError(f"`{place}` already exists", f"name a {kind_of_place} that does not exist yet")
    if to == PAGE and place.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"`{place}` does not end in .html, which browsers require", f"name it `{place}.html`")
    if references is not None and sentences is None:
        raise ConfigError("`references=` are given without their sources", "pass the sources as `sentences=`")
    _check_names(from_, to, quantization)
    of_pages = {"weights": weights, "example": example, "title": title, "note": note}
    if to != PAGE and (name := next((name for name, value in of_pages.items() if value is not None), "")):
        raise ConfigError(
            f"{format_argument(name, of_pages[name])} has no effect with {format_argument('to', to)}",
            f"choose {format_argument('to', PAGE)}",
        )
    kind = from_ or find_kind(source)
    if kind == to == OURS:
        raise ConfigError(f"`{source}` is a Pellucid model already", f"choose `to=` {', '.join(TARGETS[1:])}")
    if tutorial is not None and tutorial != TutorialOptions() and kind not in LAYOUT_NAMES:
        raise ConfigError(f"options for tutorials are given, but `{source}` is of the kind `{kind}`", "leave them out")
    if kind == HUGGING_FACE:
        source = find_folder(source)
    compared_on: ComparedOn = sentences, references, tolerance, (source_language, target_language)
    if to == PAGE:
        with TemporaryDirectory(prefix="pellucid-") as workspace:
            nonsense = ""
            if kind in LAYOUT_NAMES:
                saved = _open_source(source, kind, tutorial or TutorialOptions(), parts, tokenizer)
                nonsense = _nonsense(saved, source, kind, tutorial)
                _write_ours(saved, Path(workspace), kind, source)
                source = Path(workspace)
            shown = {"examples": [example] if example else (), "title": title or "", "note": note or ""}
            return _page(source, place, weights or "int8", shown, compared_on, parts, tokenizer, nonsense)
    with _new_folder(place) as folder, TemporaryDirectory(prefix="pellucid-") as workspace:
        saved = _open_source(source, kind, tutorial or TutorialOptions(), parts, tokenizer)
        nonsense = _nonsense(saved, source, kind, tutorial)
        if kind in LAYOUT_NAMES and to != OURS:  # the comparison requires a folder on this side
            _write_ours(saved, Path(workspace), kind, source)
            source = Path(workspace)
        saved, spoken = (saved, "") if to == OURS else _set_direction(saved, compared_on[-1])
        _write(saved, folder, to, kind, source, quantization)
        call = None
        if to != OURS:
            rounded, target = quantization is not None, cast(Any, to)
            call = make_call(folder, target, saved.model.config, saved.decode, saved.tokenizers, quantized=rounded)
        proof = _proof(source, folder, kind, to, compared_on, quantization, tokenizer, call)
        proof = replace(proof, nonsense=nonsense)
        proof.save(folder)
        if call is not None:
            tag = get_language_tag(saved, saved.decode)
            text = export_card(call, original=_read_card(source), proof=str(proof), languages=spoken, tag=tag)
            write_text(folder / CARD, text)
    return proof


def _set_direction(saved: SavedModel, languages: Languages) -> tuple[SavedModel, str]:
    """Returns a model ready for export: between two languages, if it is multilingual, with their names.

    A model whose texts name the target language themselves keeps doing so, unless a language is passed.
    """
    if languages == (None, None) and (
        saved.tokenizers is None or not codes_are_special(saved.tokenizers, saved.languages)
    ):
        return saved, ""
    return set_translation_direction(saved, languages)


def _page(
    source: Path,
    place: Path,
    weights: str,
    shown: Mapping[str, Any],
    compared_on: ComparedOn,
    parts: Parts | None,
    tokenizer: GivenTokenizers | None,
    nonsense: str,
) -> ConversionReport:
    """Writes the page of a model folder with the report of its comparison, and the report next to the page."""
    languages = compared_on[-1]
    if languages == (None, None):
        opened = open_task(source, "cpu", parts=parts, tokenizer=tokenizer)
    else:
        opened = Translator.load(source, "cpu", None, *languages, parts=parts, tokenizer=tokenizer)
    _find_aligning_head(opened, source, compared_on)
    sentences, references, tolerance, _ = compared_on
    own = (
        []
        if sentences is not None or opened.languages
        else read_validation_pairs(source, opened.tokenizers, OWN_SENTENCES)
    )
    own_sources = [text for text, _ in own if text.strip()]
    # Raises an error for other words than the types.
    islands = model_islands(opened, cast(PageWeights, weights), **shown)
    with TemporaryDirectory(prefix="pellucid-") as workspace:
        tried = Path(workspace) / "tried.html"
        write_text(tried, model_page(opened, islands))
        rounded_to = "" if weights == "float32" else weights
        proof = verify_conversion(
            source, tried, "page", own_sources or sentences, references, tolerance, languages, rounded_to, tokenizer
        )
    proof = replace(proof, nonsense=nonsense, origin="the run's validation text" if own_sources else "")
    islands = add_verification(islands, proof.to_dict() | {"said": str(proof)})
    with convert_write_errors(place):
        place.parent.mkdir(parents=True, exist_ok=True)
    write_output(os.fspath(place), model_page(opened, islands))
    write_json(place.with_name(f"{place.stem}.{CONVERSION}"), proof.to_dict())
    return proof


def _find_aligning_head(opened: TextModel[Any], source: Path, compared_on: ComparedOn) -> None:
    """Finds the head of a translator that aligns words if its folder, of an earlier version, does not name one.

    The head is found on the pairs of the comparison, or else on the validation pairs of the run in the folder.
    """
    if not isinstance(opened, Translator) or opened.aligning_head is not None:
        return
    sentences, references, *_ = compared_on
    if sentences and references and len(sentences) == len(references):
        opened.aligning_head = head_to_keep(opened, zip(sentences, references, strict=True))
    elif not opened.languages:
        opened.aligning_head = head_to_keep(opened, read_validation_pairs(source, opened.tokenizers, VALIDATED_ON))


def find_kind(source: Path) -> str:
    """Returns the kind of the model at a path: pellucid, hf, or a tutorial's layout. Raises DataError if it is
    ambiguous.
    """
    if source.is_file():
        tensors = read_state_dict(load_state_dict(source))
        found = find_layout(tensors)
        if found is None:
            raise DataError(
                f"`{source}` does not have the tensor names of a supported tutorial: {', '.join(LAYOUT_NAMES)}; "
                f"{describe(tensors)}",
                "a model of transformers is opened as its folder, with config.json and the weights; for custom code "
                "docs/guides/from-a-tutorial.md lists the required names",
            )
        return found
    if find_description(source).is_file():
        return HUGGING_FACE if is_hugging_face_folder(source) else OURS
    if "/" in str(source) and is_hub_name(source) and source.suffix not in FILE_KINDS:
        return HUGGING_FACE
    reason = f"it has no {DESCRIPTION} or config.json" if source.is_dir() else "it does not exist"
    raise DataError(f"no model at `{source}`: {reason}", "name a model folder, or a file with a state dict")


def _check_names(from_: str | None, to: str, quantization: str | None) -> None:
    """Raises ConfigError for a kind, a target or a type that does not exist."""
    types = QUANTIZATIONS.get(to, ())
    if quantization is not None and to in TARGETS and not types:
        raise ConfigError(
            f"{format_argument('quantization', quantization)} has no effect with {format_argument('to', to)}",
            f"choose {format_argument('to', 'ct2')}, or {format_argument('to', 'onnx')}",
        )
    known: dict[str, tuple[str | None, Sequence[str]]] = {
        "from_": (from_, SOURCES), "to": (to, TARGETS), "quantization": (quantization, types),
    }  # fmt: skip
    for name, (value, choices) in known.items():
        if value is not None and value not in choices:
            of = f" of {format_argument('to', to)}" if name == "quantization" else ""
            meant = did_you_mean(OTHER_NAMES.get(value.lower(), value), choices)
            raise ConfigError(f"unknown {format_argument(name, value)}{of}{meant}", f"choose {', '.join(choices)}")


def _nonsense(saved: SavedModel, source: Path, kind: str, options: TutorialOptions | None) -> str:
    """Returns why a tutorial's model makes no sense; empty if no reason was found, and for other kinds of model."""
    if kind not in LAYOUT_NAMES:
        return ""
    return find_nonsense(saved, load_state_dict(source), kind, options or TutorialOptions())


def _open_source(
    source: Path, kind: str, options: TutorialOptions, parts: Parts | None, tokenizer: GivenTokenizers | None
) -> SavedModel:
    if kind in LAYOUT_NAMES:
        for name in (name for name, value in (("parts", parts), ("tokenizer", tokenizer)) if value is not None):
            raise ConfigError(f"`{name}=` is for Pellucid model folders, but `{source}` is a `{kind}`", "leave it out")
        return open_tutorial(load_state_dict(source), kind, options)
    foreign = is_hugging_face_folder(source)
    if foreign != (kind == HUGGING_FACE):
        raise ConfigError(f"`{source}` is not of the kind `{kind}`", f"leave `from_=` out, or use {find_kind(source)}")
    return open_folder(source, torch.device("cpu"), parts=parts, tokenizer=tokenizer)


@contextmanager
def _new_folder(place: Path) -> Iterator[Path]:
    """Yields a new folder next to `place` to write into; renames it to `place` on success, else removes it."""
    with ExitStack() as stack:
        with convert_write_errors(place, "folder"):
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = stack.enter_context(temporary_folder(place))
        folder = temporary / "model"
        folder.mkdir()
        yield folder
        folder.rename(place)
    fsync(place.parent)


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
    tokenizers = require_tokenizers(saved, source)
    card = make_converted_card(saved, kind, _read_card(source))
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
    call: ExportedCall | None,
) -> ConversionReport:
    """Returns the report of the comparison; a tutorial's own code is not available for one."""
    if to != OURS:
        return verify_conversion(source, folder, cast(Kind, to), *compared_on, quantization or "", tokenizer, call)
    if kind == HUGGING_FACE:
        return verify_conversion(folder, source, "hf", *compared_on)
    return skip_verification(
        f"the code that trained the model is not available; Pellucid's tests compare the layout `{kind}` with its text"
    )


def _read_card(source: Path) -> str:
    path = source / CARD
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def make_converted_card(saved: SavedModel, kind: str, original: str = "") -> str:
    """Returns the model card of a converted model, in Markdown: the original's licence on top, its card at the end.

    It names no path, host or time.
    """
    config = saved.model.config
    lines, body = split_front_matter(original)
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
    return card(head, f"# A converted model\n\n| | |\n| --- | --- |\n{table}{rest}", select_entries(lines, KEPT))
