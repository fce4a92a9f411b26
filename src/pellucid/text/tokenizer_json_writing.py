"""Export of Pellucid's tokenizers to `tokenizer.json`, the format of the library `tokenizers`.

The exported tokenizer gives the same ids and the same decoded text for every input, except in the cases that
`tokenizer_json` lists. The library itself is not needed to write the file.
"""

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

from pellucid.errors import ConfigError, format_quoted
from pellucid.files.reading import parse_json
from pellucid.text.hugging_face import HuggingFaceTokenizer, byte_characters
from pellucid.text.normalization import SPACE_MARK, SPACES, make_invisible_pattern
from pellucid.text.normalization_rules import nmt_nfkc_map
from pellucid.text.patterns import final_sigma, make_space_pattern, make_word_pattern
from pellucid.text.remapped_sentencepiece import CODE, RemappedSentencePiece
from pellucid.text.sentencepiece_file import SentencePieceModel, read_model
from pellucid.text.special_ids import CLEANED
from pellucid.text.subwords import ESCAPE, SUBWORD_KINDS, SentencePieceTokenizer
from pellucid.text.tokenizer import TokenizerAdapter, TokenizerBase
from pellucid.text.vocabulary import BYTE_TOKENS, Vocabulary

Table = dict[str, Any]
_HEX = "0123456789ABCDEF"
_PAIR = f"{ESCAPE}\0"
"""Represents an escaped escape while other escapes are resolved; NUL follows no other escape in an encoded text."""
_UNREACHED = "\0"
"""The first character of token names that cannot occur in a text; decoding drops it."""
_NOWHERE = "\ufffe"
"""A character that occurs in no text, so it always becomes the unknown token."""


