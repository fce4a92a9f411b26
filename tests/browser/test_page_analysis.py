"""Lens, contributions and occlusion of the JavaScript model are those of PyTorch, for every family."""

from typing import Any

import pytest
import torch

from pellucid.config import ModelConfig
from tests.browser.node import in_node
from tests.browser.page_models import OPEN, opened, random_model

pytestmark = pytest.mark.browser

NAMED = "const model = open(a), named = (id) => ({ text: `w${id}`, piece: `w${id}` });"
SMALL: dict[str, Any] = {"d_model": 24, "num_heads": 3, "d_ff": 40, "dropout": 0.0, "max_positions": 40}
BOTH: dict[str, Any] = {
    **SMALL, "src_vocab_size": 30, "tgt_vocab_size": 30, "num_encoder_layers": 2, "num_decoder_layers": 2,
}  # fmt: skip
SHAPES = {
    "the paper's": ModelConfig(**BOTH),
    "norm first, all tied": ModelConfig(**BOTH, norm="pre", tie_embeddings="all"),
    "rms, gated, no biases": ModelConfig(
        **BOTH, norm="pre", norm_type="rms", gated_feed_forward=True, bias=False, positions="rotary"
    ),
    "rms behind the sum": ModelConfig(**BOTH, norm_type="rms", activation="gelu", positions="relative"),
    "norms everywhere": ModelConfig(
        **BOTH, final_norm=True, embedding_norm=True, output_bias=True, tie_embeddings="none"
    ),
    "pre without the last": ModelConfig(**BOTH, norm="pre", final_norm=False, output_bias=True, num_kv_heads=1),
    "a decoder": ModelConfig.decoder(vocab_size=30, num_layers=2, norm="pre", output_bias=True, **SMALL),
    "a decoder after the sum": ModelConfig.decoder(vocab_size=30, num_layers=2, head_dim=6, **SMALL),
    "a classifier": ModelConfig.encoder(vocab_size=30, num_layers=2, num_classes=4, **SMALL),
    "a pooler": ModelConfig.encoder(
        vocab_size=30,
        num_layers=2,
        num_classes=3,
        norm="pre",
        classifier_activation="tanh",
        embedding_norm=True,
        **SMALL,
    ),
    "the mean": ModelConfig.encoder(
        vocab_size=30, num_layers=2, num_classes=3, norm="pre", pooling="mean", classifier_activation="relu", **SMALL
    ),
}
SRC, TGT, OUT = [5, 9, 12, 29, 7, 21, 2], [1, 17, 6, 8, 14], [17, 6, 8, 14, 2]


def given(config: ModelConfig) -> dict[str, Any]:
    """What a pass of the family is given."""
    if config.family == "encoder":
        return {"src": SRC, "tgt": None, "out": None}
    return {"src": SRC if config.family == "encoder-decoder" else None, "tgt": TGT, "out": OUT}


def logits_of(model: Any, hidden: tuple[int, ...] = ()) -> torch.Tensor:
    """The logits (R, V) of the pass with these places hidden, by PyTorch."""
    family = model.config.family
    read = TGT if family == "decoder" else SRC
    seen = torch.tensor([[[[place not in hidden for place in range(len(read))]]]])
    with torch.no_grad():
        if family == "encoder":
            return model(torch.tensor([SRC]), mask=seen)
        if family == "encoder-decoder":
            return model(torch.tensor([SRC]), torch.tensor([TGT]), src_mask=seen)[0]
        causal = torch.ones(len(TGT), len(TGT), dtype=torch.bool).tril() & (
            seen[0, 0] | torch.eye(len(TGT), dtype=torch.bool)
        )
        return model.output_projection(
            model.decoder(model.tgt_embedding(torch.tensor([TGT])), None, causal[None, None], None)
        )[0]


def written(model: Any, logits: torch.Tensor) -> torch.Tensor:
    return logits.argmax(dim=-1) if model.config.family == "encoder" else torch.tensor(OUT)


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES)
def model(request: pytest.FixtureRequest) -> Any:
    return random_model(request.param)


def asked(model: Any, script: str, **more: Any) -> Any:
    return in_node(OPEN + NAMED + script, {**opened(model), "given": given(model.config), **more})


def test_the_lens_ends_with_what_the_model_says(model: Any) -> None:
    found = asked(model, 'const { lens } = await viewer("analysis/lens.js"); return lens(model, a.given, named);')
    logits = logits_of(model)
    probabilities, ids = logits.softmax(dim=-1), written(model, logits)
    for row, cell in enumerate(found["cells"][-1]):
        best = probabilities[row].topk(min(5, probabilities.size(-1)))
        assert [one["id"] for one in cell["top"]] == best.indices.tolist()
        torch.testing.assert_close(
            torch.tensor([one["probability"] for one in cell["top"]]), best.values, atol=1e-5, rtol=0
        )
        assert cell["chosen"] == pytest.approx(float(probabilities[row, ids[row]]), abs=1e-5)
        assert cell["rank"] == int((probabilities[row] > probabilities[row, ids[row]]).sum())


