"""Traces of models and of their tasks: what goes through a model, and the tokens that rows and columns stand for."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.data.classified import classifier_input
from pellucid.decoding.beam import Search, greedy_search
from pellucid.decoding.engine import search
from pellucid.decoding.ids import whole_source
from pellucid.decoding.steps import Steps
from pellucid.errors import DataError
from pellucid.model.families import DecoderOnly, EncoderOnly, Model
from pellucid.model.transformer import Transformer
from pellucid.tasks.search_recorder import SearchRecorder
from pellucid.text.tokenizer import CompleteTokenizer, Tokenizer
from pellucid.text.tokenizers import GivenTokenizers, Tokenizers
from pellucid.tracing.apart import in_evaluation
from pellucid.tracing.passes import Pass, describe, ids_tensor, provenance, record_pass
from pellucid.tracing.predictions import Prediction
from pellucid.tracing.recorder import watched
from pellucid.tracing.tokens import Token, tokens_alone, tokens_of, tokens_of_ids
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
    """Records all attentions of a model's pass over one sequence, or over a source and a target, and what it said.

        trace = pellucid.trace(model, [5, 8, 2], [1, 7])
        trace["cross"].weights(layer=0, head=1)                             # (2, 3)

    Args:
        model: a Transformer, EncoderOnly, SequenceClassifier or DecoderOnly, imported ones included. It is traced in
            evaluation mode.
        src_ids: what the model reads, end token included where it wants one. Padding behind it is cut off.
        tgt_ids: what a Transformer's decoder reads, beginning with the start token; None: its own greedy output.
        segments: of each of `src_ids` its segment, for an encoder that has them.
        tokenizer: labels the tokens; without one their ids do.
        residual: keeps the residual stream behind each embedding and each sublayer, too.

    A target's row t is the place that wrote the next token, so its sequence "out" is the target moved on by one; what
    stands last there is the token that the model finds most probable.

    Raises DataError for a model of another kind, several sequences, none, ids outside of the vocabulary, padding
    between the ids, a sequence beyond `max_positions`, or a target or segments where the model has none.
    """
    _check_model(model)
    config = model.config
    src = _listed(src_ids, "src_ids", config.pad_id)
    if config.family != "decoder":
        _check_padding(src, config.pad_id)
    kinds = None if segments is None else _listed(segments, "segments", None)[: len(src)]
    if tgt_ids is not None and not isinstance(model, Transformer):
        raise DataError("`tgt_ids` is given, but the model has one stack alone", "give what it reads as `src_ids`")
    if kinds is not None and not (isinstance(model, EncoderOnly) and config.num_segments):
        raise DataError("`segments` are given, but the model has no segment embeddings (`num_segments` is 0)")
    if kinds is not None and len(kinds) != len(src):
        raise DataError(f"`segments` has {len(kinds)} numbers for {len(src)} ids")
    if isinstance(model, DecoderOnly):
        return trace_pass(model, tgt=src, tokenizers=Tokenizers.of(tokenizer), residual=residual)
    tgt = None if tgt_ids is None else _listed(tgt_ids, "tgt_ids", config.pad_id)
    if tgt is None and isinstance(model, Transformer):
        tgt = _greedy_output(model, src)
    both = Tokenizers.of(tokenizer)
    return trace_pass(model, src, tgt or (), segments=kinds, tokenizers=both, residual=residual)


def trace_pass(
    model: Model,
    src: Sequence[int] = (),
    tgt: Sequence[int] = (),
    out: Sequence[int] | None = None,
    segments: Sequence[int] | None = None,
    tokenizers: Tokenizers | None = None,
    labels: Sequence[str] = (),
    residual: bool = False,
) -> Trace:
    """Records one pass.

    `out` is what the decoder was to write, None: the target moved on by one. `labels` name a classifier's classes,
    which are numbers otherwise.
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


def _predictions(found: Pass, config: ModelConfig, tokenizers: Tokenizers | None) -> tuple[Prediction, ...]:
    """Names what a model found probable, each token by itself: nothing stands beside it."""
    ids = {i for _, best, _ in found.guesses for i in best}
    tokens = tokens_alone(tokenizers.target if tokenizers else None, ids, config.special_ids)
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
    """Records an encoder's pass over a text, or over a pair of texts for a model that tells segments apart.

    Raises DataError for a pair where it does not, and for what exceeds its positions.
    """
    config = model.config
    if second is not None and config.num_segments < 2:
        raise DataError(
            "a pair of texts is given, but the model tells no segments apart (`num_segments` is "
            f"{config.num_segments})",
            "give one text",
        )
    first = tokenizer.encode(text)
    behind = None if second is None else tokenizer.encode(second)
    length = len(first) + 2 + (0 if behind is None else len(behind) + 1)
    if length > config.max_positions:
        raise DataError(
            f"the text has {length:,} tokens, special ones included, the model {config.max_positions:,} positions",
            "cut the text",
        )
    ids = classifier_input(first, config, behind)
    segments = segments_of(ids, config)
    pair = Tokenizers(tokenizer, tokenizer)
    kinds = segments if config.num_segments > 1 else None
    return trace_pass(model, ids, segments=kinds, tokenizers=pair, labels=labels, residual=residual)


