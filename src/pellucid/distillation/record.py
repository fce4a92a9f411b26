"""The record of a corpus that models wrote: of what and by which rules it was made, and whether that is still so."""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pellucid.config import DataConfig
from pellucid.data.lines import fingerprint
from pellucid.data.prepare import TEXTS
from pellucid.errors import DataError, quoted
from pellucid.run.start import weights_digest


def read_record(path: Path, format: str, keys: Collection[str]) -> dict[str, Any] | None:
    """Returns the record of a finished corpus, of this format and with these keys; None where there is none, or none
    that can be read.
    """
    with suppress(OSError, ValueError):
        table = json.loads(path.read_text(encoding="utf-8"))
        whole = isinstance(table, dict) and table.get("format") == format and table.keys() >= {*keys, "request"}
        if whole and isinstance(table["request"], dict):
            return table
    return None


def difference(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Returns what differs between two requests, in words; nothing where they ask for the same.

    A teacher or a text that is not there any more is what it was; what an earlier version's record has no line for was
    not asked for.
    """
    if stored.get("ensemble", False) != asked.get("ensemble", False):
        ways = ("an ensemble", "teachers one after the other")
        was, is_now = ways if stored.get("ensemble") else ways[::-1]
        return f"is of {was}, this command names {is_now}"
    for name, now in asked.items():
        if name not in stored and not now:
            continue
        before = stored.get(name)
        if name == "teachers" and isinstance(before, dict):
            if [*before] != [*now]:
                return f"is of `{'`, `'.join(before)}`, this command names `{'`, `'.join(now)}`"
            for teacher, digest in now.items():
                if digest and before[teacher] and digest != before[teacher]:
                    return f"was made when `{teacher}` had other weights"
        elif name in (*TEXTS, "input", "other_input") and isinstance(before, list):
            if len(before) != len(now) or any(a and b and a != b for a, b in zip(before, now, strict=True)):
                return f"was made of another text than this command's `{name}=`"
        elif before != now:
            made = f"with `{name}={quoted(before)}`" if name in stored else f"without `{name}=`"
            return f"was made {made}, this command has `{name}={quoted(now)}`"
    return ""


def is_whole(folder: Path, record: Mapping[str, Any]) -> bool:
    """Tells whether the files are those that the record is of."""
    with suppress(OSError, KeyError, TypeError, DataError):
        known = record["sha256"]  # in which earlier versions had the training texts alone
        return len(known) > 0 and digests_of(folder, record["files"])[: len(known)] == known
    return False


def digests_of(folder: Path, files: Mapping[str, Collection[str]]) -> list[str]:
    """Returns the digests of a corpus' files, those to train on first. Raises DataError for one that is not there."""
    return [fingerprint(folder / name) for part in ("train", "valid") for name in files.get(part, ())]


def digest_of(teacher: Path) -> str:
    """Returns the digest of a teacher's weights; empty for what is not a folder, or not any more."""
    return weights_digest(teacher) if teacher.is_dir() else ""


def digests_of_texts(data: DataConfig) -> dict[str, list[str]]:
    """Returns the digests of all texts that a corpus names, by the setting that names them."""
    return {name: [digest_of_text(path) for path in data.files(name)] for name in TEXTS}


def digest_of_text(path: str) -> str:
    """Returns a text's digest; empty where none is named, or it is not there any more."""
    with suppress(DataError):
        return fingerprint(path) if path else ""
    return ""
