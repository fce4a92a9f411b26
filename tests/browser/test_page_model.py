"""The model in JavaScript computes what Python computes, of every family and with every setting."""

import copy
import random
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pellucid.analysis.ablation import disable_heads, list_heads
from pellucid.config import ModelConfig
from pellucid.config.tables import to_table
from pellucid.model.attention_positions import RelativePositions
from pellucid.model.families import DecoderOnly, Model, SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.weights import from_hugging_face
from pellucid.weights.export.page_weights import PageWeights, dequantise
from tests.browser.node import in_node
from tests.browser.page_models import (
    CHOICES,
    FAMILIES,
    OPEN,
    Numbers,
    compared,
    drawn_config,
    never_drawn,
    observed,
    opened,
    random_ids,
    random_model,
    run,
    stepped,
)
from tests.parity.export.shapes import DECODERS, ENCODERS, PAIRS
from tests.unit.weights.hugging_face.folders import BART, BERT, LLAMA, bart_tensors, bert_tensors, llama_tensors, write

pytestmark = pytest.mark.browser

# Both sides round in another order, which moves numbers of about 1 by some 1e-6 here; what passes through a network may
# move by NETWORK of tests/rounding.py, 3.5e-4. This is nearer, and what a page promises.
TOLERANCE = 1e-4
SEEDS = range(48)
S, T = 11, 7

READ = (
    OPEN
    + """
return a.map((one) => {
  const model = open(one), src = one.src, tgt = one.tgt, how = { ...one.how };
  for (const name of ["off", "layersOff", "hidden"]) if (how[name]) how[name] = new Set(how[name]);
  return Array.from(src && tgt ? model.forward(src, tgt, how) : model.forward(src ?? tgt, how));
});
"""
)
"""The outputs of models, each with its ids and what else is asked for."""


def inputs(model: Model, seed: int = 0) -> dict[str, Any]:
    """The ids that a family reads, and segments where it knows some."""
    config, found = model.config, {}
    if config.num_encoder_layers:
        found["src"] = random_ids(config.src_vocab_size, S, seed)
        if config.pad_id is not None:  # which nobody attends to, wherever it stands
            found["src"][4] = found["src"][-1] = config.pad_id
    if config.num_decoder_layers:
        found["tgt"] = random_ids(config.tgt_vocab_size, T, seed + 1)
    if config.family == "encoder" and config.num_segments:
        found["how"] = {"segments": [int(place >= 4) % config.num_segments for place in range(S)]}
    return found


def outputs(model: Model, given: dict[str, Any], hidden: tuple[int, ...] = ()) -> Numbers:
    """What Python gives of the same."""
    segments = given.get("how", {}).get("segments")
    return run(model, given.get("src", []), given.get("tgt", []), hidden, segments=segments)


def models(seeds: range = SEEDS) -> dict[str, Model]:
    """A model of every family for each seed."""
    return {f"{family} {seed}": random_model(drawn_config(family, seed), seed) for family in FAMILIES for seed in seeds}


def errors(all_models: dict[str, Model], weights: PageWeights = "float32") -> dict[str, float]:
    """Of each model the largest difference of its output."""
    given = {name: inputs(model) for name, model in all_models.items()}
    found = in_node(READ, [opened(model, weights) | given[name] for name, model in all_models.items()])
    return {
        name: compared(numbers, outputs(dequantise(model, weights), given[name]))
        for (name, model), numbers in zip(all_models.items(), found, strict=True)
    }


def worst(found: dict[str, float]) -> dict[str, float]:
    """Those that are too large, with the names of their models."""
    assert found
    return {name: error for name, error in found.items() if not error <= TOLERANCE}


def test_every_field_of_a_config_is_drawn_and_each_of_its_values() -> None:
    assert CHOICES.keys() == {field.name for field in fields(ModelConfig)}
    for family in FAMILIES:
        left = never_drawn([drawn_config(family, seed) for seed in SEEDS])
        left.pop("num_classes" if family != "encoder" else "num_decoder_layers", None)
        if family == "decoder":
            left.pop("num_encoder_layers", None)
        assert left == {}, family


