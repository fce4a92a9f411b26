"""`data.add_language`: a trained model that is to learn languages it does not know.

Its vocabulary gets pieces for their text and a tag for each that it is to write; each new row of the embeddings, and of
the output projection, is the mean of the rows of the pieces that the model had for the same text. What it knew has the
ids and the logits that it had: the pieces are chosen so that the other texts of the training are cut as before.

An opened model whose pieces have numbers of their own, as OPUS-MT's, gets tags alone: the new text is cut by the pieces
that are there.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import torch

from pellucid.config.data import language_tag
from pellucid.data.prepare import LEARNED_FROM, Corpus
from pellucid.model.families import build_model
from pellucid.run.start import Start
from pellucid.text.further_pieces import Longer, with_pieces
from pellucid.text.numbered import NumberedSubwords
from pellucid.text.tokenizer import CompleteTokenizer
from pellucid.text.tokenizers import Tokenizers
from pellucid.weights.folder import SavedModel
from pellucid.weights.tensors import parameters, set_parameters

SOURCE, TARGET = 0, 1
OF_SOURCE = "src_embedding."
"""Begins the names of parameters with a row for each id of the source; others have one for each of the target."""


def longer_tokenizers(start: Start, corpus: Corpus, say: Callable[[str], object] = str) -> tuple[Longer, Longer]:
    """Returns the start's tokenizers with what `data.add_language` needs; a joint one twice.

    `say` is given what there is to say of it, a sentence each. Raises ConfigError for a tokenizer that nothing can be
    appended to.
    """
    saved, data = start.model, corpus.data
    assert saved.tokenizers is not None
    wanted = set(data.files("add_language"))
    tags = [language_tag(code) for code in dict.fromkeys(data.files("tgt_lang"))]
    if isinstance(saved.tokenizers.source, NumberedSubwords):
        say(f"the vocabulary gets {', '.join(tags)}, and its pieces stay: they have numbers of their own")
        source, target = _with_tags(saved, tags)
        _warn_of_forgetting(corpus, wanted, say)
        return source, target

    def longer(tokenizer: CompleteTokenizer, sides: tuple[int, ...], symbols: list[str]) -> Longer:
        new = chain.from_iterable(_lines(corpus, side, wanted, of=True) for side in sides)
        kept = chain.from_iterable(_lines(corpus, side, wanted, of=False) for side in sides)
        return with_pieces(tokenizer, new, kept, data.added_pieces, symbols)

    if saved.tokenizers.joint:
        source = target = longer(saved.tokenizers.source, (SOURCE, TARGET), tags)
    else:
        source, target = (
            longer(saved.tokenizers.source, (SOURCE,), tags), longer(saved.tokenizers.target, (TARGET,), [])
        )  # fmt: skip
    counts = [f"{len(side.made_of):,}" for side in ([source] if source is target else [source, target])]
    say(f"the vocabulary gets {' and '.join(counts)} pieces for {', '.join(sorted(wanted))}")
    _warn_of_forgetting(corpus, wanted, say)
    return source, target


def _warn_of_forgetting(corpus: Corpus, wanted: set[str], say: Callable[[str], object]) -> None:
    if not any(wanted.isdisjoint(text.pair.split("-")) for text in corpus.inspection.texts):
        say("no corpus is of what the model knows, so it will forget that: name texts of it, too, to keep it")


def _with_tags(saved: SavedModel, tags: Sequence[str]) -> tuple[Longer, Longer]:
    """Returns an opened model's tokenizers with the tags that they lack, on both sides where these share their ids."""
    assert saved.tokenizers is not None
    source, target = saved.tokenizers.source, saved.tokenizers.target
    assert isinstance(source, NumberedSubwords)
    assert isinstance(target, NumberedSubwords)
    new = [tag for tag in tags if tag not in source.ids]
    alike = tuple(saved.languages.values())
    made_of = [alike or tuple(source.encode(tag)) for tag in new]
    longer = Longer(source.with_tags(new), made_of)
    if source is target:
        return longer, longer
    shared = saved.model.config.tie_embeddings == "all"
    return longer, Longer(target.with_tags(new), made_of) if shared else Longer(target, [])


def with_rows(start: Start, source: Longer, target: Longer) -> Start:
    """Returns the start with those tokenizers, and a row for each further id: the mean of those that its text had."""
    model = start.model.model
    config = replace(model.config, src_vocab_size=source.tokenizer.size, tgt_vocab_size=target.tokenizer.size)
    longer = build_model(config, getattr(model, "parts", None))
    tensors = parameters(model)
    for name, wanted in parameters(longer).items():
        if (tensor := tensors[name]).shape != wanted.shape:
            ids = (source if name.startswith(OF_SOURCE) else target).made_of
            tensors[name] = torch.cat([tensor, *(tensor[list(each)].mean(0, keepdim=True) for each in ids)])
    set_parameters(longer, tensors, "the model to start from")
    tokenizers = Tokenizers(source.tokenizer, None if source is target else target.tokenizer)
    return replace(start, model=replace(start.model, model=longer, tokenizers=tokenizers))


def _lines(corpus: Corpus, side: int, wanted: set[str], *, of: bool) -> Iterator[str]:
    """Returns the lines of a side that are in languages to add, or those that are not; of a large corpus some."""
    used, start = np.zeros_like(corpus.used), 0
    for text, count in zip(corpus.inspection.texts, corpus.inspection.counts, strict=True):
        if (text.pair.split("-")[side] in wanted) == of:
            used[start : start + count] = corpus.used[start : start + count]
        start += count
    places = np.flatnonzero(used)
    used[:] = False
    used[places[:: 1 + len(places) // LEARNED_FROM]] = True
    return (pair[side] for pair in corpus.inspection.pairs(used, corpus.data.on_bad_utf8))
