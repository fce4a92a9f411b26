"""Our tokenizers in the format of the library `tokenizers`: the `tokenizer.json` that others read.

Equal to ours id by id, for every text, and in what they decode, but for what `tokenizer_json` names. The library itself
is not needed to write it.
"""

import base64
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from pellucid.errors import ConfigError, quoted
from pellucid.text.hugging_face import HuggingFaceTokenizer, byte_characters
from pellucid.text.normalization import SPACE_MARK, SPACES, unseen
from pellucid.text.normalization_rules import nmt_nfkc_map
from pellucid.text.patterns import final_sigma, unspaced, word
from pellucid.text.sentencepiece_file import Model, read_model
from pellucid.text.subwords import ESCAPE, SUBWORD_KINDS, Subwords
from pellucid.text.tokenizer import CompleteTokenizer, OwnTokenizer
from pellucid.text.vocabulary import BYTE_TOKENS, Vocabulary

Table = dict[str, Any]
_HEX = "0123456789ABCDEF"
_PAIR = f"{ESCAPE}\0"
"""Stands for an escaped escape while other escapes are resolved; no text that was encoded has it behind them."""


def tokenizer_json(tokenizer: CompleteTokenizer, before: Sequence[int] = (), after: Sequence[int] = ()) -> Table:
    """Returns the tokenizer as `tokenizers` reads it from JSON; `before` and `after` stand around every text.

    Text that spells a special token, as `<s>`, stays text where the reader is told to split special tokens (in
    transformers `split_special_tokens`, which its settings beside this file say; in tokenizers
    `encode_special_tokens`); transformers.js cannot be told. Bytes that do not make a character decode to one U+FFFD
    each. transformers.js writes no bytes for what a unigram model lacks. A SentencePiece model that came from elsewhere
    keeps its table of normalisation, which the library applies a grapheme at a time.

    Raises ConfigError for a tokenizer that the format cannot express: one whose pieces have ids of their own, or one of
    somebody's own making.
    """
    if isinstance(tokenizer, HuggingFaceTokenizer):
        raise ConfigError("a tokenizer that came as `tokenizer.json` is written as it came", "save() does that")
    if isinstance(tokenizer, Vocabulary):
        table = _vocabulary(tokenizer)
    elif isinstance(tokenizer, Subwords):
        table = _subwords(tokenizer)
    elif isinstance(tokenizer, OwnTokenizer):
        raise ConfigError(
            f"the tokenizer `{tokenizer.name}` is of your own, and cannot be written as `tokenizer.json`",
            "give the other program ids",
        )
    else:
        raise ConfigError(
            f"a tokenizer of the kind `{tokenizer.kind}` cannot be written as `tokenizer.json`: its SentencePiece "
            "model has pieces without an id, or codes of languages that count at the beginning alone",
            "take the tokenizer's files from where the model came from",
        )
    names = token_names(tokenizer)
    special = [
        {"id": i, "content": names[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True}
        for i in sorted({tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id})
    ]  # fmt: skip
    head: Table = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special}
    return head | table | {"post_processor": _template(names, before, after)}


def is_near(tokenizer: CompleteTokenizer) -> bool:
    """Tells whether a model normalises by a compiled table of characters, which the format has only nearly."""
    if not isinstance(tokenizer, Subwords) or tokenizer.normalization == "nfc":
        return False
    return bool(read_model(tokenizer.proto).character_map)


def token_names(tokenizer: CompleteTokenizer) -> list[str]:
    """Returns what `tokenizer_json` calls each id."""
    if isinstance(tokenizer, Vocabulary):
        return _names_of(tokenizer)
    if isinstance(tokenizer, Subwords):
        pieces = tokenizer.pieces()
        return [*pieces, *tokenizer.tokens(range(len(pieces), tokenizer.size))]
    return tokenizer.tokens(range(tokenizer.size))


def _template(names: Sequence[str], before: Sequence[int], after: Sequence[int]) -> Table | None:
    """Returns what puts tokens around a text."""
    if not before and not after:
        return None

    def around(sequence: str) -> list[Table]:
        first, last = ([{"SpecialToken": {"id": names[i], "type_id": 0}} for i in ids] for ids in (before, after))
        return [*first, {"Sequence": {"id": sequence, "type_id": 0}}, *last]

    tokens = {names[i]: {"id": names[i], "ids": [i], "tokens": [names[i]]} for i in (*before, *after)}
    # A second text stands behind the first with an end of its own.
    pair = [*around("A"), *around("B")[len(before) :]]
    return {"type": "TemplateProcessing", "single": around("A"), "pair": pair, "special_tokens": tokens}


