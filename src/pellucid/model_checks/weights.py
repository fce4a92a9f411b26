"""Checks of learned and stored values: accumulated gradients, tied weights, and the model on disk."""

import inspect
from collections.abc import Sequence
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.conversion.counterparts import LIBRARIES, Kind
from pellucid.conversion.proof import EXTRAS, verify_conversion
from pellucid.data.batching import Batch, make_batch
from pellucid.errors import PellucidError, format_install_command
from pellucid.files.reading import read_settings
from pellucid.model.families import DecoderOnly, EncoderOnly, Model, SequenceClassifier, build_model
from pellucid.model.fast.dropout import Dropout
from pellucid.model.transformer import Transformer
from pellucid.properties.subject import (
    ExaminedModel,
    ModelCheck,
    relative_difference,
    report_bad,
    report_good,
    report_not_applicable,
)
from pellucid.training.loss import check_losses
from pellucid.weights.folder import CONVERSION, is_hugging_face_folder
from pellucid.weights.tensors import load_tensors, parameters, save_tensors, set_parameters


def accumulation(subject: ExaminedModel) -> ModelCheck:
    """Checks that accumulated gradients of batches of one text equal the gradients of one batch of all texts."""
    name, model = "accumulation", deepcopy(subject.exact)
    if isinstance(model, EncoderOnly) and not isinstance(model, SequenceClassifier):
        return report_not_applicable(name, "an encoder without a head has no loss")
    model.train()
    for module in model.modules():
        if isinstance(module, Dropout | nn.Dropout):
            module.p = 0.0  # else each batch would use other random numbers
    whole = [_batch(subject, range(_count(subject)))]
    parts = [_batch(subject, [number]) for number in range(_count(subject))]
    with torch.random.fork_rng(devices=[]):
        one = _gradients(subject, model, whole)
        if _relative_difference(one, _gradients(subject, model, whole)):
            return report_not_applicable(name, "the loss, or a part in training mode, uses random numbers")
        other = _gradients(subject, model, parts)
    for place, gradient in one.items():
        if not bool(gradient.isfinite().all()):
            return report_bad(
                name, f"the gradient of `{place}` is not finite", "look for a division by zero, or a root of it"
            )
    figure = _relative_difference(one, other)
    farthest = max(one, key=lambda place: float((one[place] - other[place]).abs().max())) if figure else ""
    said = f"gradients of {_count(subject)} batches of one text and of one batch differ by {{}} of the largest"
    if figure > subject.tolerance:
        said += f", most in {farthest}"
    return subject.result(
        name, said, figure,
        "a loss must be a sum over the target tokens without padding, since the step divides by their number; and no "
        "part may mix the texts of a batch",
    )  # fmt: skip


def _count(subject: ExaminedModel) -> int:
    return len(subject.sources or subject.targets)


def _batch(subject: ExaminedModel, numbers: Sequence[int]) -> Batch:
    """Returns texts of the subject as a training batch."""
    config, framed = subject.config, len(subject.targets[0]) - len(_bare(subject, 0)) if subject.targets else 0
    if config.family == "decoder":
        texts = [subject.targets[number][framed:] for number in numbers]
        return make_batch(texts, None, config, decode=subject.decode).to(subject.device)
    # If a model treats every id as a word, only texts of the same length may form a batch.
    longest = None if config.pad_id is not None else min(map(len, [*subject.bare_sources, *_bare_targets(subject)]))
    sources = [subject.bare_sources[number][:longest] for number in numbers]
    targets: Any = [number % config.num_classes for number in numbers] if config.family == "encoder" else [
        _bare(subject, number)[:longest] for number in numbers
    ]  # fmt: skip
    return make_batch(sources, targets, config, decode=subject.decode).to(subject.device)


def _bare(subject: ExaminedModel, number: int) -> list[int]:
    """Returns a target without its prefix."""
    before = 1 + len(subject.decode.target_prefix)
    if subject.config.family == "decoder":
        before = len(subject.decode.source_prefix) or 1
    return subject.targets[number][before:]


def _bare_targets(subject: ExaminedModel) -> list[list[int]]:
    return [_bare(subject, number) for number in range(len(subject.targets))]