def tokenizer_json(tokenizer: TokenizerBase, before: Sequence[int] = (), after: Sequence[int] = ()) -> Table:
    """Returns the tokenizer as the table of a `tokenizer.json`; the ids `before` and `after` are put around every text.

    Text that spells a special token, such as `<s>`, stays text if the reader splits special tokens (in transformers
    `split_special_tokens`, which is set in the settings next to this file; in tokenizers `encode_special_tokens`);
    transformers.js has no such option. Each byte that is not part of a character decodes to one U+FFFD.
    transformers.js has no byte fallback for a unigram model. An imported SentencePiece model keeps its normalization
    table, which the library applies to one grapheme at a time.

    A tokenizer that was imported from `tokenizer.json` is written with only two changes: a new template if the file's
    template differs, and the removal of spaces after decoding, added to its decoder.

    For a SentencePiece model with remapped ids (OPUS-MT, NLLB, T5), a language code or a tag that is recognized only at
    the beginning of a text is recognized everywhere in it; a space before an added token is dropped; and consecutive
    unknown characters that the other side's vocabulary lists as pieces give one unknown token.

    Raises ConfigError for a tokenizer that the format cannot express: a SentencePiece model in which some pieces have
    no id, or which has user-defined symbols, and a custom tokenizer.
    """
    if isinstance(tokenizer, HuggingFaceTokenizer):
        return _add_template(tokenizer, before, after)
    if isinstance(tokenizer, Vocabulary):
        table = _vocabulary(tokenizer)
    elif isinstance(tokenizer, SentencePieceTokenizer):
        table = _subwords(tokenizer)
    elif isinstance(tokenizer, RemappedSentencePiece):
        table = _number_pieces(tokenizer)
    else:
        assert isinstance(tokenizer, TokenizerAdapter)
        raise ConfigError(
            f"the tokenizer `{tokenizer.name}` is custom, so it cannot be written as `tokenizer.json`",
            "pass ids to the other program",
        )
    names = token_names(tokenizer)
    # A token that decoding drops is a special token; Pellucid's own tokenizers write `<unk>`.
    silent = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id}
    in_text: list[int] = []
    flags: dict[int, dict[str, Any]] = {}
    if isinstance(tokenizer, RemappedSentencePiece):
        in_text = [i for token, i in tokenizer.ids.items() if CODE.fullmatch(token) or token in tokenizer.tags]
        flags = {tokenizer.ids[token.content]: asdict(token) for token in tokenizer.added.tokens}
        in_text += flags
        silent = {i for i in tokenizer.silent if i not in in_text}
    added = [
        {"id": i, "content": names[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": i in silent} | flags.get(i, {})
        for i in sorted({*silent, *in_text})
    ]  # fmt: skip
    head: Table = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}
    return head | table | {"post_processor": _template(names, before, after)}


def _add_template(tokenizer: HuggingFaceTokenizer, before: Sequence[int], after: Sequence[int]) -> Table:
    """Returns the table of an imported `tokenizer.json`, with the ids `before` and `after` around every text."""
    table: Table = parse_json(tokenizer.data)
    if tokenizer.around() != (tuple(before), tuple(after)):
        table["post_processor"] = _template(token_names(tokenizer), before, after)
    if tokenizer.clean_up:
        cleaned = [{"type": "Fuse"}, *(_replace(spaced, spaced.strip()) for spaced in CLEANED)]
        table["decoder"] = _sequence("decoders", [*filter(None, [table.get("decoder")]), *cleaned])
    return table


def is_near(tokenizer: TokenizerBase) -> bool:
    """Returns True if the tokenizer normalizes by a compiled character map, which the format only approximates."""
    if not isinstance(tokenizer, SentencePieceTokenizer) or tokenizer.normalization == "nfc":
        return False
    return bool(read_model(tokenizer.proto).character_map)


def token_names(tokenizer: TokenizerBase) -> list[str]:
    """Returns the name of each id in the `tokenizer.json` of `tokenizer_json`."""
    if isinstance(tokenizer, Vocabulary):
        return _list_names(tokenizer)
    if isinstance(tokenizer, HuggingFaceTokenizer):
        return tokenizer.names()
    if isinstance(tokenizer, RemappedSentencePiece):
        return _list_numbered_names(tokenizer)
    if isinstance(tokenizer, SentencePieceTokenizer):
        pieces = tokenizer.pieces()
        return [*pieces, *tokenizer.tokens(range(len(pieces), tokenizer.size))]
    return tokenizer.tokens(range(tokenizer.size))


def _template(names: Sequence[str], before: Sequence[int], after: Sequence[int]) -> Table | None:
    """Returns the post-processor that puts tokens around a text, or None if there are no such tokens."""
    if not before and not after:
        return None

    def around(sequence: str) -> list[Table]:
        first, last = ([{"SpecialToken": {"id": names[i], "type_id": 0}} for i in ids] for ids in (before, after))
        return [*first, {"Sequence": {"id": sequence, "type_id": 0}}, *last]

    tokens = {names[i]: {"id": names[i], "ids": [i], "tokens": [names[i]]} for i in (*before, *after)}
    # A second text follows the first, with its own end token.
    pair = [*around("A"), *around("B")[len(before) :]]
    return {"type": "TemplateProcessing", "single": around("A"), "pair": pair, "special_tokens": tokens}


def _replace(pattern: str, content: str, *, regex: bool = False) -> Table:
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": pattern}, "content": content}


def _sequence(kind: str, parts: Iterable[Table]) -> Table | None:
    """Returns the single part, or a sequence of several; `kind` is the format's key for the members."""
    listed = list(parts)
    return None if not listed else listed[0] if len(listed) == 1 else {"type": "Sequence", kind: listed}


# Vocabularies: words, spaces, characters, bytes.


def _list_names(vocabulary: Vocabulary) -> list[str]:
    names = list(vocabulary.listing)
    if vocabulary.kind == "bytes":
        characters = {byte: character for character, byte in byte_characters().items()}
        first = names.index(BYTE_TOKENS[0])
        return [*names[:first], *(characters[byte] for byte in range(256))]
    # Pre-tokenized text may contain a word that is spelled like a special token.
    entries = set(vocabulary.entries)
    return [_unlike(name, entries) if i <= vocabulary.unk_id else name for i, name in enumerate(names)]


def _unlike(name: str, others: set[str]) -> str:
    """Returns `name` in as many additional brackets as it needs to differ from all `others`."""
    while name in others:
        name = f"<{name}>"
    return name


def _vocabulary(vocabulary: Vocabulary) -> Table:
    names = _list_names(vocabulary)
    vocab = {name: i for i, name in enumerate(names)}
    unknown = names[vocabulary.unk_id]
    normalizers = [*_normalization(vocabulary.normalization), *(_lowercase() if vocabulary.lowercase else [])]
    cut: Table | None = None
    write: Table | None
    if vocabulary.kind in ("words", "spaces"):
        # A list of whole words: no entry begins with the continuation prefix, and transformers.js has no WordLevel.
        model: Table = {"type": "WordPiece", "vocab": vocab, "unk_token": unknown, "continuing_subword_prefix": " "}
        model["max_input_chars_per_word"] = max(map(len, vocabulary.entries), default=1)
        pattern = make_word_pattern() if vocabulary.kind == "words" else r"[^ \t\n\r\f\v]+"
        cut = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True}
        if vocabulary.kind == "words":
            write = _sequence(
                "decoders", [_spaces_between(), {"type": "Fuse"}, _replace(make_space_pattern(), "", regex=True)]
            )
        else:
            written = vocabulary.listing[vocabulary.unk_id]
            write = _sequence("decoders", [_replace(f"^{unknown}$", written, regex=True), _spaces_between()])
            normalizers += _hide_special_names(
                names[: vocabulary.unk_id], _unlike(unknown * 2, set(vocabulary.entries))
            )
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