def segments_of(ids: Sequence[int], config: ModelConfig) -> list[int]:
    """Returns the segment of each id of a text or pair: 0 as far as the first end token, 1 behind it."""
    first = list(ids).index(config.eos_id) + 1
    return [int(place >= first) for place in range(len(ids))]


def trace_translation(
    model: Transformer,
    tokenizers: Tokenizers,
    decode: DecodeConfig,
    source: Sequence[int],
    target: Sequence[int],
    residual: bool = False,
) -> Trace:
    """Records a pass over a source and a given target (ids without start and end tokens)."""
    src = whole_source(source, model.config, decode)
    written = [*decode.target_prefix, *target, model.config.eos_id]
    read = [model.config.bos_id, *written[:-1]]
    return trace_pass(model, src, read, written, tokenizers=tokenizers, residual=residual)


def trace_search(
    model: Transformer,
    tokenizers: Tokenizers | None,
    decode: DecodeConfig,
    source: Sequence[int],
    by: Search | None = None,
    residual: bool = False,
) -> Trace:
    """Records a search, and a pass over what it found best; `source` without its end token.

    Of a search of one's own, `by`, the pass alone, unless it tells all that it weighs as Pellucid's searches do.
    """
    recorder = SearchRecorder(model, decode)
    with watched(model, recorder.observe) as copied:
        best = search(copied, [source], decode, by, watch=recorder.watch)[0][0]
    src = whole_source(source, model.config, decode)
    written = [*decode.target_prefix, *best.ids, model.config.eos_id]
    out = written if best.ended else None  # a search of one's own may cut a text off
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
    """Returns what the decoder reads as it writes its own output. `src` has its end token, wherever that stands."""
    decode = DecodeConfig()
    (found,) = greedy_search(Steps(in_evaluation(model), ids_tensor(model, src, "src"), decode), decode)
    return [model.config.bos_id, *found.hypotheses[0].ids]


def _tokens(
    config: ModelConfig, tokenizer: CompleteTokenizer | None, ids: Sequence[int], segments: Sequence[int] = ()
) -> tuple[Token, ...]:
    if tokenizer is None:
        return tokens_of_ids(ids, config.special_ids, segments)
    return tokens_of(tokenizer, ids, config.special_ids, segments)


def _listed(ids: Ids, name: str, pad_id: int | None) -> list[int]:
    """Returns the ids of one sequence without the padding behind them."""
    array = torch.as_tensor(ids)
    if not array.numel():
        return []
    if array.dim() == 2 and array.size(0) == 1:
        array = array[0]
    if array.dim() != 1 or array.is_floating_point():
        raise DataError(
            f"`{name}` has shape {tuple(array.shape)} and dtype {array.dtype}: one sequence of ids is traced at a time",
            f"give a list of ids, or a tensor (L,) or (1, L): `{name}[i]`",
        )
    found: list[int] = array.tolist()
    while pad_id is not None and len(found) > 1 and found[-1] == pad_id:
        found.pop()
    return found


def _check_model(model: Any) -> None:
    """Raises DataError for what is not a model of Pellucid's, with the call that is meant."""
    if isinstance(model, Transformer | EncoderOnly | DecoderOnly):
        return
    hint = "pellucid.trace_from_weights takes the attention weights of any model"
    if isinstance(getattr(model, "_orig_mod", None), Transformer | EncoderOnly | DecoderOnly):
        hint = "it is compiled: give model._orig_mod"
    elif callable(getattr(model, "trace", None)):
        hint = "it traces texts itself: its method `trace`"
    elif hasattr(model, "set_attn_implementation"):
        hint = "it is of transformers: pellucid.trace_hugging_face(model, tokenizer, text)"
    raise DataError(
        f"a {type(model).__name__} cannot be traced by its ids; a Transformer, EncoderOnly, SequenceClassifier or "
        "DecoderOnly can",
        hint,
    )


def _check_padding(ids: Sequence[int], pad_id: int | None) -> None:
    if pad_id is not None and pad_id in ids:
        raise DataError(
            f"`src_ids` holds the pad id ({pad_id}) at place {list(ids).index(pad_id)}, before other ids",
            "cut the padding off: only what stands behind a text is recognised as such",
        )