def _gradients(subject: ExaminedModel, model: Model, batches: Sequence[Batch]) -> dict[str, Tensor]:
    """Returns the gradient of the mean loss per token, as a training step computes it from its batches."""
    tokens = sum(batch.num_tokens for batch in batches)
    model.zero_grad(set_to_none=True)
    for batch in batches:
        losses = check_losses(subject.loss(model, batch), subject.loss)
        (losses.minimised / tokens).backward()  # type: ignore[no-untyped-call]
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def _relative_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Returns the largest difference of gradients, relative to the largest gradient."""
    if one.keys() != other.keys():
        return float("inf")
    largest = max(float(gradient.abs().max()) for gradient in one.values())
    difference = max(float((one[name] - other[name]).abs().max()) for name in one)
    return difference / largest if largest else 0.0


def check_tied_weights(subject: ExaminedModel) -> ModelCheck:
    """Checks that weights tied by the settings are one tensor, and no other weights are."""
    name, model, ties = "tied", subject.model, subject.config.tie_embeddings
    if isinstance(model, EncoderOnly):
        return report_not_applicable(name, "an encoder has no output projection to tie its embeddings to")
    assert isinstance(model, Transformer | DecoderOnly)
    tensors = {
        "tgt_embedding.tokens.weight": model.tgt_embedding.tokens.weight,
        "output_projection.weight": model.output_projection.weight,
    }
    if isinstance(model, Transformer):
        tensors["src_embedding.tokens.weight"] = model.src_embedding.tokens.weight
    wanted = {"none": 1, "decoder": 2, "all": len(tensors)}[ties]
    (_, embedding), *others = tensors.items()
    for number, (place, tensor) in enumerate(others, start=2):
        if (tensor is embedding) != (number <= wanted):
            if number > wanted:
                return report_bad(name, f'{place} is the tensor of the embedding, but `tie_embeddings` is "{ties}"',
                           "a saved model would lack it: clone it, or set `tie_embeddings`")  # fmt: skip
            figure = relative_difference(tensor, embedding)
            text = f"`{place}` is a separate tensor, which differs from the embedding by {figure:.1e} of the largest"
            return report_bad(name, f'{text}, but `tie_embeddings` is "{ties}"', "assign one to the other: "
                       "model.output_projection.weight = model.tgt_embedding.tokens.weight", figure)  # fmt: skip
    if wanted == 1:
        return report_not_applicable(name, 'nothing is tied (`tie_embeddings` is "none")')
    return report_good(name, f"embedding and {'output projection' if wanted == 2 else 'the two others'} are one tensor")


@torch.inference_mode()
def check_save_load(subject: ExaminedModel) -> ModelCheck:
    """Checks that a new model with the weights from a file gives the same output, bit for bit."""
    name, model = "saved", deepcopy(subject.model).eval()
    device, dtype = subject.device, next(model.parameters()).dtype
    with TemporaryDirectory(prefix="pellucid-") as folder:
        path = Path(folder) / "model.safetensors"
        save_tensors(path, parameters(model))
        again = _new(model).to(device, dtype)
        set_parameters(again, load_tensors(path), "the saved model")
        again.eval()
    pairs = zip(subject.outputs(model), subject.outputs(again), strict=True)
    figure = max(relative_difference(one, other) for one, other in pairs)
    return subject.result(
        name, "saved and opened again, outputs differ by {} of the largest", figure,
        "learned values must be parameters or persistent buffers: nothing else is saved", tolerance=0.0,
    )  # fmt: skip


def _new(model: Model) -> Model:
    """Returns a new model of the same kind: of its own class, if its constructor is like Pellucid's."""
    made = type(model)
    takes = list(inspect.signature(made).parameters)
    return made(model.config, model.parts) if takes[:2] == ["config", "parts"] else build_model(
        model.config, model.parts
    )  # fmt: skip


def conversions(subject: ExaminedModel) -> list[ModelCheck]:
    """Checks a Hugging Face folder against transformers, and the conversions stored in a folder against its model."""
    name, folder = "conversions", subject.folder
    if folder is None:
        return [report_not_applicable(name, "the model was not loaded from a folder")]
    found = []
    if is_hugging_face_folder(folder):
        found.append(_verify(folder, folder, "hf", "transformers, which reads the same folder"))
    for kept in sorted(folder.glob("cache/*/model")):
        dtype = kept.parent.name.split("-")[1]
        rounded = "" if dtype == "float32" else dtype
        found.append(_verify(folder, kept, "ct2", f"{kept.parent.name} in its cache", rounded))
    if (folder / CONVERSION).is_file():
        found.append(_read_verification(folder))
    return found or [report_not_applicable(name, "the folder was not converted, and has no stored conversion")]


def _verify(folder: Path, other: Path, kind: Kind, said: str, rounded_to: str = "") -> ModelCheck:
    """Compares two sides again, if the other library is installed."""
    name = "conversions"
    if find_spec(LIBRARIES[kind].lower()) is None:
        return report_not_applicable(name, f"not compared with {said}: {format_install_command(EXTRAS[kind])}")
    proof = verify_conversion(folder, other, kind, rounded_to=rounded_to)
    if not proof.compared:
        return report_not_applicable(name, f"not compared with {said}: {proof.reason}")
    figure = proof.largest_difference
    text = f"{proof.measure} of {proof.engine} ({said}) differ by {figure:.1e} of the largest"
    if not proof.decides:
        return ModelCheck("ok", f"{name}: {text}, rounded to {rounded_to}", "", name, figure)
    level, written = "ok" if proof.passed else "BAD", ""
    if proof.greedy_equal is not None:
        written = f", {proof.greedy_equal + proof.greedy_near_ties} of {proof.sentences} greedy outputs are equal"
    advice = "" if proof.passed else "convert it again, and read its report"
    text = f"{name}: {text}{written} (at most {proof.tolerance:.1e})"
    return ModelCheck("ok" if level == "ok" else "BAD", text, advice, name, figure, proof.tolerance)


def _read_verification(folder: Path) -> ModelCheck:
    """Reads the report of the conversion that wrote the folder: its original is not available for a comparison."""
    name = "conversions"
    try:
        table = read_settings(folder / CONVERSION)
    except PellucidError as error:
        return report_bad(name, str(error), error.hint)
    if not table.get("compared", True):
        return report_not_applicable(name, f"the folder was converted, and not compared: {table.get('reason', '')}")
    figure, tolerance = (table.get(key) for key in ("largest_difference", "tolerance"))
    if table.get("passed") is True:
        return report_good(name, f"{CONVERSION} says equal, {figure} of the largest (at most {tolerance})")
    return report_bad(
        name, f"{CONVERSION} says NOT equal, {figure} of the largest (at most {tolerance})", "convert it again"
    )
