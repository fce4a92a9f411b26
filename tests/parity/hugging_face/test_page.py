"""What transformers computes, the model of a page computes: every family that is imported, and a real checkpoint."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.config.tables import to_table
from pellucid.model.families import DecoderOnly, Model
from pellucid.model.transformer import Transformer
from pellucid.weights import from_hugging_face
from pellucid.weights.export.page_weights import page_weights
from tests.browser.node import in_node
from tests.parity.hugging_face import test_bert, test_decoders, test_encoder_decoders, test_relatives_of_bert
from tests.parity.hugging_face.outside import opened, random_outside

pytestmark = pytest.mark.foreign

OUTPUT = """
const { readWeights } = await viewer("model/tensors.js"), { buildModel } = await viewer("model/families.js");
const model = buildModel(a.config, readWeights(new Uint8Array(readFileSync(a.weights))));
return Array.from(model.forward(...a.ids, { segments: a.segments }));
"""


def in_page(model: Model, folder: Path, *ids: list[int], segments: list[int] | None = None) -> Tensor:
    """What the model in JavaScript gives of one sentence."""
    weights = folder / "page.safetensors"
    weights.write_bytes(page_weights(model, "float32"))
    asked = {"config": to_table(model.config), "weights": str(weights), "ids": ids}
    return torch.tensor(in_node(OUTPUT, asked | ({} if segments is None else {"segments": segments})))


def close(ours: Tensor, theirs: Tensor) -> None:
    """Within 1e-4, or of large numbers within 1e-5 of the largest."""
    theirs = theirs.flatten()
    assert ours.shape == theirs.shape
    assert float((ours - theirs).abs().max()) <= max(1e-4, 1e-5 * float(theirs.abs().max()))


@pytest.mark.parametrize("case", test_encoder_decoders.CASES, ids=test_encoder_decoders.ids_of)
@torch.inference_mode()
def test_an_encoder_decoder(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    name, settings = case
    theirs = random_outside(name, **settings)
    ours = opened(theirs, tmp_path)
    assert isinstance(ours, Transformer)
    src, tgt = [7, 5, 9, 8, 6], [ours.config.bos_id, 8, 5]
    out = theirs(input_ids=torch.tensor([src]), decoder_input_ids=torch.tensor([tgt]))
    close(in_page(ours, tmp_path, src, tgt), out.logits)


@pytest.mark.parametrize("case", test_decoders.CASES, ids=test_decoders.ids_of)
@torch.inference_mode()
def test_a_decoder(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    name, settings = case
    theirs = random_outside(name, **settings)
    ours = opened(theirs, tmp_path)
    assert isinstance(ours, DecoderOnly)
    ids = [7, 5, 9, 8, 6, 11]
    if name == "GPT2Model":  # which has no projection
        close(in_page(ours, tmp_path, ids), ours(torch.tensor([ids])))
    else:
        close(in_page(ours, tmp_path, ids), theirs(torch.tensor([ids])).logits)


ENCODERS = [("BertModel", test_bert.SIZES | shape) for shape in test_bert.SHAPES]
ENCODERS += [(f"{name}Model", settings) for name, settings in test_relatives_of_bert.CASES]
CLASSIFIERS: list[tuple[str, dict[str, Any]]] = [
    ("Bert", test_bert.SIZES),
    ("Roberta", test_relatives_of_bert.ROBERTA),
    ("DistilBert", test_relatives_of_bert.DISTILBERT),
]


@pytest.mark.parametrize("case", ENCODERS, ids=str)
@torch.inference_mode()
def test_an_encoder(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    theirs = random_outside(case[0], **case[1])
    ids = [7, 9, 8, 6, 11]
    close(in_page(opened(theirs, tmp_path), tmp_path, ids), theirs(torch.tensor([ids])).last_hidden_state)


@pytest.mark.parametrize("case", CLASSIFIERS, ids=str)
@torch.inference_mode()
def test_a_classifier(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    theirs = random_outside(f"{case[0]}ForSequenceClassification", **case[1], num_labels=3)
    ids = [7, 9, 8, 6, 11]
    close(in_page(opened(theirs, tmp_path), tmp_path, ids), theirs(torch.tensor([ids])).logits)


@torch.inference_mode()
def test_a_real_checkpoint(minilm: Path, tmp_path: Path) -> None:
    import transformers

    theirs = transformers.BertModel.from_pretrained(minilm, attn_implementation="eager").eval()
    ours, _ = from_hugging_face(minilm)
    batch = transformers.AutoTokenizer.from_pretrained(minilm)("Who wrote it?", "Nobody knows.", return_tensors="pt")
    ids, segments = batch["input_ids"][0].tolist(), batch["token_type_ids"][0].tolist()
    assert max(segments) == 1
    close(in_page(ours, tmp_path, ids, segments=segments), theirs(**batch).last_hidden_state)