def _replace(pattern: str, content: str, *, regex: bool = False) -> Table:
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": pattern}, "content": content}


def _sequence(kind: str, parts: Iterable[Table]) -> Table | None:
    """Returns one part alone, or several in a row; `kind` is what the format calls them."""
    listed = list(parts)
    return None if not listed else listed[0] if len(listed) == 1 else {"type": "Sequence", kind: listed}


# Vocabularies: words, spaces, characters, bytes.


def _names_of(vocabulary: Vocabulary) -> list[str]:
    names = list(vocabulary.listing)
    if vocabulary.kind == "bytes":
        characters = {byte: character for character, byte in byte_characters().items()}
        first = names.index(BYTE_TOKENS[0])
        return [*names[:first], *(characters[byte] for byte in range(256))]
    # Text that was cut elsewhere may hold a word that is spelled like a special token.
    entries = set(vocabulary.entries)
    return [_unlike(name, entries) if i <= vocabulary.unk_id else name for i, name in enumerate(names)]


def _unlike(name: str, others: set[str]) -> str:
    """Returns `name` in as many more brackets as make it unlike all the others."""
    while name in others:
        name = f"<{name}>"
    return name


def _vocabulary(vocabulary: Vocabulary) -> Table:
    names = _names_of(vocabulary)
    vocab = {name: i for i, name in enumerate(names)}
    unknown = names[vocabulary.unk_id]
    normalizers = [*_normalization(vocabulary.normalization), *(_lowercase() if vocabulary.lowercase else [])]
    cut: Table | None = None
    write: Table | None
    if vocabulary.kind in ("words", "spaces"):
        # A list of whole words: no piece begins as a continuation would have to, and transformers.js has no WordLevel.
        model: Table = {"type": "WordPiece", "vocab": vocab, "unk_token": unknown, "continuing_subword_prefix": " "}
        model["max_input_chars_per_word"] = max(map(len, vocabulary.entries), default=1)
        pattern = word() if vocabulary.kind == "words" else r"[^ \t\n\r\f\v]+"
        cut = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True}
        if vocabulary.kind == "words":
            write = _sequence("decoders", [_spaces_between(), {"type": "Fuse"}, _replace(unspaced(), "", regex=True)])
        else:
            written = vocabulary.listing[vocabulary.unk_id]
            write = _sequence("decoders", [_replace(f"^{unknown}$", written, regex=True), _spaces_between()])
            normalizers += _unnamed(names[: vocabulary.unk_id], _unlike(unknown * 2, set(vocabulary.entries)))
    elif vocabulary.kind == "bytes":
        model = _bpe(vocab, [], unknown)
        plain = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
        cut = write = {"type": "ByteLevel", **plain}
    else:
        model = _bpe(vocab, [], unknown, byte_fallback=vocabulary.byte_fallback)
        bytes_first = [{"type": "ByteFallback"}] if vocabulary.byte_fallback else []
        write = _sequence("decoders", [*bytes_first, {"type": "Fuse"}])
    normalizer = _sequence("normalizers", normalizers)
    return {"normalizer": normalizer, "pre_tokenizer": cut, "model": model, "decoder": write}


def _bpe(
    vocab: dict[str, int],
    merges: list[list[str]],
    unknown: str,
    *,
    byte_fallback: bool = False,
    fuse_unk: bool = False,
    ignore_merges: bool = False,
) -> Table:
    return {
        "type": "BPE", "dropout": None, "unk_token": unknown, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": fuse_unk, "byte_fallback": byte_fallback,
        "ignore_merges": ignore_merges, "vocab": vocab, "merges": merges,
    }  # fmt: skip


def _unnamed(names: Sequence[str], other: str) -> list[Table]:
    """Makes words that are spelled like special tokens unknown ones."""
    listed = "|".join(map(re.escape, names))
    space = r" \t\n\r\f\v"
    return [_replace(rf"(?<![^{space}])(?:{listed})(?![^{space}])", other, regex=True)]


