"""Corpora of a size that a caller chooses, and what reads them: `tests/fuzz/growth.py` doubles the sizes."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

from pellucid.data.lines import read_lines
from pellucid.data.parallel import ParallelText
from pellucid.files.encodings import likely_encodings
from pellucid.files.formats import detect_format

Make = Callable[[Path, int], object]
Read = Callable[[Path], object]


def _text(make: Callable[[int], bytes], name: str) -> Make:
    return lambda folder, size: (folder / name).write_bytes(make(size))


def _pairs(name: str, keys: tuple[str, ...] = ("src", "tgt")) -> Read:
    return lambda folder: [0 for _ in ParallelText(str(folder / name), "", jsonl_keys=keys).pairs("replace") if 0]


def _tmx(body: Callable[[int], str]) -> Callable[[int], bytes]:
    return lambda size: f'<tmx><header srclang="de"/><body>{body(size)}</body></tmx>'.encode()


def _unit(source: str, target: str = "b") -> str:
    return f'<tu><tuv xml:lang="de"><seg>{source}</seg></tuv><tuv xml:lang="en"><seg>{target}</seg></tuv></tu>\n'


def _zip(lines: Callable[[int], str], members: Callable[[int], int] = lambda size: 0) -> Callable[[int], bytes]:
    def make(size: int) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for side in ("de", "en"):
                archive.writestr(f"B.de-en.{side}", lines(size))
            for number in range(members(size)):
                archive.writestr(f"other/{number}.de", "")
        return file.getvalue()

    return make


def _parquet(rows: Callable[[int], list[str]], dictionary: bool) -> Make:
    def make(folder: Path, size: int) -> None:
        import pyarrow
        from pyarrow import parquet

        texts = rows(size)
        parquet.write_table(
            pyarrow.table({"src": texts, "tgt": ["b"] * len(texts)}), folder / "x.parquet", use_dictionary=dictionary
        )

    return make


READERS: dict[str, tuple[int, Make, Read]] = {
    "lines": (
        2_000_000,
        _text(lambda n: b"Ein Hund\n" * (n // 9), "x"),
        lambda f: [0 for _ in read_lines(f / "x") if 0],
    ),
    "one line": (2_000_000, _text(lambda n: b"x " * (n // 2), "x"), lambda f: [0 for _ in read_lines(f / "x") if 0]),
    "gzip lines": (
        2_000_000,
        _text(lambda n: gzip.compress(b"Ein Hund\n" * (n // 9)), "x"),
        lambda f: [0 for _ in read_lines(f / "x") if 0],
    ),
    "TSV": (500_000, _text(lambda n: b"Ein Hund\tA dog\n" * (n // 15), "x.tsv"), _pairs("x.tsv")),
    "TSV, many columns": (500_000, _text(lambda n: (b"a\t" * (n // 20) + b"b\n") * 10, "x.tsv"), _pairs("x.tsv")),
    "TSV, quoted": (500_000, _text(lambda n: b'"' * n + b"\tb\n", "x.tsv"), _pairs("x.tsv")),
    "JSON lines": (500_000, _text(lambda n: b'{"src": "a", "tgt": "b"}\n' * (n // 25), "x.jsonl"), _pairs("x.jsonl")),
    "JSON, many keys": (
        200_000,
        _text(
            lambda n: json.dumps({"src": "a", "tgt": "b"} | {f"k{i}": i for i in range(n // 14)}).encode(), "x.jsonl"
        ),
        _pairs("x.jsonl"),
    ),
    "TMX": (500_000, _text(_tmx(lambda n: _unit("Ein Hund") * (n // 100)), "x.tmx"), _pairs("x.tmx")),
    "TMX, one segment": (500_000, _text(_tmx(lambda n: _unit("x " * (n // 2))), "x.tmx"), _pairs("x.tmx")),
    "TMX, a comment": (500_000, _text(_tmx(lambda n: f"<!--{'x' * n}-->{_unit('a')}"), "x.tmx"), _pairs("x.tmx")),
    "TMX, an attribute": (
        500_000,
        _text(_tmx(lambda n: f'<tu a="{"x" * n}">{_unit("a")[4:]}'), "x.tmx"),
        _pairs("x.tmx"),
    ),
    "TMX, languages": (
        200_000,
        _text(
            _tmx(
                lambda n: (
                    _unit("a").replace(
                        "</tu>", "".join(f'<tuv xml:lang="x-{i}"><seg>c</seg></tuv>' for i in range(n // 40)) + "</tu>"
                    )
                    * 2
                )
            ),
            "x.tmx",
        ),
        _pairs("x.tmx", ("de", "en")),
    ),
    "TMX, undecided": (
        200_000,
        _text(_tmx(lambda n: _unit("a").replace("en", "de") * (n // 100) + _unit("a")), "x.tmx"),
        _pairs("x.tmx"),
    ),
    "TMX, entities": (500_000, _text(_tmx(lambda n: _unit("&nbsp;" * (n // 6))), "x.tmx"), _pairs("x.tmx")),
    "TMX, not XML": (500_000, _text(_tmx(lambda n: _unit("a") * (n // 100) + "&" * n), "x.tmx"), _pairs("x.tmx")),
    "zip": (500_000, _text(_zip(lambda n: "Ein Hund\n" * (n // 9)), "x.zip"), _pairs("x.zip")),
    "zip, members": (2_000, _text(_zip(lambda n: "a\n", lambda n: n), "x.zip"), _pairs("x.zip", ("de", "en"))),
    "Parquet": (20_000, _parquet(lambda n: [f"Ein Hund {i}" for i in range(n)], False), _pairs("x.parquet")),
    "Parquet, one text": (20, _parquet(lambda n: ["x" * (1 << 20)] * n, True), _pairs("x.parquet")),
    "Parquet, long texts": (
        4,
        _parquet(lambda n: [f"{i}" + "x" * (1 << 20) for i in range(n)], False),
        _pairs("x.parquet"),
    ),
    "encodings": (
        500_000,
        _text(lambda n: "한국어 ".encode("cp949") * (n // 7), "x"),
        lambda f: likely_encodings((f / "x").read_bytes()),
    ),
    "formats": (500_000, _text(lambda n: b"<!-- -->" * (n // 8), "x"), lambda f: detect_format(f / "x")),
}
"""By name the first size, what makes the file, and what reads it."""