def _hide_special_names(names: Sequence[str], other: str) -> list[Table]:
    """Returns a rule that turns words spelled like special tokens into unknown words."""
    listed = "|".join(map(re.escape, names))
    space = r" \t\n\r\f\v"
    return [_replace(rf"(?<![^{space}])(?:{listed})(?![^{space}])", other, regex=True)]


def _lowercase() -> list[Table]:
    """Returns rules for lower case as in Python: the library's `Lowercase` has no final sigma."""
    return [_replace(final_sigma(), "ς", regex=True), {"type": "Lowercase"}]


def _spaces_between() -> Table:
    """Returns a decoder that puts a space before each word but the first. No word begins with a space, so no word is
    taken for a continuation.
    """
    return {"type": "WordPiece", "prefix": " ", "cleanup": False}


# SentencePiece models.


def _subwords(tokenizer: SentencePieceTokenizer) -> Table:
    model = read_model(tokenizer.proto)
    names = token_names(tokenizer)
    _check_pieces(model, [] if tokenizer.kind in SUBWORD_KINDS else list(model.symbols))
    escape = [_replace(ESCAPE, ESCAPE * 2), _replace(SPACE_MARK, f"{ESCAPE}_")] if tokenizer.escapes else []
    form = tokenizer.normalization
    own = _list_normalizers(model) if form == "none" else _normalization(form)
    table = _pieces(model, names, [*escape, *own])
    decoders = _decoders(model)
    if model.unknown_as != names[tokenizer.unk_id]:
        decoders.insert(1, _replace(f"^{re.escape(names[tokenizer.unk_id])}$", _NOWHERE, regex=True))
        decoders.append(_replace(_NOWHERE, model.unknown_as))  # keeps the spaces around it
    if tokenizer.escapes:
        pair, mark = _replace(ESCAPE * 2, _PAIR), _replace(f"{ESCAPE}_", SPACE_MARK)
        decoders += [pair, mark, _replace(_PAIR, ESCAPE)]
    return table | {"decoder": _sequence("decoders", decoders)}


def _number_pieces(tokenizer: RemappedSentencePiece) -> Table:
    """Returns the table of a SentencePiece model with its pieces in the order of the remapped ids."""
    model = read_model(tokenizer.proto)
    _check_pieces(model, list(model.symbols))
    hidden = {*tokenizer.hidden.values(), tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id}
    ids = {piece: i for piece, i in tokenizer.ids.items() if i not in hidden}
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)] if model.byte_ids else []
    if lacking := [piece for piece in (*model.ids, *byte_tokens) if piece not in ids]:
        total = len(model.ids) + len(byte_tokens)
        raise ConfigError(
            f"{len(lacking):,} of {total:,} pieces of the SentencePiece model have no id, like "
            f"{format_quoted(lacking[0])}",
            "tokenize the text with SentencePiece",
        )
    of_text = {piece: ids[piece] for piece in model.ids}
    byte_ids = tuple(ids[token] for token in byte_tokens)
    names = _list_numbered_names(tokenizer)
    renumbered = replace(model, ids=of_text, symbols={}, byte_ids=byte_ids, unk_id=tokenizer.unk_id)
    shown = [name for name in names if not name.startswith(_UNREACHED)]
    known = {*filter(lambda piece: len(piece) == 1, of_text)}
    listed = {name for name in shown if len(name) == 1 and name not in known}
    normalizers = _list_normalizers(model)
    if listed and not byte_ids:  # SentencePiece looks up such a character only if it is isolated
        kept = re.escape("".join(sorted({*known, " ", SPACE_MARK})))
        normalizers.append(_replace(f"[^{kept}]{{2,}}", _NOWHERE, regex=True))
    table = _pieces(renumbered, names, normalizers, [name for name in shown if name not in listed])
    if tokenizer.added.one_prefix and tokenizer.added.tokens and model.adds_space:
        # The space is put only before the first part of a text, not after an added token.
        table["normalizer"] = _sequence("normalizers", normalizers)
        table["pre_tokenizer"] = {
            "type": "Metaspace", "replacement": SPACE_MARK, "prepend_scheme": "first", "split": False,
        }  # fmt: skip
    decoders = _decoders(model)
    decoders[:0] = [_replace(_UNREACHED, ""), *(_replace(tag, "") for tag in sorted(tokenizer.tags))]
    if tokenizer.strip:
        decoders.append(_replace(r"^\s+|\s+$", "", regex=True))
    if tokenizer.clean_up:
        decoders += [_replace(spaced, spaced.strip()) for spaced in CLEANED]
    return table | {"decoder": _sequence("decoders", decoders)}


