"""`clean`: what is written, reported and refused; in one piece or not at all."""

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from pellucid.config import DataConfig
from pellucid.data import cleaning
from pellucid.data.cleaning import Cleaned, clean, rules_named
from pellucid.data.pair_checks import Limits
from pellucid.errors import ConfigError, DataError

PAIRS = [(f"der {n}. Hund läuft im Jahr {n + 1700} weg", f"dog number {n} runs off in {n + 1700}") for n in range(60)]
FAULTY = {5: ("", "nothing"), 9: ("ein Hund", "ein Hund"), 20: PAIRS[3], 30: (f"{PAIRS[30][0]} {{{{x", PAIRS[30][1])}
RULES = {5: "empty", 9: "copy", 20: "duplicate", 30: "markup"}
TEXTS = [FAULTY.get(place, pair) for place, pair in enumerate(PAIRS)]
KEPT = [pair for place, pair in enumerate(PAIRS) if place not in FAULTY]


def lines(pairs: list[tuple[str, str]], side: int) -> bytes:
    return "".join(f"{pair[side]}\n" for pair in pairs).encode()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataConfig:
    monkeypatch.chdir(tmp_path)
    Path("a.de").write_bytes(lines(TEXTS, 0))
    Path("a.en").write_bytes(lines(TEXTS, 1))
    return DataConfig(src="a.de", tgt="a.en")


def test_what_is_kept_and_what_is_reported(data: DataConfig) -> None:
    cleaned = clean(data, Path("out"))
    assert Path("out/a.de").read_bytes() == lines(KEPT, 0)
    assert Path("out/a.en").read_bytes() == lines(KEPT, 1)
    assert sorted(os.listdir("out")) == ["a.de", "a.en", "clean.json", "taken-out.tsv"]
    head, *rows = [line.split("\t") for line in Path("out/taken-out.tsv").read_text(encoding="utf-8").splitlines()]
    assert head == ["file", "line", "rule", "detail", "also", "source", "target", "repaired_source", "repaired_target"]
    assert [(row[0], int(row[1]) - 1, row[2]) for row in rows] == [("a.de", at, rule) for at, rule in RULES.items()]
    assert rows[2][3:] == ["as line 4", "", *PAIRS[3], "", ""]
    record = json.loads(Path("out/clean.json").read_text(encoding="utf-8"))
    assert (record["pairs"], record["kept"], record["taken_out"]) == (60, 56, dict.fromkeys(RULES.values(), 1))
    assert cleaned.to_text() == (
        "60 pairs in `a.de` and `a.en`\n"
        "  1  empty: empty side\n  1  copy: target equal to source\n  1  duplicate: duplicate pair\n"
        "  1  markup: markup\n56 kept (93.3 %), 4 removed; `out/taken-out.tsv` lists them with the reasons"
    )


