"""The logit lens: its last stage is what the model wrote, earlier ones are the stream read by the same projection."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pellucid.analysis.lens import logit_lens
from pellucid.errors import DataError
from pellucid.model.families import SequenceClassifier
from pellucid.model.parts import Parts
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator
from tests.tiny_model import tiny_config
from tests.unit.analysis.explained import MODELS, logits_of, traced
from tests.unit.tracing.models import transformer


@pytest.mark.parametrize("name", MODELS)
def test_the_last_stage_is_what_the_model_writes(name: str) -> None:
    model = MODELS[name]()
    pass_of = traced(model)
    found, probabilities = logit_lens(model, pass_of, top=3), logits_of(model, pass_of).softmax(-1)
    best = probabilities.topk(3)
    np.testing.assert_allclose(found.probabilities[-1], best.values.numpy(), atol=1e-6)
    assert [[token.id for token in row] for row in found.top[-1]] == best.indices.tolist()
    for row, token in enumerate(found.rows):
        assert token.id is not None
        assert found.chosen[-1, row] == pytest.approx(float(probabilities[row, token.id]), abs=1e-6)
        assert found.ranks[-1, row] == int((probabilities[row] > probabilities[row, token.id]).sum())


@pytest.mark.parametrize("name", MODELS)
def test_each_sublayer_is_a_stage(name: str) -> None:
    model = MODELS[name]()
    found = logit_lens(model, traced(model))
    kinds = ["self_attn", *(["cross_attn"] if name.startswith("transformer") else []), "feed_forward"]
    assert found.stages == ("embedding", *(f"layer {layer} {kind}" for layer in (0, 1) for kind in kinds))
    assert found.probabilities.shape[:2] == found.chosen.shape == found.ranks.shape
    assert found.chosen.shape == (len(found.stages), len(found.rows))


@pytest.mark.parametrize("options", ["pre", "post", "post-final", "pre-without-final"])
def test_a_stage_is_the_models_that_ends_there(options: str) -> None:
    """A model whose last layer is taken away writes what the lens shows behind the layer before."""
    model = MODELS[f"transformer-{options}"]()
    pass_of = traced(model)
    found = logit_lens(model, pass_of)
    del model.decoder.layers[1]
    probabilities = logits_of(model, pass_of).softmax(-1)
    at = found.stages.index("layer 0 feed_forward")
    np.testing.assert_allclose(found.probabilities[at], probabilities.topk(5).values.numpy(), atol=1e-6)


def test_the_embedding_is_read_as_well() -> None:
    model = MODELS["decoder-pre"]()
    pass_of = traced(model)
    ids = torch.tensor([[token.id for token in pass_of.sequences["tgt"]]])
    with torch.inference_mode():
        states = model.decoder.norm(model.tgt_embedding(ids))
        expected = model.output_projection(states)[0].softmax(-1)
    np.testing.assert_allclose(logit_lens(model, pass_of).probabilities[0], expected.topk(5).values.numpy(), atol=1e-6)


def test_a_classifier_has_one_row_which_is_its_label() -> None:
    model = MODELS["classifier-pooler"]()
    assert isinstance(model, SequenceClassifier)
    found = logit_lens(model, traced(model), top=9)
    assert (found.sequence, len(found.rows), found.rows[0].text) == ("classes", 1, str(found.rows[0].id))
    assert found.probabilities.shape == (5, 1, 4), "there are four classes"
    np.testing.assert_allclose(found.probabilities.sum(axis=-1), 1, atol=1e-6)


def test_what_a_page_takes(translator: Translator) -> None:
    pass_of = translator.trace("a b c", "c b a")
    found = logit_lens(translator, pass_of, top=2).to_json()
    assert list(found) == ["sequence", "stages", "cells"]
    cell = found["cells"][-1][0]
    assert list(cell) == ["top", "chosen", "rank"]
    assert [list(word) for word in cell["top"]] == [["text", "piece", "id", "probability"]] * 2
    assert len(found["cells"]) == len(found["stages"])
    assert len(found["cells"][0]) == len(pass_of.sequences["out"]) == 4
    assert (
        cell["top"][cell["rank"]]["piece"] == "c"
        if cell["rank"] < 2
        else cell["chosen"] <= cell["top"][1]["probability"]
    )


def test_it_says_itself_in_a_line(translator: Translator) -> None:
    told = repr(logit_lens(translator, translator.trace("a b c", "c b a")))
    assert told.startswith("Lens(4 stages x 4 rows of `out`; the generated word is the first for the last ")


def test_nothing_to_keep_is_refused() -> None:
    model = transformer()
    with pytest.raises(DataError, match=r"`top` \(0\) must be at least 1"):
        logit_lens(model, traced(model), top=0)


class Alone(nn.Module):
    """A layer of one's own that keeps its sums to itself."""

    def forward(self, x: Tensor, memory: Tensor | None, mask: Tensor | None, *_: object) -> Tensor:
        return x


def test_layers_that_do_not_tell_are_counted() -> None:
    model = Transformer(tiny_config(), Parts(decoder_layer=lambda config: Alone()))
    with pytest.raises(
        DataError, match="2 of the 2 layers of the decoder do not report their residual updates"
    ) as caught:
        logit_lens(model, traced(model))
    assert "pellucid.EncoderLayer or DecoderLayer" in caught.value.hint
