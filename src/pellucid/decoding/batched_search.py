"""Searches many texts: in batches of similar length, with results in the order of the input.

A text's result must not depend on the other texts of its batch, yet the last digits of a matrix product depend on its
number of rows. So a text is searched again, alone, if its margin is so small that these digits could change the result.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.batches import batches_by_length, pad
from pellucid.decoding.beam import SearchFunction, beam_search, greedy_search
from pellucid.decoding.constraints import Constraints
from pellucid.decoding.diverse_beam import DiverseSearch
from pellucid.decoding.dynamic_beam_allocation import DynamicBeamAllocation
from pellucid.decoding.ensemble import Ensemble
from pellucid.decoding.hypothesis import Hypothesis, SearchResult, StepCallback
from pellucid.decoding.ids import add_special_ids, check_decoding_ids
from pellucid.decoding.sampling import sample
from pellucid.decoding.steps import SearchState
from pellucid.errors import DecodingError, format_value
from pellucid.model.families import DecoderOnly
from pellucid.model.transformer import Transformer

NEAR_TIE = 1e-4  # nats; sums of log-probabilities differ by about 1e-5 between batches in single precision


def search(
    model: Transformer | DecoderOnly | Ensemble,
    texts: Sequence[Sequence[int]],
    config: DecodeConfig,
    search_function: SearchFunction | None = None,
    *,
    text_indices: Sequence[int] | None = None,
    watch: StepCallback | None = None,
    constraints: Constraints | None = None,
) -> list[list[Hypothesis]]:
    """Returns the `n_best` hypotheses of each text, best first.

    Args:
        texts: ids: the sources of an encoder-decoder without their end token, or the prompts of a decoder.
        config: the settings; `batch_tokens` is divided by `beam_size`, since each hypothesis takes a row.
        search_function: the search; None: beam search, or greedy search for a beam of one.
        text_indices: the index of each text in the whole input, which seeds random numbers; None: 0, 1, 2 ...
        watch: called at each step in the search of a single text, by the built-in searches and searches based on them.
        constraints: the constraints of the outputs, with a prefix for each text or for none.

    Raises DecodingError for unknown ids, a text without ids, and a search that does not return hypotheses for each
    text.
    """
    if search_function is not None and not callable(search_function):
        raise DecodingError(
            f"`search` is a {type(search_function).__name__}, which cannot be called",
            "pass a function (steps, config) -> list[SearchResult]",
        )
    run = search_function or (greedy_search if config.beam_size == 1 else beam_search)
    numbers = range(len(texts)) if text_indices is None else text_indices
    inputs, shapes, padded = _inputs(model, texts, config)
    free, asked = list(range(len(texts))), list[int]()
    if constraints and any(constraints.terms):
        _check_terms(config, search_function)
        asked = [place for place, terms in enumerate(constraints.terms) if terms]
        free = [place for place, terms in enumerate(constraints.terms) if not terms]
    batches = [
        [places_of[i] for i in batch]
        for places_of in (free, asked)  # separately, so that constraints do not change the search of free texts
        for batch in batches_by_length([shapes[i] for i in places_of], config.batch_tokens // config.beam_size, padded)
    ]
    device = next(model.parameters()).device
    found: dict[int, SearchResult] = {}
    with torch.inference_mode():
        for batch in batches:  # the list grows
            rows = (
                [place for place in batch for _ in range(search_function.groups)]
                if isinstance(search_function, DiverseSearch)
                else batch
            )
            given = pad([inputs[place] for place in rows], model.config.pad_id or 0).to(device)
            of_batch = model.start_batch([texts[i] for i in rows], device) if isinstance(model, Ensemble) else model
            demanded = constraints.select(rows) if constraints else None
            steps = SearchState(of_batch, given, config, [numbers[place] for place in rows], watch, demanded)
            if demanded and any(demanded.terms):
                choose = DynamicBeamAllocation(demanded.terms, demanded.continues)
                results = beam_search(steps, config, choose_step=choose)
            else:
                results = run(steps, config)
            if search_function is not None:
                _check_found(results, len(batch))
            found.update(zip(batch, results, strict=True))
            if len(batch) > 1:
                batches += [[place] for place in batch if found[place].margin < NEAR_TIE]
    return [found[place].hypotheses for place in range(len(texts))]


def _check_terms(config: DecodeConfig, by: SearchFunction | None) -> None:
    """Raises DecodingError if a search does not support terms."""
    if by is not None:
        own = "a diverse search" if isinstance(by, DiverseSearch) else "a custom search"
        raise DecodingError(f"{own} does not support terms", "leave one of them out")
    if config.beam_size == 1:
        raise DecodingError(
            "terms require beam search, and `beam_size` is 1",
            "set `beam_size=5` or more",
        )


def sample_outputs(
    model: Transformer | DecoderOnly | Ensemble,
    texts: Sequence[Sequence[int]],
    sampling: SamplingConfig,
    decode: DecodeConfig | None = None,
    text_indices: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """Returns one sampled output for each text, seeded by its entry in `text_indices`; otherwise like `search`."""
    one = replace(decode or DecodeConfig(), beam_size=1, n_best=1)
    return [
        hypotheses[0]
        for hypotheses in search(model, texts, one, partial(sample, sampling=sampling), text_indices=text_indices)
    ]


def _inputs(
    model: Transformer | DecoderOnly | Ensemble, texts: Sequence[Sequence[int]], config: DecodeConfig
) -> tuple[list[Sequence[int]], list[tuple[int, ...]], bool]:
    """Returns the model's input for each text, its shape for batching, and True if batches may have padding.

    Prompts are batched by equal length, so that no padding precedes new tokens; a shape includes a prompt's longest
    continuation.
    """
    if isinstance(model, Ensemble):
        model.check()
        each = [model.add_special_ids(ids) for ids in texts]  # the first model's ids limit the output's length
        return [ids[0] for ids in each], [tuple(len(own) - 1 for own in ids) for ids in each], model.padded
    if model.config.family == "decoder":
        size = model.config.tgt_vocab_size
        if model.config.eos_id >= size:
            raise DecodingError(f"`eos_id` is {model.config.eos_id}, but the model's vocabulary has {size:,} ids")
        for ids in texts:
            check_prompt(ids, size)
        return [*texts], [(len(ids) + config.limit(len(ids)) - 1,) for ids in texts], False
    check_decoding_ids(config, model.config)
    sources: list[Sequence[int]] = [add_special_ids(ids, model.config, config) for ids in texts]
    return sources, [(len(ids) - 1,) for ids in sources], model.config.pad_id is not None


def check_prompt(ids: Sequence[int], vocab_size: int) -> None:
    """Raises DecodingError for a text without ids, and for an unknown id."""
    if not len(ids):
        raise DecodingError("a prompt is empty: a model continues at least one token", "begin it with the start token")
    if (largest := max(ids)) >= vocab_size:
        raise DecodingError(f"a text holds the id {largest}, but the model's vocabulary has {vocab_size:,} ids")


def _check_found(results: list[SearchResult], count: int) -> None:
    """Raises DecodingError if a custom search does not return hypotheses for each output."""
    wanted = f"`search` must return a SearchResult with at least one hypothesis for each of its {count} outputs"
    if not isinstance(results, list) or not all(isinstance(found, SearchResult) for found in results):
        raise DecodingError(
            f"{wanted}; it returned {format_value(results)}", "return [SearchResult([hypothesis]), ...]"
        )
    if len(results) != count:
        raise DecodingError(f"{wanted}; it returned {len(results)}", "steps.rows has the output of each row")
    if any(not found.hypotheses for found in results):
        raise DecodingError(
            f"{wanted}; one of them is empty",
            "an output at its limit is finished: return the results of steps.hypotheses",
        )
    if odd := [one for found in results for one in found.hypotheses if not isinstance(one, Hypothesis)]:
        raise DecodingError(f"{wanted}; one holds {format_value(odd[0])}", "return the results of steps.hypotheses")