def test_twice_is_the_same_and_clean_text_stays_clean(data: DataConfig) -> None:
    clean(data, Path("one"))
    clean(data, Path("two"))
    for name in ("a.de", "a.en", "taken-out.tsv", "clean.json"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()
    again = clean(DataConfig(src="one/a.de", tgt="one/a.en"), Path("three"))
    assert again.taken_out == 0
    assert again.to_text().endswith("56 kept (100.0 %), 0 removed")


def _zstd(name: str) -> Callable[[bytes], bytes]:
    from pellucid.files.compression import zstd

    found: Callable[[bytes], bytes] = getattr(zstd(), name)
    return found


@pytest.mark.parametrize(
    ("ending", "compress", "decompress"),
    [
        (".gz", gzip.compress, gzip.decompress),
        pytest.param(
            ".zst", lambda data: _zstd("compress")(data), lambda data: _zstd("decompress")(data),
            marks=pytest.mark.foreign,
        ),
    ],
    ids=["gzip", "zstd"],
)  # fmt: skip
def test_what_is_compressed_stays_so_and_equal_texts_are_equal_files(
    data: DataConfig, ending: str, compress: Callable[[bytes], bytes], decompress: Callable[[bytes], bytes]
) -> None:
    Path(f"a.de{ending}").write_bytes(compress(lines(TEXTS, 0)))
    given = replace(data, src=f"a.de{ending}")
    clean(given, Path("one"))
    clean(given, Path("two"))
    assert decompress(Path(f"one/a.de{ending}").read_bytes()) == lines(KEPT, 0)
    assert Path(f"one/a.de{ending}").read_bytes() == Path(f"two/a.de{ending}").read_bytes()
    assert Path("one/a.en").read_bytes() == lines(KEPT, 1)


def test_a_table_keeps_its_other_columns_and_an_object_its_keys(data: DataConfig) -> None:
    Path("a.tsv").write_bytes("".join(f"{n}\t{s}\t{t}\tx\n" for n, (s, t) in enumerate(TEXTS)).encode())
    Path("b.jsonl").write_bytes(
        "".join(json.dumps({"src": s + " b", "tgt": t + " b", "score": 1.5}) + "\n" for s, t in PAIRS).encode()
    )
    cleaned = clean(replace(data, src=("a.tsv", "b.jsonl"), tgt="", tsv_columns=(2, 3)), Path("out"))
    assert cleaned.taken_out == 4
    rows = Path("out/a.tsv").read_text(encoding="utf-8").splitlines()
    assert rows == [f"{n}\t{s}\t{t}\tx" for n, (s, t) in enumerate(TEXTS) if n not in FAULTY]
    assert Path("out/b.jsonl").read_bytes() == Path("b.jsonl").read_bytes()


def test_a_pair_of_an_earlier_corpus_is_a_duplicate(data: DataConfig) -> None:
    Path("b.de").write_bytes(lines(PAIRS[:4], 0))
    Path("b.en").write_bytes(lines(PAIRS[:4], 1))
    cleaned = clean(replace(data, src=("a.de", "b.de"), tgt=("a.en", "b.en")), Path("out"))
    assert cleaned.counts["duplicate"] == 5
    assert Path("out/b.de").read_bytes() == b""
    assert "b.de\t1\tduplicate\tas line 1 of `a.de`" in Path("out/taken-out.tsv").read_text(encoding="utf-8")


def test_rules_are_chosen_and_limits_given(data: DataConfig) -> None:
    assert clean(data, None, rules=rules_named(["copy,empty"])).first == {"copy": 1, "empty": 1}
    assert clean(data, None, limits=Limits(max_words=5)).counts["too_long"] == 58
    with pytest.raises(ConfigError, match=r"there is no rule `copies`; did you mean `copy`\?"):
        rules_named(["empty", "copies"])


def test_labels_and_lines_alone(data: DataConfig) -> None:
    Path("label").write_bytes(b"".join(b"%d\n" % (n % 2) for n in range(60)))
    labelled = clean(replace(data, tgt="label"), None, task="classify")
    assert labelled.first == {"empty": 1, "markup": 1}, (
        "a label is not a copy, a short translation, or a line of few letters"
    )
    alone = clean(replace(data, tgt=""), Path("out"), task="generate")
    assert alone.first == {"empty": 1, "duplicate": 1, "markup": 1}
    assert Path("out/a.de").read_bytes() == lines([p for n, p in enumerate(TEXTS) if n not in (5, 20, 30)], 0)
    with pytest.raises(ConfigError, match="a continuous text has no lines"):
        clean(replace(data, tgt="", text="continuous"), None, task="generate")


def test_a_dry_run_writes_the_report_alone(data: DataConfig) -> None:
    cleaned = clean(data, None, report="why.jsonl")
    assert cleaned.kept == 56
    rows = [json.loads(line) for line in Path("why.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["rule"] for row in rows] == list(RULES.values())
    assert rows[0] == {"file": "a.de", "line": 6, "rule": "empty", "detail": "", "also": "", "source": "",
                       "target": "nothing", "repaired_source": "", "repaired_target": ""}  # fmt: skip
    assert sorted(os.listdir()) == ["a.de", "a.en", "why.jsonl"]


def test_a_report_has_a_row_a_pair_whatever_is_in_it(data: DataConfig) -> None:
    Path("a.de").write_bytes(
        lines([(r"a\b" + "\tc\rd\x1b \xff", "x") if n == 5 else p for n, p in enumerate(TEXTS)], 0)
    )
    clean(data, None, report="why.tsv")
    rows = Path("why.tsv").read_bytes().decode().split("\n")
    assert len(rows) == 6
    assert rows[1].split("\t")[5] == "a\\\\b\\tc\\rd\x1b ÿ"


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, DataError("no")])
def test_what_is_stopped_leaves_nothing(data: DataConfig, monkeypatch: pytest.MonkeyPatch, stopped: Any) -> None:
    def stop(*arguments: object) -> None:
        raise stopped

    monkeypatch.setattr(cleaning, "inspect_corpus", stop)
    with pytest.raises((KeyboardInterrupt, DataError)):
        clean(data, Path("out"))
    assert sorted(os.listdir()) == ["a.de", "a.en"]


def test_nothing_is_written_over(data: DataConfig) -> None:
    clean(data, Path("out"))
    with pytest.raises(ConfigError, match=r"`out/a\.de` already exists"):
        clean(data, Path("out"))
    before = Path("out/a.de").read_bytes()
    clean(data, Path("out"), fresh=True)
    assert Path("out/a.de").read_bytes() == before
    for fresh in (True, False):
        with pytest.raises(ConfigError, match=r"`a\.de` would be written over itself"):
            clean(data, Path(), fresh=fresh)
        with pytest.raises(ConfigError, match=r"`a\.en` would be written over itself"):
            clean(data, None, report="a.en", fresh=fresh)
    Path("b").mkdir()
    Path("b/a.de").write_bytes(b"x\n")
    Path("b/a.en").write_bytes(b"y\n")
    with pytest.raises(ConfigError, match=r"`new/a\.de` would be written twice"):
        clean(replace(data, src=("a.de", "b/a.de"), tgt=("a.en", "b/a.en")), Path("new"))
    assert not Path("new").exists()


def test_one_writer(data: DataConfig) -> None:
    Path("out").mkdir()
    with FileLock("out/.clean.lock"), pytest.raises(ConfigError, match="another process is cleaning into `out`"):
        clean(data, Path("out"))


def test_texts_that_do_not_belong_together_are_refused(data: DataConfig) -> None:
    Path("a.en").write_bytes(lines(TEXTS, 1) + b"one more\n")
    with pytest.raises(DataError, match="must have the same number of lines"):
        clean(data, Path("out"))
    assert not Path("out").exists()


def test_shifted_lines_are_refused_unless_they_are_not_looked_for(data: DataConfig) -> None:
    sizes = [3 + (n * 7919) % 40 for n in range(400)]
    Path("a.de").write_text("".join(f"{'ab' * size} {n}\n" for n, size in enumerate(sizes)), encoding="utf-8")
    shifted = [*sizes[:100], *sizes[101:300], 9, *sizes[300:]]
    Path("a.en").write_text("".join(f"{'cd' * size} {n}\n" for n, size in enumerate(shifted)), encoding="utf-8")
    with pytest.raises(DataError, match="lines that do not belong together") as caught:
        clean(data, None)
    assert "skip the rule shift" in caught.value.hint
    assert clean(data, None, rules=rules_named(["copy"])).kept == 400


def test_a_pipe_cannot_be_read_twice(data: DataConfig) -> None:
    os.mkfifo("pipe")
    with pytest.raises(DataError, match="`pipe` is not a regular file, and cleaning reads it twice"):
        clean(replace(data, src="pipe"), None)


def test_an_empty_text_is_told(data: DataConfig) -> None:
    for name in ("a.de", "a.en"):
        Path(name).write_bytes(b"")
    with pytest.raises(DataError, match=r"`a\.de` and `a\.en` are empty"):
        clean(data, Path("out"))
    assert Cleaned("`x`").to_text() == "0 pairs in `x`\n0 kept, 0 removed"


def test_what_can_be_repaired_is_kept_with_an_account(data: DataConfig) -> None:
    """Repaired pairs are judged again: one is a copy of another then, and is taken out."""
    texts = list(PAIRS)
    texts[7] = f"<b>{PAIRS[7][0]}</b>", f"{PAIRS[7][1]}. https://a.example"
    texts[8] = PAIRS[8][0].encode().decode("latin-1"), PAIRS[8][1]
    texts[9] = f"<i>{PAIRS[3][0]}</i>", PAIRS[3][1]
    Path("a.de").write_bytes(lines(texts, 0))
    Path("a.en").write_bytes(lines(texts, 1))
    cleaned = clean(data, Path("out"))
    assert cleaned.to_text() == (
        "60 pairs in `a.de` and `a.en`\nrepaired:\n"
        "  1  mojibake: UTF-8 encoded twice, as Ã¼ for ü\n  1  markup: markup\n"
        "  1  address: addresses, on one side only or as the whole line\n"
        "removed:\n  1  duplicate: duplicate pair\n"
        "59 kept (98.3 %), of which 2 repaired, 1 removed; `out/taken-out.tsv` lists them with the reasons"
    )
    rows = [line.split("\t") for line in Path("out/taken-out.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    assert rows == [
        ["a.de", "8", "markup", "repaired", "address", *texts[7], PAIRS[7][0], f"{PAIRS[7][1]}."],
        ["a.de", "9", "mojibake", "repaired", "", *texts[8], *PAIRS[8]],
        ["a.de", "10", "duplicate", "as line 4", "", *texts[9], "", ""],
    ]
    again = clean(DataConfig(src="out/a.de", tgt="out/a.en"), None)
    assert (again.kept, again.repaired_pairs) == (59, 0)
    assert clean(data, None, repair=False).taken_out == 3
    assert clean(data, None, rules=rules_named(["copy"])).kept == 60, "nothing is repaired that is not looked for"


def test_a_row_keeps_its_other_columns_where_a_side_is_repaired(data: DataConfig) -> None:
    Path("a.tsv").write_text("".join(f"{n}\t<b>{s}</b>\t{t}\tx\n" for n, (s, t) in enumerate(PAIRS[:3])))
    rows = [{"score": n, "pair": {"de": f"{s} &amp;", "en": f"{t} &amp;"}} for n, (s, t) in enumerate(PAIRS[3:6])]
    Path("b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = replace(data, src=("a.tsv", "b.jsonl"), tgt="", tsv_columns=(2, 3), jsonl_keys=("pair.de", "pair.en"))
    assert clean(given, Path("out")).repaired == {"markup": 6}
    assert Path("out/a.tsv").read_text(encoding="utf-8") == "".join(
        f"{n}\t{s}\t{t}\tx\n" for n, (s, t) in enumerate(PAIRS[:3])
    )
    written = [json.loads(line) for line in Path("out/b.jsonl").read_text(encoding="utf-8").splitlines()]
    assert written == [
        {"score": n, "pair": {"de": f"{s} &", "en": f"{t} &"}} for n, (s, t) in enumerate(PAIRS[3:6])
    ]  # fmt: skip


def test_tags_that_belong_to_the_text_stay_and_entities_do_not(data: DataConfig) -> None:
    texts = [(f"<b>{s}</b> &amp; x", f"<b>{t}</b> &amp; x") for s, t in PAIRS]
    texts[4] = f"<b>{PAIRS[4][0]}</b> {{{{", PAIRS[4][1]
    Path("a.de").write_bytes(lines(texts, 0))
    Path("a.en").write_bytes(lines(texts, 1))
    cleaned = clean(data, Path("out"))
    assert (cleaned.repaired, cleaned.first) == ({"markup": 59}, {"markup": 1})
    assert "98 % of them have the same tags on both sides; these tags are kept" in cleaned.to_text()
    assert Path("out/a.de").read_text(encoding="utf-8").splitlines()[0] == f"<b>{PAIRS[0][0]}</b> & x"


def test_a_container_is_written_as_json_lines(data: DataConfig) -> None:
    units = "".join(
        f"<tu><tuv xml:lang='de'><seg>{s}</seg></tuv><tuv xml:lang='en'><seg>{t}</seg></tuv></tu>" for s, t in PAIRS[:9]
    )
    Path("a.tmx").write_text(f"<tmx version='1.4'><header srclang='de'/><body>{units}</body></tmx>", encoding="utf-8")
    cleaned = clean(replace(data, src="a.tmx", tgt="", jsonl_keys=("de", "en")), Path("out"))
    assert sorted(os.listdir("out")) == ["a.tmx.jsonl", "clean.json", "taken-out.tsv"]
    again = clean(DataConfig(src="out/a.tmx.jsonl"), Path("again"))
    assert (cleaned.kept, again.kept) == (9, 9)
    rows = [json.loads(line) for line in Path("again/a.tmx.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows == [{"src": s, "tgt": t} for s, t in PAIRS[:9]]
