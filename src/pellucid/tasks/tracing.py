"""Traces of models and of their tasks: attentions and predictions, with the tokens of rows and columns."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.data.labels import classifier_input
from pellucid.decoding.batched_search import search
from pellucid.decoding.beam import SearchFunction, greedy_search
from pellucid.decoding.ids import add_special_ids
from pellucid.decoding.steps import SearchState
from pellucid.errors import DataError
from pellucid.model.families import DecoderOnly, EncoderOnly, Model
from pellucid.model.transformer import Transformer
from pellucid.tasks.search_recorder import SearchRecorder
from pellucid.text.tokenizer import Tokenizer, TokenizerBase
from pellucid.text.tokenizers import GivenTokenizers, TokenizerPair
from pellucid.tracing.module_copy import copy_in_eval_mode
from pellucid.tracing.predictions import Prediction
from pellucid.tracing.recorder import observe_model
from pellucid.tracing.recording import RecordedPass, describe, ids_tensor, provenance, record_pass
from pellucid.tracing.tokens import Token, make_single_tokens, make_tokens, tokens_of_ids
from pellucid.tracing.trace import Trace

Ids = Sequence[int] | Tensor
"""The ids of one sequence: a list, or a tensor (L,) or (1, L)."""


def trace(
    model: Model,
    src_ids: Ids,
    tgt_ids: Ids | None = None,
    *,
    segments: Ids | None = None,
    tokenizer: GivenTokenizers | None = None,
    residual: bool = False,
) -> Trace:
    """Records all attentions and predictions of a model's pass over one sequence, or over a source and a target.

        trace = pellucid.trace(model, [5, 8, 2], [1, 7])
        trace["cross"].weights(layer=0, head=1)                             # (2, 3)

    Args:
        model: a Transformer, EncoderOnly, SequenceClassifier or DecoderOnly, imported ones included. It is traced in
            evaluation mode.
        src_ids: the model's input, with its end token if it requires one. Trailing padding is removed.
        tgt_ids: the input of a Transformer's decoder, beginning with the start token; None: its greedy output.
        segments: the segment of each of `src_ids`, for an encoder with segments.
        tokenizer: labels the tokens; None: ids are the labels.
        residual: keeps the residual stream after each embedding and each sublayer, too.

    Row t of a target is the position that predicts the next token, so its sequence "out" is the target shifted by one;
    its last token is the most probable one.

    Raises DataError for a model of another type, several sequences or none, ids outside of the vocabulary, padding
    between the ids, a sequence beyond `max_positions`, and a target or segments that the model does not have.
    """
    _check_model(model)
    config = model.config
    src = _strip_padding(src_ids, "src_ids", config.pad_id)
    if config.family != "decoder":
        _check_padding(src, config.pad_id)
    kinds = None if segments is None else _strip_padding(segments, "segments", None)[: len(src)]
    if tgt_ids is not None and not isinstance(model, Transformer):
        raise DataError("`tgt_ids` is given, but the model has only one stack", "pass the input ids as `src_ids`")
    if kinds is not None and not (isinstance(model, EncoderOnly) and config.num_segments):
        raise DataError("`segments` are given, but the model has no segment embeddings (`num_segments` is 0)")
    if kinds is not None and len(kinds) != len(src):
        raise DataError(f"`segments` has {len(kinds)} numbers for {len(src)} ids")
    if isinstance(model, DecoderOnly):
        return trace_pass(model, tgt=src, tokenizers=TokenizerPair.from_given(tokenizer), residual=residual)
    tgt = None if tgt_ids is None else _strip_padding(tgt_ids, "tgt_ids", config.pad_id)
    if tgt is None and isinstance(model, Transformer):
        tgt = _greedy_output(model, src)
    both = TokenizerPair.from_given(tokenizer)
    return trace_pass(model, src, tgt or (), segments=kinds, tokenizers=both, residual=residual)


def trace_pass(
    model: Model,
    src: Sequence[int] = (),
    tgt: Sequence[int] = (),
    out: Sequence[int] | None = None,
    segments: Sequence[int] | None = None,
    tokenizers: TokenizerPair | None = None,
    labels: Sequence[str] = (),
    residual: bool = False,
) -> Trace:
    """Records one pass.

    `out` is the expected output of the decoder; None: the target shifted by one. `labels` are the names of a
    classifier's classes; without them they are numbers.
    """
    found = record_pass(model, src, tgt, segments, out, residual)
    sequences = {}
    if src:
        sequences["src"] = _tokens(model.config, tokenizers.source if tokenizers else None, src, segments or ())
    label = partial(_tokens, model.config, tokenizers.target if tokenizers else None)
    if tgt:
        sequences |= {"tgt": label(tgt), "out": label(found.out)}
    names = labels or [str(number) for number in range(len(found.classes))]
    return Trace(
        model=describe(model),
        sequences=sequences,
        attentions=found.attentions,
        faithfulness=found.faithfulness,
        predictions=_predictions(found, model.config, tokenizers) if found.guesses else None,
        classes=dict(zip(names, found.classes, strict=True)) if found.classes else None,
        residual=found.residual,
        without_weights=found.without_weights,
        provenance=provenance(model),
    )


def _predictions(found: RecordedPass, config: ModelConfig, tokenizers: TokenizerPair | None) -> tuple[Prediction, ...]:
    """Returns a model's predictions with their tokens as text, each decoded alone, without its neighbours."""
    ids = {i for _, best, _ in found.guesses for i in best}
    tokens = make_single_tokens(tokenizers.target if tokenizers else None, ids, config.special_ids)
    return tuple(
        Prediction(log_prob, tuple((tokens[i], value) for i, value in zip(ids, values, strict=True)))
        for log_prob, ids, values in found.guesses
    )