def test_the_defaults_are_python_s() -> None:
    found = in_node('return (await viewer("model/defaults.js")).DEFAULTS')
    expected = {name: value for name, value in to_table(ModelConfig()).items() if "dropout" not in name}
    assert found == expected | {"rotary_wavelengths": []}


def test_outputs_of_every_family_and_setting_are_python_s() -> None:
    assert worst(errors(models())) == {}


@pytest.mark.parametrize("weights", ["float16", "int8"])
def test_rounded_weights_give_what_python_computes_with_them(weights: PageWeights) -> None:
    assert worst(errors(models(range(10)), weights)) == {}


def test_shapes_of_other_programs() -> None:
    shapes = {**PAIRS, **ENCODERS, **DECODERS}
    assert worst(errors({name: random_model(config) for name, config in shapes.items()})) == {}


def test_models_of_other_programs(tmp_path: Path) -> None:
    torch.manual_seed(1)
    folders = {"BERT": (BERT, bert_tensors()), "BART": (BART, bart_tensors()), "Llama": (LLAMA, llama_tensors())}
    found = {name: from_hugging_face(write(tmp_path / name, *folder))[0] for name, folder in folders.items()}
    given: dict[str, dict[str, Any]] = {
        "BERT": {"src": [1, 5, 9]},
        "BART": {"src": [4, 7], "tgt": [2, 8, 9]},
        "Llama": {"tgt": [3, 4, 5, 6]},
    }
    made = in_node(READ, [opened(model) | given[name] for name, model in found.items()])
    for (name, model), numbers in zip(found.items(), made, strict=True):
        exact = run(model, given[name].get("src", []), given[name].get("tgt", []), segments=[0, 0, 0])
        assert compared(numbers, exact) <= TOLERANCE * max(1, float(np.abs(exact).max())), name


TELL = (
    OPEN
    + """
const model = open(a), told = {};
const tell = (place, record) => {
  const plain = ([name, each]) => [name, each?.length === undefined ? each : Array.from(each)];
  told[place] = Object.fromEntries(Object.entries(record).map(plain));
};
const how = { ...a.how, tell };
const output = Array.from(a.src && a.tgt ? model.forward(a.src, a.tgt, how) : model.forward(a.src ?? a.tgt, how));
return { output, told };
"""
)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(12))
def test_every_module_s_work_is_told(family: str, seed: int) -> None:
    model = random_model(drawn_config(family, seed), seed)
    given = inputs(model, seed)
    exact = observed(model, given.get("src", []), given.get("tgt", []), segments=given.get("how", {}).get("segments"))
    found = in_node(TELL, opened(model) | given)
    assert compared(found["output"], exact.output) <= TOLERANCE
    told = found["told"]
    places = {name for name, module in model.named_modules() if _is_told(name, module)}
    assert {place for place in told if not place.endswith(".sum")} == places
    for place in places:
        _check_module(place, told[place], exact.told[place], model)
    sums = [place for place in told if place.endswith(".sum")]
    assert {place.removesuffix(".sum") for place in sums} == {
        place for place in places if place.endswith(("_attn", "feed_forward"))
    }
    for place in sums:
        _check_sum(place.removesuffix(".sum"), told, model)
    for stack in ("encoder", "decoder"):
        count = getattr(model.config, f"num_{stack}_layers")
        for layer in range(count):
            # What goes on behind the last sum is what Python's layer returns, and what the next layer gets.
            last = told[f"{stack}.layers.{layer}.feed_forward.sum"]["after"]
            assert compared(last, exact.told[f"{stack}.layers.{layer}"]["output"]) <= TOLERANCE
            if layer + 1 < count:
                assert told[f"{stack}.layers.{layer + 1}.self_attn.sum"]["before"] == last


