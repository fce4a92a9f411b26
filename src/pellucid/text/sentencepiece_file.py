"""The pieces of a SentencePiece model, read off its file: types and algorithm, which its interface does not tell."""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import error as StructError
from struct import pack, unpack
from typing import Any

from pellucid.errors import CheckpointError

_ALGORITHMS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
MALFORMED = (TypeError, ValueError, LookupError, AttributeError, StopIteration, StructError)
"""The errors that come of reading fields that are not of their types."""
_NORMAL, _UNKNOWN, _USER_DEFINED, _BYTE = 1, 2, 4, 6  # types of a piece
_UNKNOWN_AS = " \u2047 "  # unless the settings say otherwise


@dataclass(frozen=True)
class Pieces:
    """The pieces that a model cuts a text into; begin, end and the like, and unused pieces, are left out."""

    algorithm: str
    """unigram, bpe, word or char."""
    ids: dict[str, int]
    """The id of each piece."""
    scores: dict[str, float]
    """The logarithm of its probability (unigram), or the higher the earlier it is merged (bpe)."""
    symbols: dict[str, int]
    """User-defined symbols, which are neither cut nor merged, and their ids."""
    byte_ids: tuple[int, ...]
    """The ids of the 256 bytes that an unknown character is written in; none: it is written as `unk_id`."""
    unk_id: int

    def ids_of(self, piece: str) -> tuple[int, ...]:
        """Returns one id, or those of the bytes of an unknown character."""
        known = self.ids.get(piece)
        if known is not None:
            return (known,)
        return tuple(self.byte_ids[byte] for byte in piece.encode()) if self.byte_ids else (self.unk_id,)


@dataclass(frozen=True)
class Model(Pieces):
    """A whole model: its pieces, and what it does to a text before it cuts it."""

    unknown_as: str
    """The text that the unknown piece is written as."""
    character_map: bytes
    """The table of characters that normalisation replaces, as SentencePiece compiles it; empty: none."""
    adds_space: bool
    """A text is cut as if a space stood before it."""
    space_behind: bool
    """True where that space, and the one of each word, stands behind it."""
    removes_spaces: bool
    """Spaces around a text and the second of two are dropped."""


def read_pieces(proto: bytes) -> Pieces:
    """Returns the pieces in the bytes of a model.

    Raises CheckpointError where they cannot be read: SentencePiece, which must have loaded them before, passes over
    what is of another type than it should be.

    Source: SentencePiece's `sentencepiece_model.proto`. Field 1 of the message ModelProto is a piece (its field 1 the
    text, 2 the score, 3 the type), field 2 the settings of the training (3 the algorithm, 24 whether a word's space
    stands behind it, 35 the byte fallback, 44 what the unknown piece is written as), field 3 those of the normalisation
    (2 its table, 3 the space before a text, 4 whether spaces are removed).
    """
    return read_model(proto)


def read_model(proto: bytes) -> Model:
    """Returns the model in its bytes, as read_pieces() takes them and with the same errors."""
    try:
        return _model(proto)
    except MALFORMED as error:
        raise unreadable() from error


def unreadable() -> CheckpointError:
    """Returns the error for a SentencePiece model that is damaged where only we look."""
    return CheckpointError("the SentencePiece model is damaged: its fields cannot be read", "copy the file again")


def _model(proto: bytes) -> Model:
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
    return Model(
        algorithm=_ALGORITHMS[settings.get(3, 1)],
        ids=found[_NORMAL],
        scores=scores,
        symbols=found[_USER_DEFINED],
        byte_ids=tuple(found[_BYTE][f"<0x{byte:02X}>"] for byte in range(256)) if settings.get(35) else (),
        unk_id=next(iter(found[_UNKNOWN].values())),
        unknown_as=settings.get(44, _UNKNOWN_AS.encode()).decode("utf-8"),
        character_map=normal.get(2, b""),
        adds_space=bool(normal.get(3, 1)),
        space_behind=bool(settings.get(24, 0)),
        removes_spaces=bool(normal.get(4, 1)),
    )


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yields the numbered fields of a message in Protocol Buffers' wire format: a whole number as int, else bytes."""
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
    """Returns the field `number` with a whole number, or with text or a message in it, as fields() reads it."""
    if isinstance(value, int):
        return _written(number << 3) + _written(value)
    return _written(number << 3 | 2) + _written(len(value)) + value


def piece_message(text: str, score: float, *, is_symbol: bool = False) -> bytes:
    """Returns a further piece of a model, to stand behind its bytes: field 1 of ModelProto, as read_pieces() has it."""
    number = b"\x15" + pack("<f", score)  # field 2, in four bytes
    return message(1, message(1, text.encode()) + number + message(3, _USER_DEFINED if is_symbol else _NORMAL))


def _written(number: int) -> bytes:
    """Returns a number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def _number(message: bytes, place: int) -> tuple[int, int]:
    """Returns the number that starts at `place`, seven bits a byte, the lowest first, and the place behind it."""
    number = shift = 0
    while message[place] & 0x80:
        number |= (message[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return number | message[place] << shift, place + 1
