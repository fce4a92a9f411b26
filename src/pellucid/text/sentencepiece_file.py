"""Reads the pieces of a SentencePiece model from its file, with types and algorithm, which its API does not provide."""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import error as StructError
from struct import pack, unpack
from typing import Any

from pellucid.errors import CheckpointError

_ALGORITHMS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
MALFORMED = (TypeError, ValueError, LookupError, AttributeError, StopIteration, StructError)
"""The errors raised by reading fields of wrong types."""
_NORMAL, _UNKNOWN, _USER_DEFINED, _BYTE = 1, 2, 4, 6  # types of a piece
_UNKNOWN_AS = " \u2047 "  # the default of the settings


@dataclass(frozen=True)
class SentencePieceVocab:
    """The pieces into which a model segments a text, without control symbols (begin, end) and unused pieces."""

    algorithm: str
    """unigram, bpe, word or char."""
    ids: dict[str, int]
    """The id of each piece."""
    scores: dict[str, float]
    """The log-probability of each piece (unigram), or a number that is higher the earlier it is merged (bpe)."""
    symbols: dict[str, int]
    """User-defined symbols, which are neither split nor merged, and their ids."""
    byte_ids: tuple[int, ...]
    """The ids of the 256 bytes for byte fallback; if empty, an unknown character becomes `unk_id`."""
    unk_id: int

    def get_ids(self, piece: str) -> tuple[int, ...]:
        """Returns the id of a piece, or the ids of the bytes of an unknown character."""
        known = self.ids.get(piece)
        if known is not None:
            return (known,)
        return tuple(self.byte_ids[byte] for byte in piece.encode()) if self.byte_ids else (self.unk_id,)


@dataclass(frozen=True)
class SentencePieceModel(SentencePieceVocab):
    """A complete model: its pieces, and its preprocessing of a text."""

    unknown_as: str
    """The text to which the unknown piece decodes."""
    normalizer: str
    """The name of its normalization, such as nmt_nfkc."""
    character_map: bytes
    """The compiled character map of its normalization; empty if there is none."""
    adds_space: bool
    """True if a space is added to a text before it is segmented."""
    has_space_after: bool
    """True if that space, and the space of each word, follows instead of precedes."""
    removes_spaces: bool
    """True if leading, trailing and repeated spaces are removed."""


def read_pieces(proto: bytes) -> SentencePieceVocab:
    """Returns the pieces in the bytes of a model.

    Raises CheckpointError if they cannot be read: SentencePiece, which must have loaded them before, ignores fields of
    a wrong type.

    Source: SentencePiece's `sentencepiece_model.proto`. Field 1 of the message ModelProto is a piece (its field 1 the
    text, 2 the score, 3 the type), field 2 the settings of the training (3 the algorithm, 24 whether a word's space
    follows it, 35 the byte fallback, 44 the text of the unknown piece), field 3 the settings of the normalization (1
    its name, 2 its table, 3 the space before a text, 4 whether spaces are removed).
    """
    return read_model(proto)


def read_model(proto: bytes) -> SentencePieceModel:
    """Returns the complete model from its bytes; argument and errors are as in read_pieces()."""
    try:
        return _model(proto)
    except MALFORMED as error:
        raise make_damaged_error() from error


def make_damaged_error() -> CheckpointError:
    """Returns the error for a SentencePiece model with damage in fields that SentencePiece itself ignores."""
    return CheckpointError("the SentencePiece model is damaged: its fields cannot be read", "copy the file again")


def _model(proto: bytes) -> SentencePieceModel:
    found: dict[int, dict[str, int]] = {_NORMAL: {}, _UNKNOWN: {}, _USER_DEFINED: {}, _BYTE: {}}
    scores: dict[str, float] = {}
    settings: dict[int, Any] = {}
    normal: dict[int, Any] = {}
    place = 0
    for number, value in fields(proto):
        if number == 1:
            piece = dict(fields(value))
            text, kind = piece[1].decode("utf-8"), piece.get(3, _NORMAL)
            found.setdefault(kind, {})[text] = place
            if kind == _NORMAL:
                scores[text] = unpack("<f", piece.get(2, bytes(4)))[0]
            place += 1
        elif number == 2:
            settings = dict(fields(value))
        elif number == 3:
            normal = dict(fields(value))
    return SentencePieceModel(
        algorithm=_ALGORITHMS[settings.get(3, 1)],
        ids=found[_NORMAL],
        scores=scores,
        symbols=found[_USER_DEFINED],
        byte_ids=tuple(found[_BYTE][f"<0x{byte:02X}>"] for byte in range(256)) if settings.get(35) else (),
        unk_id=next(iter(found[_UNKNOWN].values())),
        unknown_as=settings.get(44, _UNKNOWN_AS.encode()).decode("utf-8"),
        normalizer=normal.get(1, b"").decode("utf-8", "replace"),
        character_map=normal.get(2, b""),
        adds_space=bool(normal.get(3, 1)),
        has_space_after=bool(settings.get(24, 0)),
        removes_spaces=bool(normal.get(4, 1)),
    )


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yields the numbered fields of a message in Protocol Buffers' wire format: integers as int, others as bytes."""
    place = 0
    while place < len(message):
        key, place = _number(message, place)
        if key & 7 == 0:
            value, place = _number(message, place)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(key & 7)
        if size is None:
            size, place = _number(message, place)
        yield key >> 3, message[place : place + size]
        place += size


def message(number: int, value: bytes | int) -> bytes:
    """Returns the encoded field `number` with an integer, a text or a message as its value, as fields() reads it."""
    if isinstance(value, int):
        return _write_varint(number << 3) + _write_varint(value)
    return _write_varint(number << 3 | 2) + _write_varint(len(value)) + value


def piece_message(text: str, score: float, *, is_symbol: bool = False) -> bytes:
    """Returns a new piece to append to the bytes of a model: field 1 of ModelProto, see read_pieces()."""
    number = b"\x15" + pack("<f", score)  # field 2, in four bytes
    return message(1, message(1, text.encode()) + number + message(3, _USER_DEFINED if is_symbol else _NORMAL))


def _write_varint(number: int) -> bytes:
    """Returns a number as a varint: groups of seven bits, the lowest first."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def _number(message: bytes, place: int) -> tuple[int, int]:
    """Returns the varint that starts at `place` (seven bits per byte, the lowest first), and the index after it."""
    number = shift = 0
    while message[place] & 0x80:
        number |= (message[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return number | message[place] << shift, place + 1