def _is_told(name: str, module: nn.Module) -> bool:
    parts = name.split(".")
    if parts[-1] in ("q_norm", "k_norm", "relative", "positions", "segments", "tokens", "dropout"):
        return parts[-1] in ("q_norm", "k_norm") and not isinstance(module, nn.Identity)
    ends = ("self_attn", "cross_attn", "feed_forward", "norm", "src_embedding", "tgt_embedding", "output_projection")
    return parts[-1].endswith(ends) or name == "head"


def _check_module(place: str, told: dict[str, Any], exact: dict[str, Numbers], model: Model) -> None:
    """Every number that Python knows of a module."""
    output = told["logits" if place in ("output_projection", "head") else "output"]
    if place.endswith(("q_norm", "k_norm")):  # there (H, L, K), here (L, H, K)
        exact = {name: numbers.transpose(1, 0, 2) for name, numbers in exact.items()}
    assert compared(output, exact["output"]) <= TOLERANCE, place
    if "input" in exact and place != "head":
        assert compared(told["input"], exact["input"]) <= TOLERANCE, place
    if place.endswith("_embedding"):
        parts = [told[name] for name in ("tokens", "positions", "segments") if told[name] is not None]
        summed = np.sum([np.array(part) for part in parts], axis=0)
        if not model.config.embedding_norm:
            assert compared(told["output"], summed) <= TOLERANCE, place
    if place.endswith("_attn"):
        shared = model.config.num_heads // (model.config.num_kv_heads or model.config.num_heads)
        assert compared(told["q"], exact["q"]) <= TOLERANCE, place
        for name in ("k", "v"):
            assert compared(told[name], exact[name][::shared]) <= TOLERANCE, place
        for name in ("scores", "weights"):
            assert compared(told[name], exact[name]) <= TOLERANCE, (place, name)
        mask = np.ones_like(exact["mask"]) if told["mask"] is None else np.array(told["mask"])
        assert compared(list(mask.ravel()), exact["mask"]) == 0, place


def _check_sum(place: str, told: dict[str, Any], model: Model) -> None:
    """The residual sum around a sublayer adds what it gave, and what goes on stands behind the norm of norm="post"."""
    found = {name: np.array(numbers) for name, numbers in told[place + ".sum"].items()}
    assert compared(told[place]["output"], found["added"]) == 0, place
    summed, norm = found["before"] + found["added"], told[place + "_norm"]
    post = model.config.norm == "post"
    assert compared(norm["input"], summed if post else found["before"]) <= TOLERANCE, place
    assert compared(norm["output"], found["after"] if post else np.array(told[place]["input"])) == 0, place
    if not post:
        assert compared(list(found["after"]), summed) <= TOLERANCE, place


STEPS = (
    OPEN
    + """
return a.map((one) => {
  const model = open(one), cache = model.start(one.ids, {}, one.moves[0][0].length);
  return one.moves.map(([tokens, parents]) => {
    const logits = Array.from(model.step(tokens, cache));
    cache.reorder(parents);
    return logits;
  });
});
"""
)


def writers(seeds: range) -> dict[str, Model]:
    return {name: model for name, model in models(seeds).items() if not name.startswith("encoder ")}


@pytest.mark.parametrize("width", [1, 4])
def test_steps_with_a_cache_are_python_s(width: int) -> None:
    all_models, draw, given = writers(range(20)), random.Random(width), {}
    for name, model in all_models.items():
        vocab = model.config.tgt_vocab_size
        ids = (
            random_ids(model.config.src_vocab_size, S, 3)
            if isinstance(model, Transformer)
            else random_ids(vocab, draw.choice([1, 4]), 3)
        )
        moves = [
            ([draw.randrange(vocab) for _ in range(width)], [draw.randrange(width) for _ in range(width)])
            for _ in range(12)
        ]
        given[name] = {"ids": ids, "moves": moves}
    found = in_node(STEPS, [opened(model) | given[name] for name, model in all_models.items()])
    wrong = {}
    for (name, model), steps in zip(all_models.items(), found, strict=True):
        exact = stepped(model, **given[name])
        error = max(compared(one, other) for one, other in zip(steps, exact, strict=True))
        if error > TOLERANCE:
            wrong[name] = error
    assert wrong == {}


