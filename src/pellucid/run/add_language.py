"""`data.add_language`: adds languages to a trained model.

Its vocabulary is extended by tokens for their text and a tag for each target language; each new row of the embeddings,
and of the output projection, is the mean of the rows of the tokens that the model had for the same text. Earlier tokens
keep their ids and logits: the new ones are chosen so that the other training texts are tokenized as before.

A model with remapped ids, such as OPUS-MT's, is extended by tags alone: the new text is tokenized with the existing
vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import torch

from pellucid.config.data import language_tag
from pellucid.data.prepare import LEARNED_FROM, Corpus
from pellucid.model.families import build_model
from pellucid.run.init_from import InitialModel
from pellucid.text.remapped_sentencepiece import RemappedSentencePiece
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary_extension import ExtendedTokenizer, extend_vocabulary
from pellucid.weights.folder import SavedModel
from pellucid.weights.tensors import parameters, set_parameters

SOURCE, TARGET = 0, 1
OF_SOURCE = "src_embedding."
"""The prefix of the parameters with a row per source id; others have a row per target id."""


def extend_tokenizers(
    start: InitialModel, corpus: Corpus, log_line: Callable[[str], object] = str
) -> tuple[ExtendedTokenizer, ExtendedTokenizer]:
    """Returns the initial model's tokenizers, extended for `data.add_language`; a joint tokenizer twice.

    `log_line` is called with each message. Raises ConfigError for a tokenizer that cannot be extended.
    """
    saved, data = start.model, corpus.data
    assert saved.tokenizers is not None
    wanted = set(data.files("add_language"))
    tags = [language_tag(code) for code in dict.fromkeys(data.files("tgt_lang"))]
    if isinstance(saved.tokenizers.source, RemappedSentencePiece):
        log_line(f"the vocabulary gets {', '.join(tags)}, and the ids of its pieces stay the same")
        source, target = _add_tags(saved, tags)
        _warn_of_forgetting(corpus, wanted, log_line)
        return source, target

    def longer(tokenizer: TokenizerBase, sides: tuple[int, ...], symbols: list[str]) -> ExtendedTokenizer:
        new = chain.from_iterable(_lines(corpus, side, wanted, of=True) for side in sides)
        kept = chain.from_iterable(_lines(corpus, side, wanted, of=False) for side in sides)
        return extend_vocabulary(tokenizer, new, kept, data.max_new_pieces, symbols)

    if saved.tokenizers.joint:
        source = target = longer(saved.tokenizers.source, (SOURCE, TARGET), tags)
    else:
        source, target = (
            longer(saved.tokenizers.source, (SOURCE,), tags), longer(saved.tokenizers.target, (TARGET,), [])
        )  # fmt: skip
    counts = [f"{len(side.made_of):,}" for side in ([source] if source is target else [source, target])]
    log_line(f"the vocabulary gets {' and '.join(counts)} pieces for {', '.join(sorted(wanted))}")
    _warn_of_forgetting(corpus, wanted, log_line)
    return source, target


def _warn_of_forgetting(corpus: Corpus, wanted: set[str], log_line: Callable[[str], object]) -> None:
    if not any(wanted.isdisjoint(text.pair.split("-")) for text in corpus.inspection.texts):
        log_line(
            "no corpus has a language of the initial model, so the model will forget its languages: add texts in "
            "them to keep them"
        )


def _add_tags(saved: SavedModel, tags: Sequence[str]) -> tuple[ExtendedTokenizer, ExtendedTokenizer]:
    """Returns a model's tokenizers with missing tags added, to source and target if they share ids."""
    assert saved.tokenizers is not None
    source, target = saved.tokenizers.source, saved.tokenizers.target
    assert isinstance(source, RemappedSentencePiece)
    assert isinstance(target, RemappedSentencePiece)
    new = [tag for tag in tags if tag not in source.ids]
    alike = tuple(saved.languages.values())
    made_of = [alike or tuple(source.encode(tag)) for tag in new]
    longer = ExtendedTokenizer(source.add_tags(new), made_of)
    if source is target:
        return longer, longer
    shared = saved.model.config.tie_embeddings == "all"
    return longer, ExtendedTokenizer(target.add_tags(new), made_of) if shared else ExtendedTokenizer(target, [])


def extend_embeddings(start: InitialModel, source: ExtendedTokenizer, target: ExtendedTokenizer) -> InitialModel:
    """Returns the initial model with these tokenizers, and a row per new id: the mean of its text's earlier rows."""
    model = start.model.model
    config = replace(model.config, src_vocab_size=source.tokenizer.size, tgt_vocab_size=target.tokenizer.size)
    longer = build_model(config, getattr(model, "parts", None))
    tensors = parameters(model)
    for name, wanted in parameters(longer).items():
        if (tensor := tensors[name]).shape != wanted.shape:
            ids = (source if name.startswith(OF_SOURCE) else target).made_of
            tensors[name] = torch.cat([tensor, *(tensor[list(each)].mean(0, keepdim=True) for each in ids)])
    set_parameters(longer, tensors, "the model to start from")
    tokenizers = TokenizerPair(source.tokenizer, None if source is target else target.tokenizer)
    return replace(start, model=replace(start.model, model=longer, tokenizers=tokenizers))


def _lines(corpus: Corpus, side: int, wanted: set[str], *, of: bool) -> Iterator[str]:
    """Returns the source or target lines in added languages (`of`), or in others; a sample of a large corpus."""
    used, start = np.zeros_like(corpus.used), 0
    for text, count in zip(corpus.inspection.texts, corpus.inspection.counts, strict=True):
        if (text.pair.split("-")[side] in wanted) == of:
            used[start : start + count] = corpus.used[start : start + count]
        start += count
    places = np.flatnonzero(used)
    used[:] = False
    used[places[:: 1 + len(places) // LEARNED_FROM]] = True
    return (pair[side] for pair in corpus.inspection.pairs(used, corpus.data.on_bad_utf8))