def trace_text(
    model: EncoderOnly,
    tokenizer: Tokenizer,
    text: str,
    second: str | None = None,
    *,
    labels: Sequence[str] = (),
    residual: bool = False,
) -> Trace:
    """Records an encoder's pass over a text, or over a pair of texts for a model with segments.

    Raises DataError for a pair if the model has no segments, and for texts that exceed its positions.
    """
    config = model.config
    if second is not None and config.num_segments < 2:
        raise DataError(
            f"a text pair is given, but the model has no segments (`num_segments` is {config.num_segments})",
            "pass one text",
        )
    first = tokenizer.encode(text)
    second_ids = None if second is None else tokenizer.encode(second)
    length = len(first) + 2 + (0 if second_ids is None else len(second_ids) + 1)
    if length > config.max_positions:
        raise DataError(
            f"the text has {length:,} tokens, special ones included; the model has {config.max_positions:,} positions",
            "shorten the text",
        )
    ids = classifier_input(first, config, second_ids)
    segments = find_segment_ids(ids, config)
    pair = TokenizerPair(tokenizer, tokenizer)
    kinds = segments if config.num_segments > 1 else None
    return trace_pass(model, ids, segments=kinds, tokenizers=pair, labels=labels, residual=residual)


def find_segment_ids(ids: Sequence[int], config: ModelConfig) -> list[int]:
    """Returns the segment of each id of a text or pair: 0 up to the first end token, 1 after it."""
    first = list(ids).index(config.eos_id) + 1
    return [int(place >= first) for place in range(len(ids))]


def trace_translation(
    model: Transformer,
    tokenizers: TokenizerPair,
    decode: DecodeConfig,
    source: Sequence[int],
    target: Sequence[int],
    residual: bool = False,
) -> Trace:
    """Records a pass over a source and a given target (ids without start and end tokens)."""
    src = add_special_ids(source, model.config, decode)
    written = [*decode.target_prefix, *target, model.config.eos_id]
    read = [model.config.bos_id, *written[:-1]]
    return trace_pass(model, src, read, written, tokenizers=tokenizers, residual=residual)