def _lowercase() -> list[Table]:
    """Returns lower case as Python has it: the library's own does not know the sigma at the end of a word."""
    return [_replace(final_sigma(), "ς", regex=True), {"type": "Lowercase"}]


def _spaces_between() -> Table:
    """Returns a space before each word but the first. No word begins with one, so none counts as the other's
    continuation.
    """
    return {"type": "WordPiece", "prefix": " ", "cleanup": False}


# SentencePiece models.


def _subwords(tokenizer: Subwords) -> Table:
    model = read_model(tokenizer.proto)
    names = token_names(tokenizer)
    if model.algorithm not in ("bpe", "unigram"):
        raise ConfigError(
            f"a SentencePiece model that cuts by `{model.algorithm}` cannot be written as `tokenizer.json`",
            "train one of the kind bpe or unigram",
        )
    foreign = tokenizer.kind not in SUBWORD_KINDS  # it keeps its symbols from its own normalisation
    unwritten = [symbol for symbol in model.symbols if foreign or {*symbol} & {" ", SPACE_MARK, ESCAPE}]
    if unwritten or model.space_behind:
        what = f"a symbol like {quoted(unwritten[0])}" if unwritten else "its space behind words"
        raise ConfigError(
            f"a SentencePiece model with {what} cannot be written as `tokenizer.json`",
            "cut the text with SentencePiece",
        )
    escape = [_replace(ESCAPE, ESCAPE * 2), _replace(SPACE_MARK, f"{ESCAPE}_")] if tokenizer.escapes else []
    form = tokenizer.normalization
    own = _own_normalizers(model) if form == "none" else _normalization(form)
    spaced = [_replace(" ", SPACE_MARK)]
    if model.adds_space:
        spaced.append({"type": "Prepend", "prepend": SPACE_MARK})
    table: Table = {
        "normalizer": _sequence("normalizers", [*escape, *own, *spaced]),
        "pre_tokenizer": None,
        "model": _bpe_pieces(model, names) if model.algorithm == "bpe" else _unigram_pieces(model, names),
    }
    hidden = _unknown_in_names if model.algorithm == "unigram" else _names_behind_symbols
    if pattern := "|".join(filter(None, (_any_of(model.symbols), hidden(model, names)))):
        table["pre_tokenizer"] = {
            "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False,
        }  # fmt: skip
    decoders = [_replace(SPACE_MARK, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
    if model.unknown_as != names[tokenizer.unk_id]:
        decoders.insert(1, _replace(f"^{re.escape(names[tokenizer.unk_id])}$", model.unknown_as, regex=True))
    if model.adds_space:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    if tokenizer.escapes:
        pair, mark = _replace(ESCAPE * 2, _PAIR), _replace(f"{ESCAPE}_", SPACE_MARK)
        decoders += [pair, mark, _replace(_PAIR, ESCAPE)]
    return table | {"decoder": _sequence("decoders", decoders)}


def _own_normalizers(model: Model) -> list[Table]:
    """Returns what SentencePiece does to a text before it cuts it."""
    parts = [_character_map(model.character_map)] if model.character_map else []
    return [*parts, *_without_spaces(" ")] if model.removes_spaces else parts


def _normalization(form: str) -> list[Table]:
    """Returns what normalize() does, as far as two turns do it: more are for what no keyboard writes."""
    if form == "none":
        return []
    if form == "nmt_nfkc":
        # The library applies such a table a grapheme at a time, and leaves letters apart that it should have joined.
        return [_character_map(nmt_nfkc_map()), {"type": "NFKC"}, *_without_spaces(" ")]
    once = [_replace(unseen().pattern, "", regex=True), {"type": "NFC"}]
    return [_replace(SPACE_MARK, " "), *once, *once, *_without_spaces(SPACES)]


def _without_spaces(characters: str) -> list[Table]:
    """Returns rules for one space in place of a run of some characters, and none at the ends."""
    return [_replace(f"[{characters}]+", " ", regex=True), _replace("^ +| +$", "", regex=True)]


def _character_map(table: bytes) -> Table:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode("ascii")}


def _bpe_pieces(model: Model, names: Sequence[str]) -> Table:
    """Returns the merges in the order in which SentencePiece makes them: that of the scores of what comes out.

    It joins any two neighbours whose letters together are a piece; so each piece has as many merges as it can be cut
    in two pieces.
    """
    vocab = {name: i for i, name in enumerate(names)}
    ordered = sorted(model.ids, key=lambda piece: (-model.scores[piece], model.ids[piece]))
    merges = [
        [piece[:place], piece[place:]]
        for piece in ordered
        for place in range(1, len(piece))
        if piece[:place] in model.ids and piece[place:] in model.ids
    ]
    # A symbol stands alone, and no merges make one: it is looked up whole. So is a text that is a piece, which merges
    # would have made.
    whole = bool(model.symbols)
    unknown = names[model.unk_id]
    return _bpe(vocab, merges, unknown, byte_fallback=bool(model.byte_ids), fuse_unk=True, ignore_merges=whole)


def _unigram_pieces(model: Model, names: Sequence[str]) -> Table:
    """Returns the pieces with their scores. What is not a piece of text is so improbable that text spelled like it
    never wins; a symbol, which stands alone, always does.
    """
    lowest = min(model.scores.values(), default=0.0)
    never = (max(map(len, names)) + 1) * min(lowest, -1.0)
    of_text = model.scores | dict.fromkeys(model.symbols, 0.0)
    ids = model.ids | model.symbols
    scores = [[name, of_text[name] if ids.get(name) == i else never] for i, name in enumerate(names)]
    return {"type": "Unigram", "unk_id": model.unk_id, "vocab": scores, "byte_fallback": bool(model.byte_ids)}


def _unknown_in_names(model: Model, names: Sequence[str]) -> str:
    """Returns the pattern of characters that have no piece, where text spells a special token or a byte with them.

    However improbable the token, it would be found in such a text, where unknown characters are more so; it is not,
    where the text is cut there. No piece has the character, so nothing else changes.
    """
    found = []
    for spelling in _spellings_of_no_text(model, names):
        classes = [re.escape(each) if len(each) == 1 else f"[{each}]" for each in spelling]
        for place, characters in enumerate(spelling):
            if unknown := "".join(sorted(set(characters) - set(model.ids))):
                before, after = "".join(classes[:place]), "".join(classes[place + 1 :])
                found.append(
                    (f"(?<={before})" if before else "") + f"[{re.escape(unknown)}]" + (f"(?={after})" if after else "")
                )
    return "|".join(dict.fromkeys(found))


def _names_behind_symbols(model: Model, names: Sequence[str]) -> str:
    """Returns the pattern of beginnings that keep text from being looked up whole as a special token or a byte.

    Only what begins behind a symbol can be spelled so: before all other text stands a space.
    """
    if not model.symbols:
        return ""
    found = []
    for spelling in _spellings_of_no_text(model, names):
        # It is cut where nothing would have been joined: neither a piece, nor unknown characters to one.
        pairs = enumerate(pairwise(spelling), start=1)
        apart = (
            place
            for place, (one, other) in pairs
            if (model.byte_ids or one in model.ids or other in model.ids)
            and not any(one + other in piece for piece in model.ids)
        )
        place = next(apart, 1)
        classes = [re.escape(each) if len(each) == 1 else f"[{each}]" for each in spelling]
        found.append(f"{''.join(classes[:place])}(?={''.join(classes[place:])})")
    return f"(?<={_any_of(model.symbols)})(?:{'|'.join(found)})"


def _spellings_of_no_text(model: Model, names: Sequence[str]) -> list[list[str]]:
    """Returns the characters of each token that is no piece of text; several in one place: any of them."""
    ids = model.ids | model.symbols
    spellings = [list(name) for i, name in enumerate(names) if ids.get(name) != i and i not in model.byte_ids]
    return [*spellings, ["<", "0", "x", _HEX, _HEX, ">"]] if model.byte_ids else spellings


def _any_of(symbols: Iterable[str]) -> str:
    """Returns the pattern of all symbols, the longest first: of two that fit, that one stands."""
    # JavaScript knows no escaped hyphen outside a class.
    return "|".join(re.escape(symbol).replace("\\-", "-") for symbol in sorted(symbols, key=len, reverse=True))
