"""Corpora in their files: two files or one, which ones belong together, what is said of a bad line."""

import gzip
import json
import re
from pathlib import Path

import pytest

from pellucid.config import DataConfig
from pellucid.data.issues import IssueKind
from pellucid.data.parallel import END, ParallelText, get_held_out_text, parallel_texts
from pellucid.errors import ConfigError, DataError

SEPARATORS = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"
"""What ends no line here, though it does for str.splitlines()."""


def write(path: Path, data: bytes) -> str:
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def test_two_files_side_by_side(tmp_path: Path) -> None:
    text = ParallelText(write(tmp_path / "a", b"1\n2\n3\n"), write(tmp_path / "b.gz", b"x\ny\n"))
    assert list(text.pairs("error")) == [("1", "x"), ("2", "y"), ("3", END)]
    assert list(text.sources()) == ["1", "2", "3"]


@pytest.mark.parametrize("name", ["x.tsv", "x.TSV.gz"])
def test_columns(tmp_path: Path, name: str) -> None:
    data = f'{SEPARATORS}\tT1\tmore\r\n\n"S2\tT"2"\n'.encode()
    text = ParallelText(write(tmp_path / name, data), "")
    assert list(text.pairs("error")) == [(SEPARATORS, "T1"), ("", ""), ('"S2', 'T"2"')]
    assert list(text.sources()) == [SEPARATORS, "", '"S2']
    (tmp_path / name).write_bytes(b"0\ta\tb\n")
    assert list(ParallelText(text.src, "", tsv_columns=(3, 1)).pairs("error")) == [("b", "0")]


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_objects(tmp_path: Path, name: str) -> None:
    rows = [{"src": SEPARATORS, "tgt": "T"}, {"tgt": "a\nb\r\nc", "src": "🙂", "x": 1}]
    data = "".join(json.dumps(row, ensure_ascii=bool(i)) + "\n" for i, row in enumerate(rows)) + "\n"
    told: list[tuple[IssueKind, str, int, str]] = []
    text = ParallelText(write(tmp_path / name, data.encode()), "")
    found = list(text.pairs("error", lambda *fault: told.append(fault)))
    assert found == [(SEPARATORS, "T"), ("🙂", "a b c"), ("", "")]
    assert told == [("line_break", text.src, 2, "in `tgt`")]


def test_a_dot_goes_into_a_table(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", b'{"translation": {"de": "D", "en": "E"}, "translation.en": "nearer"}\n')
    text = ParallelText(path, "", jsonl_keys=("translation.de", "translation.en"))
    assert list(text.pairs("error")) == [("D", "nearer")]


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("x.tsv", b"alone", "line 2 of `{}` has 1 column, but source and target are columns 1 and 2"),
        ("x.jsonl", b"{", "line 2 of `{}` is not JSON: "),
        ("x.jsonl", b"[" * 10**5, "line 2 of `{}` is not JSON: "),
        ("x.jsonl", b'{"src": "a", "target": "b"}', "line 2 of `{}` has no `tgt`; its keys: `src`, `target`"),
        ("x.jsonl", b'["a", "b"]', 'line 2 of `{}` has no `src`; it is ["a", "b"]'),
        ("x.jsonl", b'{"src": "a", "tgt": null}', "`tgt` in line 2 of `{}` is null, not a string"),
        ("x.jsonl", b'{"src": "a", "tgt": {"en": "b"}}', '`tgt` in line 2 of `{}` is {{"en": "b"}}, not a string'),
        ("x.jsonl", b'{"src": "a", "tgt": "\\udc00"}', "line 2 of `{}` is not Unicode: U+DC00 is a lone surrogate"),
        ("x.jsonl", b'{"src": "a", "tgt": "\xff"}', "`{}` is not UTF-8: line 2, byte 22 is 0xff"),
    ],
)
def test_a_line_that_is_not_of_its_format(tmp_path: Path, name: str, line: bytes, message: str) -> None:
    good = b"a\tb" if name == "x.tsv" else b'{"src": "a", "tgt": "b"}'
    path = write(tmp_path / name, good + b"\n" + line + b"\n")
    pairs = ParallelText(path, "").pairs("error")
    assert next(pairs) == ("a", "b")
    with pytest.raises(DataError, match=f"^{re.escape(message.format(path))}") as error:
        next(pairs)
    assert error.value.hint