def test_hypotheses_may_become_more_and_fewer() -> None:
    """Each step's logits are those of the whole sentence that its hypothesis has written."""
    widths, all_models = [1, 5, 3, 3, 1, 2], writers(range(8))
    draw, given, paths = random.Random(1), {}, {}
    for name, model in all_models.items():
        vocab = model.config.tgt_vocab_size
        ids = (
            random_ids(model.config.src_vocab_size, S, 3) if isinstance(model, Transformer) else random_ids(vocab, 3, 3)
        )
        begun = [] if isinstance(model, Transformer) else ids[:-1]
        hypotheses, moves, written = [list(begun)], [], []
        for width, after in zip(widths, [*widths[1:], 1], strict=True):
            tokens = [draw.randrange(vocab) for _ in range(width)]
            hypotheses = [[*each, token] for each, token in zip(hypotheses, tokens, strict=True)]
            written.append(hypotheses)
            parents = [draw.randrange(width) for _ in range(after)]
            hypotheses = [hypotheses[parent] for parent in parents]
            moves.append((tokens, parents))
        given[name], paths[name] = {"ids": ids, "moves": moves}, written
    found = in_node(STEPS, [opened(model) | given[name] for name, model in all_models.items()])
    for (name, model), steps in zip(all_models.items(), found, strict=True):
        for logits, hypotheses in zip(steps, paths[name], strict=True):
            src = given[name]["ids"]
            exact = np.stack([run(model, src, hypothesis)[-1] for hypothesis in hypotheses])
            assert compared(logits, exact) <= TOLERANCE, name


def test_heads_switched_off_are_python_s() -> None:
    all_models, asked, exact = models(range(12)), [], []
    for number, (name, model) in enumerate(all_models.items()):
        heads = random.Random(number).sample(list_heads(model), min(3, len(list_heads(model))))
        given = inputs(model)
        given["how"] = given.get("how", {}) | {"off": [f"{one.attention}.{one.layer}.{one.head}" for one in heads]}
        asked.append(opened(model) | given)
        with disable_heads(model, *heads):
            exact.append(outputs(model, given))
        assert np.abs(exact[-1] - outputs(model, given)).max() > TOLERANCE, name
    for name, numbers, expected in zip(all_models, in_node(READ, asked), exact, strict=True):
        assert compared(numbers, expected) <= TOLERANCE, name


def test_layers_switched_off_pass_their_input_on() -> None:
    all_models, asked, exact = models(range(8)), [], []
    for name, model in all_models.items():
        stack, given = "decoder" if model.config.num_decoder_layers else "encoder", inputs(model)
        layer = getattr(model.config, f"num_{stack}_layers") - 1
        shorter = copy.deepcopy(model)
        del getattr(shorter, stack).layers[layer]  # type: ignore[union-attr]
        given["how"] = given.get("how", {}) | {"layersOff": [f"{stack}.{layer}"]}
        asked.append(opened(model) | given)
        exact.append(outputs(shorter, given))
        assert name
    for name, numbers, expected in zip(all_models, in_node(READ, asked), exact, strict=True):
        assert compared(numbers, expected) <= TOLERANCE, name