def _list_numbered_names(tokenizer: RemappedSentencePiece) -> list[str]:
    """Returns the name of each id; names of tokens that a text of this side cannot produce begin with _UNREACHED.

    SentencePiece looks up the pieces that it produces, so a piece of the other side is found only if it is one
    character that no piece of this side contains.
    """
    model = read_model(tokenizer.proto)
    special = {*tokenizer.hidden.values(), tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id}
    letters = {character for piece in model.ids for character in piece}
    added = {token.content for token in tokenizer.added.tokens}
    byte_tokens = {f"<0x{byte:02X}>" for byte in range(256)} if model.byte_ids else set()
    names = [f"{_UNREACHED}{i}" for i in range(tokenizer.size)]
    for piece, i in tokenizer.ids.items():
        reached = i in special or piece in model.ids or piece in byte_tokens or piece in added or CODE.fullmatch(piece)
        names[i] = piece if reached or (len(piece) == 1 and piece not in letters) else f"{_UNREACHED}{piece}"
    return names


def _check_pieces(model: SentencePieceModel, unwritten: Sequence[str]) -> None:
    """Raises ConfigError for a SentencePiece model that the format cannot express."""
    if model.algorithm not in ("bpe", "unigram"):
        raise ConfigError(
            f"a SentencePiece model of the kind `{model.algorithm}` cannot be written as `tokenizer.json`",
            "train one of the kind bpe or unigram",
        )
    # An imported model does not normalize its own symbols.
    unwritten = unwritten or [symbol for symbol in model.symbols if {*symbol} & {" ", SPACE_MARK, ESCAPE}]
    if unwritten or model.has_space_after:
        what = f"a symbol like {format_quoted(unwritten[0])}" if unwritten else "its space after words"
        raise ConfigError(
            f"a SentencePiece model with {what} cannot be written as `tokenizer.json`",
            "tokenize the text with SentencePiece",
        )


def _pieces(
    model: SentencePieceModel, names: Sequence[str], normalizers: Sequence[Table], shown: Sequence[str] | None = None
) -> Table:
    """Returns the normalizer, pre-tokenizer and model; `shown` are the names that can occur in a text."""
    shown = names if shown is None else shown
    spaced = [_replace(" ", SPACE_MARK)]
    if model.adds_space:
        spaced.append({"type": "Prepend", "prepend": SPACE_MARK})
    unigram = model.algorithm == "unigram"
    hidden = (_unknown_in_names if unigram else _names_after_symbols)(model, shown)
    if unigram and hidden and not model.byte_ids:
        spaced.append(_replace(hidden, _NOWHERE, regex=True))
        hidden = ""
    table: Table = {
        "normalizer": _sequence("normalizers", [*normalizers, *spaced]),
        "pre_tokenizer": None,
        "model": _unigram_pieces(model, names) if unigram else _bpe_pieces(model, names),
    }
    if pattern := "|".join(filter(None, (_make_alternation(model.symbols), hidden))):
        table["pre_tokenizer"] = {
            "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False,
        }  # fmt: skip
    return table


