"""Zip archives of Moses files, as in OPUS: two members, `NAME.de-en.de` and `NAME.de-en.en`, parallel line by line.

Members are paired by the name before the ending. If several pairs fit, none is used: one could be the test set of
another.
"""

import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from pellucid.config.data import OnBadUtf8
from pellucid.data.issues import IssueCallback
from pellucid.data.lines import check_text_file, decode_line, note_bytes, read_raw_lines
from pellucid.errors import DataError, format_list, format_value
from pellucid.files.budget import MOST_MEMBERS

BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError, OSError,
)  # fmt: skip
"""The errors of a damaged archive, for all compression methods; OSError is bzip2's."""
NAME_ENDINGS = 'select the endings of source and target with `data.jsonl_keys`, as in ["de", "en"]'
WRAPPERS = (".txt", ".gz", ".zst")
"""Endings after the language's."""

_NAMED = re.compile(r"\.([\w]+(?:_\w+)?)-([\w]+(?:_\w+)?)$")
_MISSING = "\n"
"""Represents a line that is missing in the shorter member; no line is equal to it."""


@dataclass(frozen=True)
class _ZipMember:
    name: str
    stem: str
    ending: str


def read_zip(
    path: str, keys: Sequence[str], named: bool, on_bad_utf8: OnBadUtf8, note: IssueCallback, skip: int = 0
) -> Iterator[tuple[str | None, str | None]]:
    """Yields the lines of two members in pairs, after the first `skip`; for monolingual text each line twice.

    Args:
        keys: the endings of source and target, used if `named` is true; else names such as `X.de-en.de` determine the
            languages.
        note: is called for lines that are not UTF-8, and for members that are not read.

    Raises DataError if no members or several pairs of members fit, if their numbers of lines differ, and for a damaged
    archive.
    """
    try:
        with zipfile.ZipFile(check_text_file(Path(path))) as archive:
            chosen = _choose(archive, keys, named, path)
            if not skip:
                _note_others(archive, chosen, path, note)
            yield from _side_by_side(archive, chosen, path, on_bad_utf8, note, skip)
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's, not bzip2's
            raise
        raise DataError(
            f"`{format_value(path)}` is a damaged or encrypted zip file: {error}", "download it again"
        ) from error


def _side_by_side(
    archive: zipfile.ZipFile, names: Sequence[str], path: str, on_bad_utf8: OnBadUtf8, note: IssueCallback, skip: int
) -> Iterator[tuple[str | None, str | None]]:
    counts, told = [skip] * len(names), note_bytes(path, note)

    def lines(side: int) -> Iterator[str | None]:
        inside = f"{path}/{names[side]}"
        with archive.open(names[side]) as member:
            for raw in read_raw_lines(cast(BinaryIO, member), inside, skip=skip):
                counts[side] += 1
                yield decode_line(raw, counts[side], inside, on_bad_utf8, told)

    for pair in zip_longest(*map(lines, range(len(names))), fillvalue=_MISSING):
        if _MISSING in pair:
            rest = counts.copy()
            for side, name in enumerate(names):
                with archive.open(name) as member:
                    rest[side] = sum(1 for _ in read_raw_lines(cast(BinaryIO, member), name))
            raise DataError(
                f"`{names[0]}` and `{names[1]}` in `{format_value(path)}` must have the same number of lines, but "
                f"have {rest[0]:,} and {rest[1]:,}",
                "download it again",
            )
        yield pair[0], pair[-1]


def _choose(archive: zipfile.ZipFile, keys: Sequence[str], named: bool, path: str) -> list[str]:
    """Returns the members of source and target."""
    infos = [info for info in archive.infolist() if not info.is_dir() and not _is_hidden(info.filename)]
    if len(infos) > MOST_MEMBERS:
        raise DataError(
            f"`{format_value(path)}` has {len(infos):,} members; at most {MOST_MEMBERS:,} are read",
            "unpack it, and name the files to use",
        )
    members = [_member(info.filename) for info in infos]
    pairs = _find_by_endings(members, keys) if named else _find_by_names(members, len(keys))
    if len(pairs) == 1:
        return pairs[0]
    if pairs:
        stems = dict.fromkeys(_member(pair[0]).stem for pair in pairs)
        what = "pairs of texts" if len(keys) > 1 else "texts"
        raise DataError(
            f"`{format_value(path)}` holds {len(pairs):,} {what}, {format_list(stems)}, and it is not clear which of "
            "them to use",
            "unpack it, and name the files to use; several of them as `data.src` and `data.tgt`, or by a .list",
        )
    endings = {member.ending for member in members}
    lacking = [key for key in keys if not any(_has_ending(ending, key) for ending in endings)] if named else []
    missing = (
        f"`{format_value(lacking[0])}`" if lacking else ("two languages" if not named else f"both {format_list(keys)}")
    )
    raise DataError(
        f"`{format_value(path)}` has no member for {missing}; it has "
        f"{format_list(member.name for member in members) or 'none'}",
        NAME_ENDINGS,
    )


def _find_by_endings(members: Sequence[_ZipMember], keys: Sequence[str]) -> list[list[str]]:
    """Returns the pairs of members that have the endings: with the same name, or the only member of each ending."""
    sides = [[member for member in members if _has_ending(member.ending, key)] for key in keys]
    if len(keys) == 1:
        return [[member.name] for member in sides[0]]
    stems: dict[str, list[str]] = {}
    for member in sides[0]:
        stems.setdefault(member.stem, []).append(member.name)
    pairs = [[source, target.name] for target in sides[1] for source in stems.get(target.stem, ())]
    if not pairs and all(len(side) == 1 for side in sides):
        return [[side[0].name for side in sides]]
    return pairs


def _find_by_names(members: Sequence[_ZipMember], count: int) -> list[list[str]]:
    """Returns the pairs of members with names such as `X.de-en.de`, source and target in the order of the name."""
    found: dict[str, dict[str, str]] = {}
    for member in members:
        languages = _NAMED.search(member.stem)
        if languages and member.ending in (code.lower() for code in languages.groups()):
            found.setdefault(member.stem, {})[member.ending] = member.name
    pairs = []
    for stem, texts in found.items():
        languages = _NAMED.search(stem)
        assert languages is not None
        codes = [code.lower() for code in languages.groups()][:count]
        if all(code in texts for code in codes):
            pairs.append([texts[code] for code in codes])
    return pairs


def _note_others(archive: zipfile.ZipFile, chosen: Sequence[str], path: str, note: IssueCallback) -> None:
    others = [name for name in archive.namelist() if name not in chosen and not name.endswith("/")]
    for _ in others:
        note("others", path, 0, f"the members {format_list(others)}" if _ is others[0] else "", "parts")


def _member(name: str) -> _ZipMember:
    plain = name
    while plain.lower().endswith(WRAPPERS):
        plain = plain.rpartition(".")[0]
    stem, _, ending = plain.rpartition(".")
    return _ZipMember(name, stem, ending.lower())


def _has_ending(ending: str, key: str) -> bool:
    return ending.replace("_", "-") == key.lower().replace("_", "-")


def _is_hidden(name: str) -> bool:
    """Returns True if a member is hidden, or was added by macOS."""
    return name.startswith("__MACOSX/") or PurePosixPath(name).name.startswith(".")
