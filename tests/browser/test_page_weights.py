"""Weights and descriptions that are damaged, or made to harm: each is refused in a sentence, at once."""

import base64
import json
import re
import struct
from typing import Any

import pytest

from pellucid.config import ModelConfig
from pellucid.config.tables import to_table
from pellucid.weights.export.page_weights import page_weights
from tests.browser.node import VIEWER, in_node
from tests.browser.page_models import OPEN, opened, random_model
from tests.tiny_model import tiny_config

pytestmark = pytest.mark.browser

ASK = """
const { readWeights } = await viewer("model/tensors.js"), { buildModel } = await viewer("model/families.js");
const refusal = (call) => {
  try { call(); } catch (error) { return error.name === "Refusal" ? error.message : `not told: ${error.stack}`; }
  return null;
};
"""
SIZES: dict[str, Any] = {"d_model": 4, "d_ff": 5, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
SMALL = tiny_config(**SIZES)


def file(header: Any, numbers: bytes = b"", length: int | None = None) -> str:
    """Base64 of a safetensors file."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    whole = struct.pack("<Q", len(text) if length is None else length) + text + numbers
    return base64.b64encode(whole).decode()


def tensor(dtype: Any = "F32", shape: Any = (1,), places: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": places}


NAN, INFINITE = struct.pack("<f", float("nan")), struct.pack("<f", float("inf"))
ROW = {"x": tensor("I8", (1, 4), (0, 4)), "x.scale": tensor("F32", (1,), (4, 8))}

DAMAGED: list[tuple[str, str]] = [
    (base64.b64encode(b"").decode(), "they end after 0 bytes, within their header"),
    (base64.b64encode(b"\0" * 7).decode(), "they end after 7 bytes"),
    (file({}, length=2**63), "within their header"),
    (file({}, length=2**64 - 1), "within their header"),
    (file({}, length=3), "within their header"),
    (file(b"\xff\xfe"), "their header cannot be read"),
    (file(b'{"x": '), "their header cannot be read"),
    (file(b"[" * 100_000), "their header cannot be read"),
    (file([1, 2]), "their header cannot be read"),
    (file(b"null"), "their header cannot be read"),
    (file({"x": None}), "does not say what `x` is"),
    (file({"x": 3}), "does not say what `x` is"),
    (file({"x": tensor(shape="many")}), "does not say what `x` is"),
    (file({"x": tensor(shape=[-1])}), "does not say what `x` is"),
    (file({"x": tensor(shape=[0.5])}), "does not say what `x` is"),
    (file({"x": tensor(shape=[1e300])}), "does not say what `x` is"),
    (file({"x": tensor(places=[0])}), "does not say what `x` is"),
    (file({"x": tensor(places=[0, 2**60])}), "does not say what `x` is"),
    (file({"x": tensor(places=["0", "4"])}), "does not say what `x` is"),
    (file({"x": tensor("F64", places=(0, 8))}, bytes(8)), "`x` are stored as F64; a page reads F32, F16 and I8"),
    (file({"x": tensor("constructor")}, bytes(4)), "stored as constructor"),
    (file({"x": tensor(["F32"])}, bytes(4)), 'stored as ["F32"]'),
    (file({"x": tensor(shape=[2**30, 2**30])}, bytes(4)), "`x` has 4 bytes, its shape needs 46116860184273"),
    (file({"x": tensor(shape=[2**32, 2**21], places=[0, 4])}, bytes(4)), "its shape needs"),
    (file({"x": tensor(places=(4, 0))}, bytes(4)), "`x` has -4 bytes, its shape needs 4"),
    (file({"x": tensor(places=(4, 8))}, bytes(8)), "`x` begins at byte 4 and not at 0"),
    (file({"x": tensor(), "y": tensor()}, bytes(4)), "`y` begins at byte 0 and not at 4"),
    (file({"x": tensor(shape=(2,), places=(0, 8)), "y": tensor(places=(4, 8))}, bytes(8)), "`y` begins at byte 4"),
    (file({"x": tensor()}, bytes(3)), "there are 3 bytes of numbers, the header needs 4"),
    (file({"x": tensor()}, bytes(5)), "there are 5 bytes of numbers, the header needs 4"),
    (file({"x": tensor(shape=[2**40], places=[0, 2**42])}, bytes(4)), "the header needs 4398046511104"),
    (file({"x": tensor()}, NAN), "some of `x` are no numbers"),
    (file({"x": tensor()}, INFINITE), "some of `x` are no numbers"),
    (file({"x": tensor("F16", (2,), (0, 4))}, b"\0\0\0\x7c"), "some of `x` are no numbers"),
    (file(ROW, bytes(4) + NAN), "some of `x` are no numbers"),
    (file(ROW, b"\1\0\0\0" + INFINITE), "some of `x` are no numbers"),
    (file({"x": ROW["x"]}, bytes(4)), "the bytes of `x` have no scale for each row"),
    (file(ROW | {"x": tensor("I8", (4,), (0, 4))}, bytes(8)), "the bytes of `x` have no scale"),
    (file(ROW | {"x": tensor("I8", (2, 2), (0, 4))}, bytes(8)), "the bytes of `x` have no scale"),
    (file(ROW | {"x.scale": tensor("I8", (1, 4), (4, 8))}, bytes(8)), "have no scale"),
    (file({"x" * 5000: None}), "does not say what `xxx"),
]


def test_damage_is_told() -> None:
    script = ASK + 'return a.map((one) => refusal(() => readWeights(new Uint8Array(Buffer.from(one, "base64")))));'
    found = in_node(script, [damaged for damaged, _ in DAMAGED])
    for said, (_, expected) in zip(found, DAMAGED, strict=True):
        assert said is not None
        assert expected in said
        assert said.startswith(("The model's weights are damaged: ", "The weights `"))
        assert len(said) < 250


def test_every_length_of_a_truncated_file_is_told() -> None:
    whole = base64.b64encode(page_weights(random_model(SMALL), "int8")).decode()
    script = """
    const whole = new Uint8Array(Buffer.from(a, "base64"));
    const lengths = [...whole.keys()].filter((length) => length < 3000 || length % 37 === 0);
    const told = lengths.map((length) => refusal(() => readWeights(whole.subarray(0, length))));
    return told.filter((said) => !said?.startsWith("The model's weights are damaged"));
    """
    assert in_node(ASK + script, whole) == []


@pytest.mark.parametrize("weights", ["float32", "float16", "int8"])
def test_mutations_are_told_or_change_numbers_alone(weights: Any) -> None:
    """Thousands of files with wrong bytes, most of them in the header: no crash, no hang, nothing but sentences."""
    model = random_model(SMALL)
    script = """
    const whole = new Uint8Array(Buffer.from(a.weights, "base64")), header = 8 + whole[0] + 256 * whole[1];
    let state = 12345;
    const below = (count) => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0;
      return Math.floor((state / 2 ** 32) * count);
    };
    const digits = [..."0123456789[]{},:\\"-.eE"].map((one) => one.charCodeAt(0));
    const told = { read: 0, built: 0, wrong: [] };
    for (let round = 0; round < 3000; round++) {
      const bytes = whole.slice();
      for (let n = 1 + below(3); n > 0; n--) {
        const at = below(4) ? below(header) : below(bytes.length);
        bytes[at] = below(2) ? below(256) : digits[below(digits.length)];
      }
      let tensors = null;
      const said = refusal(() => { tensors = readWeights(bytes); }) ?? refusal(() => buildModel(a.config, tensors));
      if (said === null) told.built += 1;
      else if (/^The (model's weights|weights `)/.test(said)) told.read += 1;
      else told.wrong.push(said);
    }
    return told;
    """
    found = in_node(ASK + script, opened(model, weights))
    assert found["wrong"] == []
    assert found["read"] > 2000
    assert found["read"] + found["built"] == 3000


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"d_model": 0}, "`d_model` cannot be 0"),
    ({"d_model": 2**17}, "`d_model` cannot be 131072"),
    ({"d_model": 1e300}, "`d_model` cannot be 1e+300"),
    ({"d_model": "512"}, "`d_model` cannot be 512"),
    ({"d_model": None}, "`d_model` cannot be null"),
    ({"d_ff": -3}, "`d_ff` cannot be -3"),
    ({"num_heads": 3}, "`num_heads` does not go with its other settings"),
    ({"num_kv_heads": 3}, "`num_kv_heads` does not go with"),
    ({"num_encoder_layers": 1025}, "`num_encoder_layers` cannot be 1025"),
    ({"num_encoder_layers": 0, "num_decoder_layers": 0}, "`num_encoder_layers` does not go with"),
    ({"num_classes": 2}, "`num_classes` does not go with"),
    ({"num_classes": 1, "num_decoder_layers": 0}, "`num_classes` does not go with"),
    ({"norm": "middle"}, "`norm` cannot be middle"),
    ({"norm": "constructor"}, "`norm` cannot be constructor"),
    ({"norm_eps": -1}, "`norm_eps` cannot be -1"),
    ({"positions": "rotary", "head_dim": 3}, "`head_dim` does not go with"),
    ({"positions": "rotary", "rotary_base": 0}, "`rotary_base` cannot be 0"),
    ({"positions": "rotary", "rotary_factor": 0.5}, "`rotary_factor` cannot be 0.5"),
    ({"positions": "rotary", "rotary_wavelengths": [5, 3]}, "`rotary_wavelengths` cannot be [5,3]"),
    ({"positions": "rotary", "rotary_wavelengths": "ab"}, "`rotary_wavelengths` cannot be ab"),
    ({"positions": "relative", "relative_max_distance": 16}, "`relative_max_distance` does not go with"),
    ({"relative_num_buckets": 3}, "`relative_num_buckets` cannot be 3"),
    ({"bias": 1}, "`bias` cannot be 1"),
    ({"tie_embeddings": "all"}, "`tie_embeddings` does not go with"),
    ({"pad_id": 1.5}, "`pad_id` cannot be 1.5"),
    ({"wings": 2}, "knows no setting `wings`"),
    ({"toString": 2}, "knows no setting `toString`"),
    ({"max_positions": 2**24 + 1}, "`max_positions` cannot be 16777217"),
    ({"num_encoder_layers": 1024}, "lack `encoder.layers.1.self_attn.qkv_proj.weight`"),
    ({"src_vocab_size": 2**22}, "`src_embedding.tokens.weight` have shape (23, 4), the model's have (4194304, 4)"),
    ({"d_ff": 2**18}, "`encoder.layers.0.feed_forward.up_proj.weight` have shape (5, 4), the model's have (262144, 4)"),
    ({"positions": "learned", "max_positions": 2**24}, "lack `src_embedding.positions.weight`"),
    ({"gated_feed_forward": True}, "lack `encoder.layers.0.feed_forward.gate_proj.weight`"),
    ({"bias": False}, ".bias` are no part of the model"),
    ({"num_decoder_layers": 0}, "are no part of the model"),
]


def test_a_config_that_cannot_be_or_is_of_another_model_is_told() -> None:
    model = opened(random_model(SMALL))
    asked = {"weights": model["weights"], "configs": [model["config"] | changes for changes, _ in IMPOSSIBLE]}
    script = """
    const tensors = readWeights(new Uint8Array(Buffer.from(a.weights, "base64")));
    return a.configs.map((config) => refusal(() => buildModel(config, tensors)));
    """
    for said, (changes, expected) in zip(in_node(ASK + script, asked), IMPOSSIBLE, strict=True):
        assert said is not None, changes
        assert expected in said, changes


@pytest.mark.parametrize("config", [None, 3, "model", [1]])
def test_a_description_without_a_model_is_told(config: Any) -> None:
    script = ASK + "return refusal(() => buildModel(a.config, new Map()));"
    assert in_node(script, {"config": config}) == "The page does not describe its model."


def test_settings_that_do_not_count_are_not_looked_at() -> None:
    """As in Python, where a rate of rotary positions may be anything in a model that has none."""
    config = ModelConfig(**to_table(SMALL) | {"rotary_factor": 0.0, "rotary_base": -1.0, "relative_max_distance": 1})
    script = OPEN + "return Array.from(open(a).forward([3, 4], [5])).every(Number.isFinite);"
    assert in_node(script, opened(random_model(config)))


def test_input_that_a_model_cannot_read_is_told() -> None:
    config = tiny_config(**SIZES, max_positions=8)
    script = """
    const model = buildModel(a.config, readWeights(new Uint8Array(Buffer.from(a.weights, "base64"))));
    const step = (tokens, width) => () => model.step(tokens, model.start([3, 4], {}, width));
    const full = model.start([3]);
    for (let n = 0; n < 8; n++) model.step([3], full);
    return [
      () => model.encode([]), () => model.encode([3, 23]), () => model.encode([-1]), () => model.encode([1.5]),
      () => model.encode(["3"]), () => model.encode([NaN]), () => model.encode([3, 3, 3, 3, 3, 3, 3, 3, 3]),
      () => model.forward([3], [19]), () => model.forward([3], []), step([3], 2), step([3, 19], 2),
      () => model.step([3], full),
    ].map(refusal);
    """
    assert in_node(ASK + script, opened(random_model(config))) == [
        "There is nothing to read.",
        "There is no token 23; the model's are 0 to 22.",
        "There is no token -1; the model's are 0 to 22.",
        "There is no token 1.5; the model's are 0 to 22.",
        "There is no token 3; the model's are 0 to 22.",
        "There is no token NaN; the model's are 0 to 22.",
        "A text of 9 tokens is longer than the model's 8.",
        "There is no token 19; the model's are 0 to 18.",
        "There is nothing to read.",
        "1 tokens are given for 2 hypotheses.",
        "There is no token 19; the model's are 0 to 18.",
        "A text of 9 tokens is longer than the model's 8.",
    ]


def test_each_refusal_has_its_sentence_in_korean() -> None:
    refusing = [path for part in ("model", "search", "worker") for path in sorted((VIEWER / part).glob("*.js"))]
    sources = "".join(path.read_text(encoding="utf-8") for path in refusing)
    written = set(re.findall(r'(?:new Refusal\(\s*|checkIds\([^"\n]*)"([^"]*)"', sources))
    korean = in_node('return (await viewer("shell/ko/refusals.js")).ko')
    assert len(written) > 20
    assert korean.keys() == written
    for english, text in korean.items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", english)), english
