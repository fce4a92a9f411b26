"""The compiled engine against the modules: the same ids, and scores that depend on no neighbour and no thread."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.batched_search import NEAR_TIE
from pellucid.decoding.beam import beam_search, greedy_search
from pellucid.decoding.constraints import Constraints
from pellucid.decoding.diverse_beam import DiverseSearch
from pellucid.decoding.fast_step import make_step
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.next_tokens import NextTokens
from pellucid.decoding.steps import NonFiniteLogitsError, SearchState
from pellucid.engines.compiled.compiling import Functions
from pellucid.engines.compiled.engine import CompiledCache, CompiledEngine, CompiledModel
from pellucid.engines.engine import PyTorchEngine
from pellucid.errors import DataError, DecodingError
from pellucid.model.observers import observe_attention
from pellucid.model.transformer import Transformer
from tests.rounding import NETWORK
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, padded, tiny_model, words
from tests.unit.decoding.models import all_targets, random_decoder, random_model, random_sources
from tests.unit.tracing.models import decoder

pytestmark = pytest.mark.foreign

OPTIONS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "positions": "learned", "embedding_norm": True, "gated_feed_forward": True, "activation": "silu"},
    {"norm": "pre", "norm_type": "rms", "bias": False, "final_norm": False, "pad_id": None},
    {"activation": "gelu", "qkv_bias": False, "head_dim": 5, "output_bias": True, "num_decoder_layers": 3},
    {"norm": "pre", "qk_norm": True, "activation": "gelu_tanh", "d_model": 72, "d_ff": 130},
    {"norm": "pre", "qk_norm": True, "cross_query_norm": False, "norm_type": "rms"},
    {"positions": "rotary"},
    {"positions": "relative", "norm": "pre", "relative_num_buckets": 8, "relative_max_distance": 16},
    {"num_kv_heads": 1, "tie_embeddings": "none", "scale_embeddings": False},
]


def compiled(model: Any, functions: Functions) -> CompiledModel:
    found = CompiledEngine(model, functions).compile()
    assert found is not None
    return found


@torch.no_grad()
def stepped(model: Any, ids: torch.Tensor, width: int) -> torch.Tensor:
    """The logits of some steps, in which hypotheses are chosen and sentences go."""
    draw = torch.Generator().manual_seed(1)
    cache = model.start(ids, width)
    step = make_step(model, cache)
    found, left = [], len(ids)
    for number in range(40):  # more than the cache has room for at first
        tokens = torch.randint(3, TGT_VOCAB_SIZE, (left, width), generator=draw)
        found.append(step(tokens).double().flatten())
        cache.reorder(torch.randint(0, width, (left, width), generator=draw))
        if number in (6, 12):
            left -= 1
            cache.select(torch.arange(1, left + 1))
    return torch.cat(found)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("fields", OPTIONS, ids=str)
def test_steps_give_what_the_modules_give(functions: Functions, fields: dict[str, Any], width: int) -> None:
    of_decoder = {name: value for name, value in fields.items() if name not in ("pad_id", "num_decoder_layers")}
    lengths = [5] * 4 if "pad_id" in fields else [6, 2, 4, 5]
    for model, ids in (
        (tiny_model(**fields), padded(words(SRC_VOCAB_SIZE, 4, max(lengths)), lengths)),
        (decoder(num_heads=3, max_positions=64, **of_decoder), words(TGT_VOCAB_SIZE, 4, 7)),
        (decoder(num_heads=3, max_positions=64, **of_decoder), words(TGT_VOCAB_SIZE, 4, 1)),
    ):
        with torch.inference_mode():
            fast = compiled(model, functions)
            assert isinstance(fast.start(ids, width), CompiledCache)
            found = stepped(fast, ids, width)
            expected = stepped(model.double(), ids, width)
        torch.testing.assert_close(found, expected, rtol=NETWORK, atol=NETWORK)


def same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in one] for one in found] == [[h.ids for h in one] for one in expected]
    flat = [h for one in expected for h in one]
    assert [h.score for one in found for h in one] == pytest.approx([h.score for h in flat], rel=NETWORK, abs=NETWORK)
    assert [(h.prefix_length, h.ended) for one in found for h in one] == [(h.prefix_length, h.ended) for h in flat]


def random_settings(seed: int) -> tuple[Transformer, list[list[int]], DecodeConfig]:
    """A model, its sources and the settings of a search."""
    draw = np.random.default_rng(seed)
    vocab_size = int(draw.choice([12, 70, 130]))
    model = random_model(
        seed, vocab_size, sharpness=3.0, norm=str(draw.choice(["pre", "post"])),
        positions=str(draw.choice(["sinusoidal", "learned", "rotary", "relative"])), max_positions=80,
    )  # fmt: skip
    beam_size = int(draw.choice([1, 1, 2, 4, 5]))
    config = DecodeConfig(
        beam_size=beam_size, n_best=int(draw.integers(1, beam_size + 1)), batch_tokens=int(draw.choice([1, 40, 4096])),
        length_penalty=float(draw.choice([0.0, 1.0, 1.7, -0.5])), max_length=[None, 8, 1, 100][int(draw.integers(4))],
        target_prefix=((), (5, 6))[int(draw.integers(2))], suppress_tokens=((), (4, 7))[int(draw.integers(2))],
    )  # fmt: skip
    return model, random_sources(seed, 9, vocab_size), config


def find_margins(model: Transformer, sources: list[list[int]], config: DecodeConfig) -> list[float]:
    """The margin of the search of each source by itself: below NEAR_TIE the last digits decide."""
    search = greedy_search if config.beam_size == 1 else beam_search
    with torch.inference_mode():
        states = [SearchState(model, torch.tensor([[*source, model.config.eos_id]]), config) for source in sources]
        return [search(state, config)[0].margin for state in states]


@pytest.mark.parametrize("seed", range(40))
def test_searches_find_what_the_modules_find(functions: Functions, seed: int) -> None:
    model, sources, config = random_settings(seed)
    engine = CompiledEngine(model, functions)
    found = engine.search_all(sources, config, None, None)
    assert [engine.search_all([source], config, None, None)[0] for source in sources] == found, "bit by bit"
    expected = PyTorchEngine(model).search_all(sources, config, None, None)
    is_clear = [margin >= NEAR_TIE for margin in find_margins(model, sources, config)]
    assert any(is_clear)
    same(*([one for one, clear in zip(each, is_clear, strict=True) if clear] for each in (found, expected)))


@pytest.mark.parametrize("seed", range(20))
def test_forced_decoding_gives_what_the_modules_give(functions: Functions, seed: int) -> None:
    model, sources, config = random_settings(seed)
    targets = random_sources(seed + 1, len(sources), model.config.tgt_vocab_size, longest=40)
    engine, modules = CompiledEngine(model, functions), PyTorchEngine(model)
    found = engine.log_probs(sources, targets, config)
    assert [len(values) for values in found] == [len(target) + 1 for target in targets]
    one_by_one = [engine.log_probs([src], [tgt], config)[0] for src, tgt in zip(sources, targets, strict=True)]
    assert one_by_one == found, "bit by bit"
    for values, expected in zip(found, modules.log_probs(sources, targets, config), strict=True):
        assert values == pytest.approx(expected, rel=NETWORK, abs=NETWORK)
    best = [one[0] for one in engine.search_all(sources, config, None, None)]
    scores = engine.scores(sources, [one.ids for one in best], config)
    ended = [i for i, one in enumerate(best) if one.ended]
    assert [scores[i] for i in ended] == pytest.approx([best[i].score for i in ended], rel=NETWORK, abs=NETWORK)
    assert engine.log_probs([], [], config) == []


@pytest.mark.parametrize("fields", OPTIONS, ids=str)
def test_cross_attention_weights_are_those_of_the_modules(functions: Functions, fields: dict[str, Any]) -> None:
    model = tiny_model(**fields)
    draw = np.random.default_rng(0)
    lengths = [(6, 6)] * 3 if "pad_id" in fields else [(5, 3), (1, 1), (9, 33), (4, 12)] * 6
    pairs = [
        (draw.integers(3, SRC_VOCAB_SIZE, source).tolist(), draw.integers(3, TGT_VOCAB_SIZE, target).tolist())
        for source, target in lengths
    ]
    engine = CompiledEngine(model, functions)
    heads = [
        (layer, head) for layer in range(model.config.num_decoder_layers) for head in range(model.config.num_heads)
    ]
    for head in (*heads, None):
        found, expected = engine.cross_weights(pairs, head), PyTorchEngine(model).cross_weights(pairs, head)
        assert found is not None
        assert expected is not None
        for one, other, (source, target) in zip(found, expected, pairs, strict=True):
            assert one.shape == (len(target), len(source))
            np.testing.assert_allclose(one, other, rtol=NETWORK, atol=NETWORK)
    assert engine.cross_weights([], (0, 0)) == []


@pytest.mark.parametrize("beam_size", [1, 4])
def test_scores_are_those_of_one_thread(functions: Functions, beam_size: int) -> None:
    engine = CompiledEngine(random_model(3, 70, sharpness=3.0), functions)
    sources, targets = random_sources(5, 120, 70), random_sources(6, 120, 70)
    configs = [DecodeConfig(beam_size=beam_size, max_length=9, min_length=least) for least in (0, 2)]
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            searched = [engine.search_all(sources, config, None, None) for config in configs]
            found.append([*searched, engine.log_probs(sources, targets, configs[0])])
    finally:
        torch.set_num_threads(threads)
    assert found[0] == found[1]


def test_a_wide_beam_finds_the_optimum(functions: Functions) -> None:
    model, config = random_model(2, 6), DecodeConfig(beam_size=40, n_best=3, max_length=3)
    ((first, *_),) = CompiledEngine(model, functions).search_all([[3, 4]], config, None, None)
    targets = all_targets(6, 3)
    scores = PyTorchEngine(model).scores([[3, 4]] * len(targets), targets, config)
    ranks = [score / (len(target) + 1) for score, target in zip(scores, targets, strict=True)]
    assert first.ids == targets[ranks.index(max(ranks))]
    assert first.rank(1.0) == pytest.approx(max(ranks), abs=NETWORK)


def test_equal_tokens_are_decided_for_the_lower_id(functions: Functions) -> None:
    model = random_model(4, 70, sharpness=3.0)
    with torch.no_grad():
        projection = model.output_projection
        for weight in (projection.weight, projection.bias, model.tgt_embedding.tokens.weight):
            assert weight is not None
            weight[40:] = weight[10:40].clone()
    engine, sources = CompiledEngine(model, functions), random_sources(1, 6, 70)
    for beam_size in (1, 5):
        found = engine.search_all(sources, DecodeConfig(beam_size=beam_size, max_length=6), None, None)
        ids = [i for ((best, *_),) in zip(found, strict=True) for i in best.ids]
        assert ids
        assert max(ids) < 40


SEARCHES: list[tuple[dict[str, Any], Any, Constraints | None]] = [
    ({"beam_size": 4, "min_length": 3, "no_repeat_ngram_size": 2}, None, None),
    ({"beam_size": 3, "end_ids": (5,)}, None, None),
    ({"beam_size": 1, "banned": ((4, 5), (6, 7, 8))}, None, None),
    ({"beam_size": 5}, None, Constraints(prefixes=((5, 6), (), (7,), (), (), ()))),
    ({"beam_size": 6, "n_best": 2}, DiverseSearch(2, 1.0), None),
    ({"beam_size": 1}, NextTokens(3, [0] * 6), None),
]


@pytest.mark.parametrize("case", range(len(SEARCHES)))
def test_other_searches_go_over_compiled_steps(
    functions: Functions, case: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields, by, constraints = SEARCHES[case]
    model, config = random_model(case, sharpness=3.0), DecodeConfig(max_length=8, **fields)
    sources = random_sources(3, 6)
    expected = PyTorchEngine(model).search_all(sources, config, by, constraints)
    monkeypatch.setattr(type(model.encoder), "forward", None)  # the modules are not called
    same(CompiledEngine(model, functions).search_all(sources, config, by, constraints), expected)


def test_sampling_and_prompts_go_over_compiled_steps(functions: Functions) -> None:
    model, config, sampling = random_model(1, sharpness=2.0), DecodeConfig(max_length=8), SamplingConfig(seed=3)
    sources = random_sources(3, 6)
    found = CompiledEngine(model, functions).sample(sources, sampling, config, list(range(6)))
    same([found], [PyTorchEngine(model).sample(sources, sampling, config, list(range(6)))])
    writer, prompts = random_decoder(3, max_positions=12), [[3, 4, 5], [6], [7, 8, 9]]
    for beam_size in (1, 3):
        config = DecodeConfig(beam_size=beam_size, max_length=30)  # beyond the positions
        found_texts = CompiledEngine(writer, functions).search_all(prompts, config, None, None)
        same(found_texts, PyTorchEngine(writer).search_all(prompts, config, None, None))


def test_changed_weights_are_read_again(functions: Functions) -> None:
    model, config, sources = random_model(0, sharpness=3.0), DecodeConfig(max_length=8), random_sources(3, 6)
    engine = CompiledEngine(model, functions)
    before = engine.search_all(sources, config, None, None)
    with torch.no_grad():
        model.decoder.layers[0].feed_forward.up_proj.weight.neg_()  # type: ignore[operator,union-attr]
    after = engine.search_all(sources, config, None, None)
    assert after != before
    same(after, PyTorchEngine(model).search_all(sources, config, None, None))
    model.encoder.layers[0].feed_forward.up_proj.weight.data.neg_()  # PyTorch does not count it
    assert engine.search_all(sources, config, None, None) != after
    same(engine.search_all(sources, config, None, None), PyTorchEngine(model).search_all(sources, config, None, None))


def in_training(model: Transformer) -> Iterator[None]:
    model.train()
    yield


def with_a_hook(model: Transformer) -> Iterator[None]:
    handle = model.decoder.layers[0].register_forward_hook(lambda *_: None)
    yield
    handle.remove()


def observed(model: Transformer) -> Iterator[None]:
    seen: list[Any] = []
    with observe_attention(lambda *tensors: seen.append(tensors), model):
        yield
    assert seen


def in_double(model: Transformer) -> Iterator[None]:
    model.double()
    yield


@pytest.mark.parametrize("change", [in_training, with_a_hook, observed, in_double])
def test_whatever_is_unknown_goes_through_the_modules(
    functions: Functions, change: Callable[[Transformer], Iterator[None]]
) -> None:
    model, config, sources = (
        random_model(0, sharpness=3.0, dropout=0.0),
        DecodeConfig(max_length=8),
        random_sources(3, 6),
    )
    engine, modules = CompiledEngine(model, functions), PyTorchEngine(model)
    expected = modules.search_all(sources, config, None, None)
    values = modules.scores(sources, sources, config)
    for _ in change(model):
        assert engine.compile() is None
        same(engine.search_all(sources, config, None, None), expected)
        assert engine.scores(sources, sources, config) == pytest.approx(values, rel=NETWORK)


def test_a_search_of_the_caller_sees_the_modules(functions: Functions) -> None:
    model, seen = random_model(0), list[Any]()

    def search(steps: Any, config: DecodeConfig) -> Any:
        with observe_attention(lambda *tensors: seen.append(tensors), model):
            return beam_search(steps, config)

    CompiledEngine(model, functions).search_all([[3, 4]], DecodeConfig(max_length=3), search, None)
    assert seen


@pytest.mark.parametrize("fields", [{}, {"min_length": 2}])
def test_sources_that_the_functions_do_not_read(functions: Functions, fields: dict[str, Any]) -> None:
    model = random_model(0, sharpness=3.0, max_positions=20)
    engine, config = CompiledEngine(model, functions), DecodeConfig(max_length=8, **fields)
    sources = [[3, 0, 4], [0], [5, 6]]  # padding within a source, which nothing attends to
    same(engine.search_all(sources, config, None, None), PyTorchEngine(model).search_all(sources, config, None, None))
    modules, odd = PyTorchEngine(model), [[3, 4], [5, 0, 6], [7]]  # padding in a target, too
    for pair in ((sources, odd), (odd, sources)):
        for one, other in zip(engine.log_probs(*pair, config), modules.log_probs(*pair, config), strict=True):
            assert one == pytest.approx(other, rel=NETWORK, abs=NETWORK)
    for search in (lambda ids: engine.search_all(ids, config, None, None), lambda ids: engine.scores(ids, ids, config)):
        with pytest.raises(DataError, match=r"holds 12; the model's ids are 0\.\.11"):
            search([[3, 12]])
    with pytest.raises(DataError, match="longer than the model's `max_positions`"):
        engine.search_all([[3] * 20], config, None, None)
    with pytest.raises(DecodingError, match="`suppress_tokens` holds the id 12"):
        engine.search_all([[3]], DecodeConfig(suppress_tokens=(12,)), None, None)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("name", ["output_projection.bias", "decoder.layers.0.feed_forward.up_proj.weight"])
def test_a_model_that_gives_nan_is_refused(functions: Functions, beam_size: int, name: str) -> None:
    model = random_model(0)
    with torch.no_grad():
        model.get_parameter(name)[7] = torch.nan
    with pytest.raises(NonFiniteLogitsError, match="not a number"):
        CompiledEngine(model, functions).search_all([[3, 4]], DecodeConfig(beam_size=beam_size), None, None)
    with pytest.raises(NonFiniteLogitsError, match="not a number"):
        CompiledEngine(model, functions).log_probs([[3, 4]], [[5]], DecodeConfig())
