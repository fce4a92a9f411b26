"""Writes the benchmark's corpus of program messages from catalogs."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.slow


def write_catalog(path: Path, messages: dict[str, str]) -> None:
    """Writes a .mo file as GNU gettext does: a head, two tables of lengths and places, and the texts."""
    messages = {"": "Content-Type: text/plain; charset=UTF-8\n"} | messages
    texts = [text.encode() for text in sorted(messages)] + [messages[text].encode() for text in sorted(messages)]
    place, tables, body = 28 + 8 * len(texts), b"", b""
    for text in texts:
        tables += struct.pack("<2I", len(text), place + len(body))
        body += text + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(messages), 28, 28 + 4 * len(texts), 0, place)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + tables + body)


def lines_of(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def test_a_corpus_is_written(
    run_script: Callable[..., Any], script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    catalogs = tmp_path / "catalogs/usr/share/locale/ko/LC_MESSAGES"
    many = {f"Open the file {number}": f"파일 {number} 열기(_O)" for number in range(2100)}
    write_catalog(catalogs / "one.mo", many | {"menu\x04_Save the picture": "그림 저장"})
    write_catalog(catalogs / "two.mo", {"Open THE file 7": "다시", "A new one": "새 것"})
    (catalogs / "broken.mo").write_bytes(b"none")
    found, lines = run_script("program_messages", tmp_path / "catalogs", "--language", "ko", "--out", tmp_path / "out")
    assert found["pairs"] == {"val": 1000, "test": 1000, "train": 102}
    assert found["programs"] == {"one": 2101, "two": 1}
    assert any("broken.mo is left out" in line for line in lines)
    texts = {
        side: [line for part in ("train", "val", "test") for line in lines_of(tmp_path / f"out/{part}.{side}.gz")]
        for side in ("en", "ko")
    }
    pairs = set(zip(texts["en"], texts["ko"], strict=True))
    assert len(pairs) == 2102
    assert ("Save the picture", "그림 저장") in pairs
    assert ("Open the file 7", "파일 7 열기") in pairs
