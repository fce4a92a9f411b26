"""Traces of models and tasks: what they hold, and that tracing changes nothing."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import pellucid
from pellucid.config import DecodeConfig
from pellucid.decoding.batched_search import search
from pellucid.errors import DataError
from pellucid.model import observers as observing_module
from pellucid.model.attention import attention_weights
from pellucid.model.masks import causal_mask
from pellucid.model.observers import observe_attention
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.tracing import trace, trace_search
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.tracing.trace import Trace
from tests.rounding import NETWORK, of_weights
from tests.unit.decoding.models import EOS, random_model, random_sources
from tests.unit.tracing.models import classifier, decoder, each_parameter, encoder, source, transformer


def ids_of(found: Trace, sequence: str) -> list[int | None]:
    """The ids of a sequence."""
    return [token.id for token in found.sequences[sequence]]


def test_the_public_names() -> None:
    assert pellucid.trace is trace


@pytest.mark.parametrize("form", [list, np.array, torch.tensor, lambda ids: torch.tensor([ids])])
def test_ids_in_any_form(form: Any) -> None:
    found = trace(transformer(), form([5, 6, 2]), form([1, 7]))
    assert ids_of(found, "src") == [5, 6, 2]
    assert ids_of(found, "tgt") == [1, 7]
    assert ids_of(found, "out")[:-1] == [7]
    assert found.sequences["src"][2].special
    assert found.sequences["src"][0].text == "5"


def test_what_is_written_last_is_the_most_probable() -> None:
    model, src, tgt = transformer(), source(), source(3)
    assert ids_of(trace(model, src, tgt), "out")[-1] == int(model(src, tgt)[0, -1].argmax())


def test_padding_is_cut() -> None:
    model = transformer()
    found = trace(model, [5, 6, 2, 0, 0], [1, 7, 0])
    exact = trace(model, [5, 6, 2], [1, 7])
    assert (ids_of(found, "src"), ids_of(found, "tgt")) == ([5, 6, 2], [1, 7])
    np.testing.assert_array_equal(found["cross"].weights(1, 0), exact["cross"].weights(1, 0))


def test_a_decoder_alone() -> None:
    model, text = decoder(), source(4)
    found = trace(model, text)
    assert list(found) == ["decoder.self"]
    assert found.model["family"] == "decoder"
    assert ids_of(found, "tgt") == text[0].tolist()
    assert ids_of(found, "out") == [*text[0, 1:].tolist(), int(model(text)[0, -1].argmax())]


def test_segments() -> None:
    model = classifier()
    found = trace(model, [1, 5, 2, 6, 2], segments=[0, 0, 0, 1, 1])
    assert [token.segment for token in found.sequences["src"]] == [0, 0, 0, 1, 1]
    without = trace(model, [1, 5, 2, 6, 2])
    assert not np.allclose(found["encoder.self"].weights(0, 0), without["encoder.self"].weights(0, 0))


def test_a_tokenizer_labels() -> None:
    tokenizer = Vocabulary("characters", tuple("abcdefghijklmno"))
    found = trace(transformer(), [4, 5, 2], [1, 6], tokenizer=tokenizer)
    assert [token.text for token in found.sequences["src"]] == ["a", "b", "</s>"]
    assert [token.text for token in found.sequences["tgt"]] == ["<s>", "c"]
    both = trace(encoder(), [4, 5], tokenizer=TokenizerPair(tokenizer, tokenizer))
    assert [token.text for token in both.sequences["src"]] == ["a", "b"]


def test_without_a_target_the_model_writes_one() -> None:
    model = random_model(1)
    found = trace(model, [5, 6, 7, EOS])
    best = search(model, [[5, 6, 7]], DecodeConfig(beam_size=1))[0][0].ids
    assert ids_of(found, "tgt") == [1, *best]
    assert ids_of(found, "out") == [*best, EOS]


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        (transformer, {"src_ids": [[5, 6], [7, 8]]}, r"`src_ids` has shape \(2, 2\) and dtype torch.int64"),
        (transformer, {"src_ids": [0.5]}, "dtype torch.float32: a trace is of one sequence of ids"),
        (transformer, {"src_ids": []}, "the source has no ids"),
        (transformer, {"src_ids": [5], "tgt_ids": []}, "the target has no ids"),
        (transformer, {"src_ids": [5, 99]}, r"the source has the id 99 at position 1; the model's ids are 0\.\.22"),
        (transformer, {"src_ids": [5], "tgt_ids": [1, -3]}, r"the target has the id -3 at position 1; .* 0\.\.18"),
        (transformer, {"src_ids": [0, 5]}, r"`src_ids` holds the pad id \(0\) at position 0, before other ids"),
        (transformer, {"src_ids": [5] * 65, "tgt_ids": [1]}, r"the source has 65 tokens, .* \(64\)"),
        (encoder, {"src_ids": [5] * 65}, r"the text has 65 tokens, but the model has `max_positions` \(64\)"),
        (encoder, {"src_ids": [5], "tgt_ids": [1]}, "`tgt_ids` is given, but the model has only one stack"),
        (encoder, {"src_ids": [5], "segments": [0]}, r"no segment embeddings \(`num_segments` is 0\)"),
        (decoder, {"src_ids": [5], "segments": [0]}, "no segment embeddings"),
        (classifier, {"src_ids": [5, 6], "segments": [0]}, "`segments` has 1 numbers for 2 ids"),
        (decoder, {"src_ids": []}, "the text has no ids"),
    ],
    ids=[
        "batch", "floats", "no-source", "no-target", "source-id", "target-id", "left-padding", "long-source",
        "long-text", "target-of-encoder", "segments-of-encoder", "segments-of-decoder", "few-segments", "no-text",
    ],
)  # fmt: skip
def test_what_cannot_be_traced_is_an_error(model: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        trace(model(), **given)


class Theirs(torch.nn.Linear):
    """A model of transformers, as far as it can be told by."""

    def set_attn_implementation(self, name: str) -> None:
        """As theirs have it."""


@pytest.mark.parametrize(
    ("model", "kind", "hint"),
    [
        (
            lambda: torch.nn.Linear(2, 2),
            "Linear",
            "pellucid.trace_from_weights accepts the attention weights of any model",
        ),
        (lambda: Theirs(2, 2), "Theirs", "for transformers call pellucid.trace_hugging_face(model, tokenizer, text)"),
        (lambda: torch.compile(encoder(), backend="eager"), "OptimizedModule", "it is compiled: pass model._orig_mod"),
        (
            lambda: Classifier(classifier(), TokenizerPair(LETTERS, LETTERS)),
            "Classifier",
            "call its method `trace`",
        ),
    ],
    ids=["module", "transformers", "compiled", "task"],
)
def test_what_is_no_model_of_ours(model: Any, kind: str, hint: str) -> None:
    with pytest.raises(
        DataError, match=f"^a {kind} cannot be traced by its ids; a Transformer, EncoderOnly,"
    ) as caught:
        trace(model(), [5])
    assert caught.value.hint == hint


@pytest.mark.parametrize("make", [transformer, classifier, decoder], ids=["transformer", "classifier", "decoder"])
def test_outputs_with_and_without_a_trace_are_identical(make: Any) -> None:
    model, src, tgt = make(), source(9), source(7)
    inputs = (src, tgt) if make is transformer else (src,)
    seen: list[Tensor] = []

    def outputs() -> list[Tensor]:
        """Of the whole model, and of each of its modules."""
        seen.clear()
        hooks = [
            m.register_forward_hook(lambda m, i, o: seen.append(o)) for m in model.modules() if not list(m.children())
        ]
        try:
            with torch.inference_mode():
                return [model(*inputs), *(output for output in seen if isinstance(output, Tensor))]
        finally:
            for hook in hooks:
                hook.remove()

    before, parameters = outputs(), each_parameter(model)
    trace(model, *inputs)
    after = outputs()
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(parameters, each_parameter(model), strict=True))


def test_what_is_computed_while_a_trace_is_on_is_what_is_computed_without() -> None:
    model, src, tgt = transformer(), source(9), source(7)
    seen: list[Tensor] = []
    hook = model.decoder.register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.inference_mode():
        model(src, tgt)
    trace(model, src, tgt)
    hook.remove()
    assert torch.equal(*seen)


def test_nothing_observes_afterwards_and_modes_are_as_they_were() -> None:
    model = transformer(dropout=0.5).train()
    model.encoder.layers[0].eval()
    found = [trace(model, [5, 6], [1, 7]) for _ in range(2)]
    np.testing.assert_array_equal(found[0]["cross"].weights(0, 0), found[1]["cross"].weights(0, 0))
    assert model.training
    assert not model.encoder.layers[0].self_attn.training
    assert model.encoder.layers[1].self_attn.training
    assert observing_module._observation.get() is None
    with pytest.raises(DataError):
        trace(model, [99])
    assert observing_module._observation.get() is None
    assert model.training


def test_attention_of_ones_own_is_traced_where_it_goes_through_ours() -> None:
    model = encoder()
    for layer in model.encoder.layers:
        layer.self_attn.forward = OwnAttention(layer.self_attn)
    found = trace(model, [5, 6, 2])["encoder.self"]
    np.testing.assert_array_equal(found.mask, np.tril(np.ones((3, 3), dtype=bool)))
    assert found.num_layers == 2


def test_attention_of_ones_own_that_is_several_calls_is_an_error() -> None:
    model = encoder()
    model.encoder.layers[1].self_attn.forward = OwnAttention(model.encoder.layers[1].self_attn, 2)
    message = r"the `encoder.self` attention of layer 1, a MultiHeadAttention, called attention\(\) more than once"
    with pytest.raises(DataError, match=message) as caught:
        trace(model, [5, 6, 2])
    assert "pellucid.attention" in caught.value.hint


class OwnAttention:
    """Attention of an encoder that looks back alone, without projections; it calls attention() so often."""

    def __init__(self, block: Any, calls: int = 1) -> None:
        self.block, self.calls = block, calls

    def __call__(self, x: Tensor, *_: Any, **__: Any) -> Tensor:
        q = self.block.split_heads(x)
        for _ in range(self.calls):
            q = pellucid.attention(q, q, q, causal_mask(x.size(1)))
        return self.block.join_heads(q)


@pytest.mark.slow
def test_a_compiled_model_is_traced_as_it_was_before() -> None:
    model = encoder()
    expected = trace(model, [5, 6, 2])["encoder.self"].weights(1, 0)
    model.compile(backend="eager")
    np.testing.assert_array_equal(trace(model, [5, 6, 2])["encoder.self"].weights(1, 0), expected)


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 2, 4])
@pytest.mark.parametrize("prefix", [(), (5, 6)], ids=["free", "prefix"])
def test_a_search_is_recorded_as_it_ran(beam_size: int, prefix: tuple[int, ...]) -> None:
    for seed, ids in enumerate(random_sources(3, 8)):
        model = random_model(seed)
        decode = DecodeConfig(beam_size=beam_size, target_prefix=prefix, length_penalty=0.7, max_length=12)
        found = trace_search(model, None, decode, ids)
        best = search(model, [ids], decode)[0][0]
        assert ids_of(found, "out") == [*prefix, *best.ids, EOS]
        assert found.search is not None
        nodes = found.search.nodes
        chosen = [node for node in nodes if node.status == "best"]
        assert len(chosen) == 1
        assert chosen[0].score == pytest.approx(best.score, abs=NETWORK)
        assert chosen[0].ranked_by == pytest.approx(best.rank(0.7), abs=NETWORK)
        rows = rows_to(found, nodes.index(chosen[0]))
        assert len(rows) == len(prefix) + len(best.ids) + 1
        for layer in range(found["cross"].num_layers):
            for head in range(found["cross"].num_heads):
                along = found["search.cross"].weights(layer, head)[rows]
                np.testing.assert_allclose(along, found["cross"].weights(layer, head), atol=NETWORK)
        check_tree(found, beam_size, len(prefix))


@pytest.mark.slow
def test_a_search_that_has_fewer_hypotheses_than_its_beam() -> None:
    """Two words make two continuations: the other places of the beam hold none, and give no rows."""
    for seed in range(4):
        model = random_model(seed, vocab_size=5)
        found = trace_search(model, None, DecodeConfig(beam_size=4, max_length=8), [3, 4, 3])
        assert found.search is not None
        live = [node for node in found.search.nodes if node.parent == 0 and node.token.id != EOS]
        assert len(live) == 2
        for place, node in enumerate(found.search.nodes):
            if node.status in ("best", "finished"):
                ids = [found.search.nodes[step].token.id for step in path_to(found, place)]
                exact = trace(model, [3, 4, 3, EOS], ids[:-1])
                along = found["search.cross"].weights(0, 1)[rows_to(found, place)]
                np.testing.assert_allclose(along, exact["cross"].weights(0, 1), atol=NETWORK)


def path_to(found: Trace, place: int | None) -> list[int]:
    """The nodes from the root to a node, itself included."""
    assert found.search is not None
    path = []
    while place is not None:
        path.append(place)
        place = found.search.nodes[place].parent
    return path[::-1]


def rows_to(found: Trace, place: int) -> list[int]:
    """The rows of "search.cross" on the way to a node."""
    assert found.search is not None
    rows = []
    while (parent := found.search.nodes[place].parent) is not None:
        rows.append(found.search.nodes[place].row)
        place = parent
    return rows[::-1]


def check_tree(found: Trace, beam_size: int, forced: int) -> None:
    """Scores add up, what goes on was live, and each step has no more rows and continuations than the beam allows."""
    assert found.search is not None
    nodes = found.search.nodes
    depths = [0]
    for node in nodes[1:]:
        assert node.parent is not None
        parent = nodes[node.parent]
        depths.append(depths[node.parent] + 1)
        assert parent.status == "live"
        assert node.score == pytest.approx(parent.score + node.log_prob, abs=NETWORK)
        if depths[-1] > forced:
            assert node.ranked_by == pytest.approx(node.score / depths[-1] ** 0.7, abs=1e-6)
            assert (node.status in ("finished", "best")) <= (node.token.id == EOS)
        assert found.sequences["search"][node.row].id == parent.token.id
    weighed = [depths.count(depth) for depth in range(1, max(depths) + 1)]
    assert all(count <= 2 * beam_size for count in weighed)
    assert max(weighed) == 2 * beam_size
    assert any(node.status == "pruned" for node in nodes)
    assert found["search.cross"].size[0] == len(found.sequences["search"])
    continued = {node.parent for node in nodes}
    assert all(place in continued for place, node in enumerate(nodes) if node.status == "live")


@pytest.mark.slow
def test_no_rows_are_lost_and_none_are_made_up() -> None:
    """The rows of each step are those that the search computed, in its own order."""
    model, decode = random_model(5), DecodeConfig(beam_size=3)
    calls: list[Tensor] = []
    bounds: list[float] = []

    def observe(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, _: Tensor) -> None:
        calls.append(attention_weights(q, k, mask, bias)[0])
        bounds.append(of_weights(q, k, bias))

    with observe_attention(observe):
        search(model, [[5, 6, 7]], decode)
    steps = calls[1:][1::2]  # the encoder's one call, then each step's own past and the memory
    found = trace_search(model, None, decode, [5, 6, 7])["search.cross"]
    assert steps[0].size(1) == 3
    np.testing.assert_allclose(found.weights(0, 1)[:1], steps[0][1][:1].numpy(), atol=max(bounds))
    np.testing.assert_allclose(found.weights(0, 1)[1:4], steps[1][1].numpy(), atol=max(bounds))
    assert found.size[0] == 1 + sum(step.size(1) for step in steps[1:])


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_translation(translator: Translator, beam_size: int) -> None:
    found = translator.trace("a b c d", beam_size=beam_size)
    best = translator.translate(["a b c d"], beam_size=beam_size)[0]
    assert [token.piece for token in found.sequences["out"]] == [*best.tokens, "</s>"]
    assert [token.piece for token in found.sequences["tgt"]] == ["<s>", *best.tokens]
    assert [token.text for token in found.sequences["src"]] == ["a", "b", "c", "d", "</s>"]
    assert found.search is not None
    assert found.search.beam_size == beam_size
    assert found.faithfulness <= NETWORK


def test_a_given_target(translator: Translator) -> None:
    found = translator.trace("a b c", "c b")
    assert [token.piece for token in found.sequences["out"]] == ["c", "b", "</s>"]
    assert found.search is None
    assert list(found) == ["encoder.self", "decoder.self", "cross"]


def test_a_translation_of_nothing(translator: Translator) -> None:
    with pytest.raises(DataError, match="the source is empty"):
        translator.trace("")


def test_texts_that_are_too_long(translator: Translator) -> None:
    room = translator.model.config.max_positions - 1
    with pytest.raises(DataError, match=f"source 1 has {room + 1:,} tokens; the model's limit is {room:,}"):
        translator.trace("a " * (room + 1))
    with pytest.raises(DataError, match=f"target 1 has {room + 1:,} tokens; the model's limit is {room:,}"):
        translator.trace("a", "a " * (room + 1))


def test_languages_stand_where_the_model_reads_them(translator: Translator) -> None:
    decode = DecodeConfig(source_prefix=(7,), source_suffix=(8,), target_prefix=(9, 10), beam_size=2)
    speaking = Translator(translator.model, translator.tokenizers, decode)
    given, own = speaking.trace("a b", "c"), speaking.trace("a b")
    c = translator.tokenizers.target.encode("c")
    for found in (given, own):
        assert ids_of(found, "src") == [7, *translator.tokenizers.source.encode("a b"), 2, 8]
        assert ids_of(found, "tgt")[:3] == [1, 9, 10]
        assert ids_of(found, "out")[:2] == [9, 10]
    assert ids_of(given, "out") == [9, 10, *c, 2]


LETTERS = Vocabulary("characters", tuple("abcdefghijklmno"))


def test_a_classified_text_and_a_pair() -> None:
    task = Classifier(classifier(), TokenizerPair(LETTERS, LETTERS))
    single, pair = task.trace("ab"), task.trace(("ab", "c"))
    assert [(token.text, token.segment) for token in single.sequences["src"]] == [
        ("<s>", 0), ("a", 0), ("b", 0), ("</s>", 0),
    ]  # fmt: skip
    assert [(token.text, token.segment) for token in pair.sequences["src"]][3:] == [("</s>", 0), ("c", 1), ("</s>", 1)]
    seen: list[Tensor] = []
    with observe_attention(lambda q, k, v, mask, bias, output: seen.append(attention_weights(q, k, mask, bias))):
        task.classify([("ab", "c")])
    np.testing.assert_allclose(pair["encoder.self"].weights(1, 2), seen[1][0, 2].numpy(), atol=NETWORK)


def test_a_classified_text_that_cannot_be_read() -> None:
    task = Classifier(classifier(), TokenizerPair(LETTERS, LETTERS))
    with pytest.raises(DataError, match="the text has 72 tokens, special ones included; the model has 64 positions"):
        task.trace("a" * 70)
    with pytest.raises(DataError, match="the text has 73 tokens"):
        task.trace(("a" * 35, "b" * 35))
    alone = Classifier(encoder(num_classes=2), TokenizerPair(LETTERS, LETTERS))  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"a text pair is given, .* \(`num_segments` is 0\)"):
        alone.trace(("a", "b"))


@pytest.mark.parametrize("lines", [True, False], ids=["lines", "continuous"])
def test_a_text_of_a_language_model(lines: bool) -> None:
    model = decoder()
    task = LanguageModel(model, TokenizerPair(LETTERS, LETTERS), DecodeConfig(source_prefix=(1,) if lines else ()))
    found = task.trace("abc")
    read = [1, 4, 5, 6] if lines else [4, 5, 6]
    assert ids_of(found, "tgt") == read
    last = 2 if lines else int(model(torch.tensor([read]))[0, -1].argmax())
    assert ids_of(found, "out") == [*read[1:], last]
    with pytest.raises(DataError, match=r"the text has \d+ tokens, but the model has `max_positions` \(64\)"):
        task.trace("a" * 65)
