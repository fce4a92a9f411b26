"""Many texts through a search: batches of similar length, results in the order of the input.

A text's result must not depend on its neighbours, yet the last digits of a matrix product depend on how many rows it
has. So a text whose search came so near to another outcome that these digits could decide it is searched again, alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.banks import ChoiceByBanks
from pellucid.decoding.batches import batches_by_length, pad
from pellucid.decoding.beam import Search, beam_search, greedy_search
from pellucid.decoding.constraints import Constraints
from pellucid.decoding.diverse import DiverseSearch
from pellucid.decoding.ensemble import Ensemble
from pellucid.decoding.hypothesis import Found, Hypothesis, Watcher
from pellucid.decoding.ids import check_ids, whole_source
from pellucid.decoding.sampling import sample
from pellucid.decoding.steps import Steps
from pellucid.errors import DecodingError, shown
from pellucid.model.families import DecoderOnly
from pellucid.model.transformer import Transformer

NEAR_TIE = 1e-4  # nats; sums of log-probabilities differ by about 1e-5 between batches in single precision


def search(
    model: Transformer | DecoderOnly | Ensemble,
    texts: Sequence[Sequence[int]],
    config: DecodeConfig,
    by: Search | None = None,
    *,
    places: Sequence[int] | None = None,
    watch: Watcher | None = None,
    constraints: Constraints | None = None,
) -> list[list[Hypothesis]]:
    """Returns the `n_best` hypotheses of each text, best first.

    Args:
        texts: ids: the sources of an encoder-decoder without their end token, or prompts that a decoder continues.
        config: `batch_tokens` is divided by `beam_size`, since a text has so many hypotheses.
        by: the search; None: beam search, or greedy search for a beam of one.
        places: the number of each text in the whole input, from which random numbers follow; None: 0, 1, 2 ...
        watch: is told of each step in the search of a single text, by Pellucid's own searches and by what goes by them.
        constraints: of the outputs, with a prefix for each text or for none.

    Raises DecodingError for ids that the model does not have, a text of none, and a search that gives something else
    than hypotheses for each text.
    """
    if by is not None and not callable(by):
        raise DecodingError(
            f"`search` is a {type(by).__name__}, which cannot be called", "give a function (steps, config) -> [Found]"
        )
    run = by or (greedy_search if config.beam_size == 1 else beam_search)
    numbers = range(len(texts)) if places is None else places
    inputs, shapes, padded = _inputs(model, texts, config)
    free, asked = list(range(len(texts))), list[int]()
    if constraints and any(constraints.terms):
        _check_terms(config, by)
        asked = [place for place, terms in enumerate(constraints.terms) if terms]
        free = [place for place, terms in enumerate(constraints.terms) if not terms]
    batches = [
        [places_of[i] for i in batch]
        for places_of in (free, asked)  # apart, so that what is free is searched as it always is
        for batch in batches_by_length([shapes[i] for i in places_of], config.batch_tokens // config.beam_size, padded)
    ]
    device = next(model.parameters()).device
    found: dict[int, Found] = {}
    with torch.inference_mode():
        for batch in batches:  # which grows
            rows = [place for place in batch for _ in range(by.groups)] if isinstance(by, DiverseSearch) else batch
            given = pad([inputs[place] for place in rows], model.config.pad_id or 0).to(device)
            of_batch = model.of([texts[i] for i in rows], device) if isinstance(model, Ensemble) else model
            demanded = constraints.of(rows) if constraints else None
            steps = Steps(of_batch, given, config, [numbers[place] for place in rows], watch, demanded)
            if demanded and any(demanded.terms):
                choose = ChoiceByBanks(demanded.terms, demanded.continues)
                results = beam_search(steps, config, choose=choose)
            else:
                results = run(steps, config)
            if by is not None:
                _check_found(results, len(batch))
            found.update(zip(batch, results, strict=True))
            if len(batch) > 1:
                batches += [[place] for place in batch if found[place].margin < NEAR_TIE]
    return [found[place].hypotheses for place in range(len(texts))]


def _check_terms(config: DecodeConfig, by: Search | None) -> None:
    """Raises DecodingError where a search cannot heed terms."""
    if by is not None:
        own = "a diverse search" if isinstance(by, DiverseSearch) else "a search of your own"
        raise DecodingError(f"{own} does not know of terms", "leave the one or the other out")
    if config.beam_size == 1:
        raise DecodingError(
            "terms need a beam, and `beam_size` is 1: a greedy search would write them first of all",
            "give `beam_size=5` or more",
        )


def sample_outputs(
    model: Transformer | DecoderOnly | Ensemble,
    texts: Sequence[Sequence[int]],
    sampling: SamplingConfig,
    decode: DecodeConfig | None = None,
    places: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """Returns one drawn output for each text, by the number that `places` gives it; otherwise as `search` does."""
    one = replace(decode or DecodeConfig(), beam_size=1, n_best=1)
    return [
        hypotheses[0] for hypotheses in search(model, texts, one, partial(sample, sampling=sampling), places=places)
    ]


def _inputs(
    model: Transformer | DecoderOnly | Ensemble, texts: Sequence[Sequence[int]], config: DecodeConfig
) -> tuple[list[Sequence[int]], list[tuple[int, ...]], bool]:
    """Returns what the model reads of each text, its shape for the batches, and whether those may have padding.

    Prompts of one length go together, so that no padding stands amid positions and masks; a shape counts all that a
    prompt may become.
    """
    if isinstance(model, Ensemble):
        model.check()
        each = [model.whole_sources(ids) for ids in texts]  # of which the first model's say how long an output may be
        return [ids[0] for ids in each], [tuple(len(own) - 1 for own in ids) for ids in each], model.padded
    if model.config.family == "decoder":
        size = model.config.tgt_vocab_size
        if model.config.eos_id >= size:
            raise DecodingError(f"`eos_id` is {model.config.eos_id}, the model's vocabulary has {size:,} ids")
        for ids in texts:
            check_prompt(ids, size)
        return [*texts], [(len(ids) + config.limit(len(ids)) - 1,) for ids in texts], False
    check_ids(config, model.config)
    sources: list[Sequence[int]] = [whole_source(ids, model.config, config) for ids in texts]
    return sources, [(len(ids) - 1,) for ids in sources], model.config.pad_id is not None


def check_prompt(ids: Sequence[int], vocab_size: int) -> None:
    """Raises DecodingError for a text without ids, and for an id that the model does not have."""
    if not len(ids):
        raise DecodingError("a prompt is empty: a model continues one token or more", "begin it with the start token")
    if (largest := max(ids)) >= vocab_size:
        raise DecodingError(f"a text holds the id {largest}, the model's vocabulary has {vocab_size:,} ids")


def _check_found(results: list[Found], count: int) -> None:
    """Raises DecodingError where a search of one's own does not give hypotheses for each output."""
    wanted = f"`search` must return a Found with one hypothesis or more for each of its {count} outputs"
    if not isinstance(results, list) or not all(isinstance(found, Found) for found in results):
        raise DecodingError(f"{wanted}; it returned {shown(results)}", "return [Found([hypothesis]), ...]")
    if len(results) != count:
        raise DecodingError(f"{wanted}; it returned {len(results)}", "steps.rows says which output a row is")
    if any(not found.hypotheses for found in results):
        raise DecodingError(f"{wanted}; one has none", "an output at its limit ends: take what steps.hypotheses gives")
    if odd := [one for found in results for one in found.hypotheses if not isinstance(one, Hypothesis)]:
        raise DecodingError(f"{wanted}; one holds {shown(odd[0])}", "take what steps.hypotheses gives")