def _decoders(model: SentencePieceModel) -> list[Table]:
    """Returns the decoders that turn pieces into text."""
    decoders = [_replace(SPACE_MARK, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
    if model.removes_spaces:
        decoders.append(_replace("^ +", "", regex=True))
    elif model.adds_space:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return decoders


def _list_normalizers(model: SentencePieceModel) -> list[Table]:
    """Returns the normalizers that SentencePiece applies to a text before it segments the text."""
    parts = [_character_map(model.character_map)] if model.character_map else []
    if parts and "nfkc" in model.normalizer:  # the library leaves some letters uncomposed that the table composes
        parts.append({"type": "NFKC"})
    return [*parts, *_make_space_rules(" ")] if model.removes_spaces else parts


def _normalization(form: str) -> list[Table]:
    """Returns normalizers equal to two rounds of normalize(); only text that no keyboard writes needs more."""
    if form == "none":
        return []
    if form == "nmt_nfkc":
        # The library applies such a table to one grapheme at a time, and leaves some letters uncomposed.
        return [_character_map(nmt_nfkc_map()), {"type": "NFKC"}, *_make_space_rules(" ")]
    once = [_replace(make_invisible_pattern().pattern, "", regex=True), {"type": "NFC"}]
    return [_replace(SPACE_MARK, " "), *once, *once, *_make_space_rules(SPACES)]


def _make_space_rules(characters: str) -> list[Table]:
    """Returns rules that replace each run of the characters by one space, and remove spaces at both ends."""
    return [_replace(f"[{characters}]+", " ", regex=True), _replace("^ +| +$", "", regex=True)]


def _character_map(table: bytes) -> Table:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode("ascii")}


def _bpe_pieces(model: SentencePieceModel, names: Sequence[str]) -> Table:
    """Returns a BPE model with the merges in SentencePiece's order: by the scores of the merged pieces.

    SentencePiece merges any two neighbors whose concatenation is a piece; so each piece has one merge for every way to
    split it into two pieces.
    """
    vocab = {name: i for i, name in enumerate(names)}
    ordered = sorted(model.ids, key=lambda piece: (-model.scores[piece], model.ids[piece]))
    merges = [
        [piece[:place], piece[place:]]
        for piece in ordered
        for place in range(1, len(piece))
        if piece[:place] in model.ids and piece[place:] in model.ids
    ]
    # A symbol is isolated, and no merges produce it: it is looked up whole. So is a text that equals a piece, which the
    # merges would produce anyway.
    whole = bool(model.symbols)
    unknown = names[model.unk_id]
    return _bpe(vocab, merges, unknown, byte_fallback=bool(model.byte_ids), fuse_unk=True, ignore_merges=whole)


def _unigram_pieces(model: SentencePieceModel, names: Sequence[str]) -> Table:
    """Returns a unigram model of the pieces and their scores. Tokens that are not text pieces have so low a score that
    text never becomes one of them; symbols, which are isolated before, always match.
    """
    lowest = min(model.scores.values(), default=0.0)
    never = (max(map(len, names)) + 1) * min(lowest, -1.0)
    of_text = model.scores | dict.fromkeys(model.symbols, 0.0)
    ids = model.ids | model.symbols
    scores = [[name, of_text[name] if ids.get(name) == i else never] for i, name in enumerate(names)]
    return {"type": "Unigram", "unk_id": model.unk_id, "vocab": scores, "byte_fallback": bool(model.byte_ids)}


def _unknown_in_names(model: SentencePieceModel, names: Sequence[str]) -> str:
    """Returns the pattern of characters without a piece, at places where text spells a special token or a byte.

    Although such a token is improbable, the model would choose it there, since unknown characters are less probable
    still. Splitting the text at such a character, or replacing it by another unknown character, prevents this. No piece
    contains the character, so nothing else changes.
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


def _names_after_symbols(model: SentencePieceModel, names: Sequence[str]) -> str:
    """Returns the pattern of beginnings that keep text from being looked up whole as a special token or a byte.

    Only text right after a symbol can be spelled like one: all other text begins with a space.
    """
    if not model.symbols:
        return ""
    found = []
    for spelling in _spellings_of_no_text(model, names):
        # Split where nothing would have been merged: neither into a piece nor into one unknown token.
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
    return f"(?<={_make_alternation(model.symbols)})(?:{'|'.join(found)})"


def _spellings_of_no_text(model: SentencePieceModel, names: Sequence[str]) -> list[list[str]]:
    """Returns the characters of each token that is not a text piece; a string of several is a set of alternatives."""
    ids = model.ids | model.symbols
    spellings = [list(name) for i, name in enumerate(names) if ids.get(name) != i and i not in model.byte_ids]
    return [*spellings, ["<", "0", "x", _HEX, _HEX, ">"]] if model.byte_ids else spellings


def _make_alternation(symbols: Iterable[str]) -> str:
    """Returns the pattern of all symbols, longest first, so that the longest match wins."""
    # JavaScript has no escaped hyphen outside a class.
    return "|".join(re.escape(symbol).replace("\\-", "-") for symbol in sorted(symbols, key=len, reverse=True))