def trace_search(
    model: Transformer,
    tokenizers: TokenizerPair | None,
    decode: DecodeConfig,
    source: Sequence[int],
    by: SearchFunction | None = None,
    residual: bool = False,
) -> Trace:
    """Records a search, and a pass over its best hypothesis; `source` without its end token.

    For a custom search, `by`, records the pass alone, unless it reports each step as the built-in searches do.
    """
    recorder = SearchRecorder(model, decode)
    with observe_model(model, recorder.observe) as copied:
        best = search(copied, [source], decode, by, watch=recorder.watch)[0][0]
    src = add_special_ids(source, model.config, decode)
    written = [*decode.target_prefix, *best.ids, model.config.eos_id]
    out = written if best.ended else None  # a custom search may truncate a text
    read = [model.config.bos_id, *written[:-1]]
    of_best = trace_pass(model, src, read, out, tokenizers=tokenizers, residual=residual)
    if by is not None and not recorder.saw(best):
        return of_best
    label = partial(_tokens, model.config, tokenizers.target if tokenizers else None)
    tree, rows = recorder.search(best, label)
    if by is not None:
        tree = replace(tree, beam_size=recorder.widest)
    return replace(
        of_best,
        sequences={**of_best.sequences, "search": rows},
        attentions={**of_best.attentions, **recorder.attentions()},
        faithfulness=max(of_best.faithfulness, recorder.faithfulness),
        search=tree,
    )


def _greedy_output(model: Transformer, src: Sequence[int]) -> list[int]:
    """Returns the decoder's input for its greedy output. `src` includes its end token."""
    decode = DecodeConfig()
    (found,) = greedy_search(SearchState(copy_in_eval_mode(model), ids_tensor(model, src, "src"), decode), decode)
    return [model.config.bos_id, *found.hypotheses[0].ids]


def _tokens(
    config: ModelConfig, tokenizer: TokenizerBase | None, ids: Sequence[int], segments: Sequence[int] = ()
) -> tuple[Token, ...]:
    if tokenizer is None:
        return tokens_of_ids(ids, config.special_ids, segments)
    return make_tokens(tokenizer, ids, config.special_ids, segments)


def _strip_padding(ids: Ids, name: str, pad_id: int | None) -> list[int]:
    """Returns the ids of one sequence without trailing padding."""
    array = torch.as_tensor(ids)
    if not array.numel():
        return []
    if array.dim() == 2 and array.size(0) == 1:
        array = array[0]
    if array.dim() != 1 or array.is_floating_point():
        raise DataError(
            f"`{name}` has shape {tuple(array.shape)} and dtype {array.dtype}: a trace is of one sequence of ids",
            f"pass a list of ids, or a tensor (L,) or (1, L): `{name}[i]`",
        )
    found: list[int] = array.tolist()
    while pad_id is not None and len(found) > 1 and found[-1] == pad_id:
        found.pop()
    return found


def _check_model(model: Any) -> None:
    """Raises DataError if the model is not Pellucid's, with the call to use instead."""
    if isinstance(model, Transformer | EncoderOnly | DecoderOnly):
        return
    hint = "pellucid.trace_from_weights accepts the attention weights of any model"
    if isinstance(getattr(model, "_orig_mod", None), Transformer | EncoderOnly | DecoderOnly):
        hint = "it is compiled: pass model._orig_mod"
    elif callable(getattr(model, "trace", None)):
        hint = "call its method `trace`"
    elif hasattr(model, "set_attn_implementation"):
        hint = "for transformers call pellucid.trace_hugging_face(model, tokenizer, text)"
    raise DataError(
        f"a {type(model).__name__} cannot be traced by its ids; a Transformer, EncoderOnly, SequenceClassifier or "
        "DecoderOnly can",
        hint,
    )


def _check_padding(ids: Sequence[int], pad_id: int | None) -> None:
    if pad_id is not None and pad_id in ids:
        raise DataError(
            f"`src_ids` holds the pad id ({pad_id}) at position {list(ids).index(pad_id)}, before other ids",
            "remove the padding: only pad ids after the text are recognized as padding",
        )