def test_the_lens_reads_the_stream_behind_each_sublayer(model: Any) -> None:
    found = asked(model, 'const { lens } = await viewer("analysis/lens.js"); return lens(model, a.given, named);')
    config = model.config
    stack, sublayers = (model.encoder, ["self_attn"]) if config.family == "encoder" else (model.decoder, ["self_attn"])
    sublayers = [*sublayers, *(["cross_attn"] if config.family == "encoder-decoder" else []), "feed_forward"]
    assert found["stages"] == ["embedding", *(f"layer {n} {name}" for n in range(2) for name in sublayers)]
    streams: list[torch.Tensor] = []
    stack.layers[0].register_forward_pre_hook(lambda _, inputs: streams.append(inputs[0]))
    for layer in stack.layers:
        layer.register_forward_hook(lambda _, inputs, output: streams.append(output))
    logits_of(model)
    for states, cells in zip(
        streams, [found["cells"][0], *found["cells"][len(sublayers) :: len(sublayers)]], strict=True
    ):
        with torch.no_grad():
            x = states if stack.norm is None else stack.norm(states)
            read = (model.head(x) if config.family == "encoder" else model.output_projection(x)[0]).softmax(dim=-1)
        assert [cell["top"][0]["id"] for cell in cells] == read.argmax(dim=-1).tolist()
        assert [cell["top"][0]["probability"] for cell in cells] == pytest.approx(read.amax(dim=-1).tolist(), abs=1e-5)
    for layer in stack.layers:
        layer._forward_hooks.clear()
        layer._forward_pre_hooks.clear()


@pytest.mark.parametrize("against", [None, 1])
def test_contributions_add_up_to_the_logit(model: Any, against: int | None) -> None:
    row = 0 if model.config.family == "encoder" else 3
    script = (
        'const { contributions } = await viewer("analysis/contributions.js");'
        "return contributions(model, a.given, named, { row: a.row, against: a.against });"
    )
    found = asked(model, script, row=row, against=against)
    logits = logits_of(model)
    word = int(written(model, logits)[row])
    total = float(logits[row, word] - (0 if against is None else logits[row, against]))
    assert found["word"]["id"] == word
    assert found["total"] == pytest.approx(total, abs=1e-4)
    assert sum(part["value"] for part in found["parts"]) == pytest.approx(total, abs=1e-3)
    assert found["error"] <= 1e-3
    config = model.config
    heads = config.num_heads * 2 * (2 if config.family == "encoder-decoder" else 1)
    assert len(found["parts"]) == 1 + heads + 2 + 1


def test_occlusion_is_what_is_lost_when_a_word_is_hidden(model: Any) -> None:
    config = model.config
    read = TGT if config.family == "decoder" else SRC
    words = [0, 0, 1, 2, 3, 3, None][: len(read)]
    tokens = [
        {"text": f"t{i}", "special": word is None, "word": word, "continues": i > 0 and word == words[i - 1]}
        for i, word in enumerate(words)
    ]
    script = (
        'const { occlusion } = await viewer("analysis/occlusion.js");'
        "return [await occlusion(model, a.given, a.tokens), await occlusion(model, a.given, a.tokens, { row: 0 })];"
    )
    of_all, of_one = asked(model, script, tokens=tokens)
    whole = logits_of(model)
    ids = written(model, whole)[:, None]
    groups = [(0, 1), (2,), (3,), (4, 5)] if len(read) > 5 else [(0, 1), (2,), (3,), (4,)]
    assert [tuple(word["places"]) for word in of_all["words"]] == groups
    for number, group in enumerate(groups):
        lost = whole.log_softmax(dim=-1).gather(1, ids) - logits_of(model, group).log_softmax(dim=-1).gather(1, ids)
        assert of_all["words"][number]["change"] == pytest.approx(float(lost.sum()), abs=1e-4)
        assert of_one["words"][number]["change"] == pytest.approx(float(lost[0]), abs=1e-4)


def test_a_head_that_is_off_adds_nothing_and_the_sum_still_holds() -> None:
    model = random_model(SHAPES["the paper's"])
    script = (
        'const { contributions } = await viewer("analysis/contributions.js");'
        'const how = { off: new Set(["cross.1.2"]), layersOff: new Set(["decoder.0"]) };'
        "return contributions(model, a.given, named, { row: 2, how });"
    )
    found = asked(model, script)
    parts = {part["name"]: part["value"] for part in found["parts"]}
    assert parts["cross layer 1 head 2"] == 0
    assert "cross layer 0 head 0" not in parts
    assert found["error"] <= 1e-3