@pytest.mark.parametrize("hidden", [(2,), (0, 3, 5), tuple(range(S))], ids=str)
def test_hidden_places_are_attended_to_by_nobody(hidden: tuple[int, ...]) -> None:
    all_models, asked, exact = models(range(12)), [], []
    for model in all_models.values():
        given = inputs(model)
        places = tuple(place for place in hidden if place < (T if isinstance(model, DecoderOnly) else S))
        given["how"] = given.get("how", {}) | {"hidden": list(places)}
        asked.append(opened(model) | given)
        exact.append(outputs(model, given, places))
    for name, numbers, expected in zip(all_models, in_node(READ, asked), exact, strict=True):
        assert compared(numbers, expected) <= TOLERANCE, name


def test_steps_take_heads_layers_and_places_away_as_a_whole_pass_does() -> None:
    script = """
    return a.map((one) => {
      const model = open(one);
      const how = { off: new Set(one.off), layersOff: new Set(one.layersOff), hidden: new Set([1, 2]) };
      const written = one.tgt.slice(one.src ? 0 : 3), cache = model.start(one.src ?? one.tgt.slice(0, 4), how, 1);
      const whole = one.src ? model.forward(one.src, one.tgt, how) : model.forward(one.tgt, how);
      const steps = written.map((id) => Array.from(model.step([id], cache, how))).flat();
      return { steps, whole: Array.from(whole.subarray(whole.length - steps.length)) };
    });
    """
    asked = [
        opened(model)
        | inputs(model)
        | {"off": ["decoder.self.0.0", "cross.0.0"], "layersOff": ["decoder.1", "encoder.0"]}
        for model in writers(range(12)).values()
    ]
    for one in in_node(OPEN + script, asked):
        assert compared(one["steps"], np.array(one["whole"])) <= TOLERANCE


def test_the_readout_of_the_last_state_is_the_output() -> None:
    script = """
    return a.map((one) => {
      const model = open(one);
      let last = null, logits = null;
      const tell = (place, record) => { if (place.endsWith("feed_forward.sum")) last = record.after; };
      const ids = [one.src, one.tgt].filter(Boolean), whole = model.forward(...ids, { tell });
      return { whole: Array.from(whole), read: Array.from(model.readout(last)) };
    });
    """
    all_models = {
        name: model for name, model in models(range(12)).items()
        if isinstance(model, Transformer | DecoderOnly | SequenceClassifier) and model.config.pad_id is None
    }  # fmt: skip
    assert {type(model) for model in all_models.values()} == {Transformer, DecoderOnly, SequenceClassifier}
    asked = [opened(model) | inputs(model) for model in all_models.values()]
    for one in in_node(OPEN + script, asked):
        assert one["read"] == one["whole"]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 20), (5, 16), (16, 128), (64, 512), (4, 3)])
def test_buckets_of_distances_are_python_s(causal: bool, buckets: int, distance: int) -> None:
    config = ModelConfig(positions="relative", relative_num_buckets=buckets, relative_max_distance=distance)
    offsets = list(range(-2000, 2001))
    exact = RelativePositions(config, causal).buckets(torch.tensor(offsets))
    script = """
    const { makeDistances } = await viewer("model/relative.js"), { readConfig } = await viewer("model/defaults.js");
    const table = { shape: [a.config.relative_num_buckets, 8],
        data: new Float32Array(8 * a.config.relative_num_buckets) };
    const { Weights } = await viewer("model/weights.js");
    const weights = new Weights(new Map([["relative.bias.weight", table]]));
    const made = makeDistances(readConfig(a.config), weights, a.causal);
    return a.offsets.map((offset) => made.bucket(offset));
    """
    assert in_node(script, {"config": to_table(config), "causal": causal, "offsets": offsets}) == exact.tolist()


def test_the_error_function_is_exact() -> None:
    numbers = np.concatenate([np.linspace(-7, 7, 2001), [0.0, 1e-9, 2.4999999, 2.5, 5.9999, 6.0, 40.0]])
    found = in_node('const { erf } = await viewer("model/feed_forward.js"); return a.map(erf);', numbers.tolist())
    exact = torch.erf(torch.from_numpy(numbers))
    assert np.abs(np.array(found) - exact.numpy()).max() <= 1e-14