def test_half_a_character_may_be_replaced_or_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", b'{"src": "\\ud83d\\ude42", "tgt": "a\\ud83db"}\n')
    assert list(ParallelText(path, "").pairs("replace")) == [("🙂", "a\ufffdb")]
    assert list(ParallelText(path, "").pairs("skip")) == [("🙂", None)]


def sides(**fields: object) -> list[tuple[str, str]]:
    texts = parallel_texts(DataConfig(**fields))  # type: ignore[arg-type]
    return [(text.src, text.tgt) for text in texts]


def test_which_files_belong_together() -> None:
    assert sides(src="a", tgt="b") == [("a", "b")]
    assert sides(src="a.tsv") == [("a.tsv", "")]
    assert sides(src="a.tsv", tgt="b.tsv") == [("a.tsv", "b.tsv")], "two files of lines, whatever they are called"
    assert sides(src=["a", "b"], tgt=["c", "d"]) == [("a", "c"), ("b", "d")]
    assert sides(src=["a.jsonl", "b", "c.tsv", "d"], tgt=["x", "y"]) == [
        ("a.jsonl", ""), ("b", "x"), ("c.tsv", ""), ("d", "y"),
    ]  # fmt: skip
    settings = DataConfig(src="a.tsv", tsv_columns=(2, 3), valid_src="v.jsonl", jsonl_keys=("a", "b"))
    assert parallel_texts(settings)[0].tsv_columns == (2, 3)
    assert get_held_out_text(settings, "valid") == ParallelText("v.jsonl", "", (2, 3), ("a", "b"))
    assert get_held_out_text(settings, "test") is None


NEED = "`data.src=` names {} files that require a target, but `data.tgt=` names {}"
WHOLE = "`data.src=` names `{}` and `data.tgt=` `{}` for it, but `{}` holds both sides"
WEIGHTS = "`data.corpus_weights` ({}) must have one value per corpus ({})"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "`data.src=` is not given"),
        ({"tgt": "b"}, "`data.src=` is not given"),
        ({"src": "a"}, "`data.tgt=` is not given"),
        ({"src": ["a", "b.tsv"]}, "`data.tgt=` is not given"),
        ({"src": ["a", "b"], "tgt": "c"}, NEED.format(2, 1)),
        ({"src": ["a", "b.tsv"], "tgt": ["c", "d", "e"]}, NEED.format(1, 3)),
        ({"src": "a.parquet", "tgt": "b"}, WHOLE.format("a.parquet", "b", "a.parquet")),
        ({"src": ["a", "b"], "tgt": ["c", "d.tmx"]}, WHOLE.format("b", "d.tmx", "d.tmx")),
        ({"src": ["a", "b"], "tgt": ["c", "d"], "corpus_weights": [1.0]}, WEIGHTS.format("[1.0]", 2)),
        ({"src": "a", "tgt": "b", "corpus_weights": [1.0, 2.0]}, WEIGHTS.format("[1.0, 2.0]", 1)),
    ],
)
def test_files_that_do_not_go_together(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$") as error:
        sides(**fields)
    assert error.value.hint


def test_of_folders_one_that_datasets_has_saved_holds_both_sides(tmp_path: Path) -> None:
    saved, plain = tmp_path / "saved", tmp_path / "plain"
    plain.mkdir()
    saved.mkdir()
    (saved / "state.json").write_text("{}")
    assert sides(src=str(plain), tgt="b") == [(str(plain), "b")], "reading it says that it is a folder"
    with pytest.raises(ConfigError, match=re.escape(WHOLE.format(saved, "b", saved))):
        sides(src=str(saved), tgt="b")
