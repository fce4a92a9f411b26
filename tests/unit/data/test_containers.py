"""Corpora in other files than lines of text: what comes out is what was put in, and what is wrong is named."""

import gzip
import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.config import DataConfig
from pellucid.data import containers, translation_memory
from pellucid.data.dataset_cache import DatasetCache
from pellucid.data.locate import resolve_paths
from pellucid.data.parallel import ParallelText, parallel_texts
from pellucid.data.prepare import Corpus, open_corpus
from pellucid.errors import DataError

PAIRS = [("Ein Hund", "A dog"), ("Zwei  Züge", "Two trains"), ("", "none"), ("vier", "four")]
HEAD = '<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header srclang="{}"/><body>'


def pairs(path: Path, *, alone: bool = False, skip: int = 0, keys: tuple[str, ...] = ("src", "tgt")) -> list[object]:
    return list(ParallelText(str(path), "", jsonl_keys=keys, alone=alone).pairs("error", skip=skip))


def unit(**sides: str) -> str:
    return "<tu>" + "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in sides.items()) + "</tu>"


def tmx(path: Path, units: list[str], source: str = "de") -> Path:
    text = HEAD.format(source) + "".join(units) + "</body></tmx>"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def moses(path: Path, german: list[str], english: list[str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README", "about")
        for code, lines in (("de", german), ("en", english)):
            archive.writestr(f"Books.de-en.{code}", "".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize("name", ["x.tmx", "X.TMX", "x.tmx.gz"])
def test_a_translation_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / name.replace("X.TMX", "y.TMX")
    tmx(path, [unit(de="Ein Hund", en="A dog"), unit(en="Two", de="Zwei"), unit(de="allein")])
    expected = [("Ein Hund", "A dog"), ("Zwei", "Two"), ("allein", "")]
    assert pairs(path) == expected
    assert pairs(path, skip=1) == expected[1:]
    assert pairs(path, keys=("en", "de")) == [(target, source) for source, target in expected]
    assert pairs(path, alone=True, keys=("en", "de")) == [("A dog",) * 2, ("Two",) * 2, ("",) * 2]


def test_codes_of_other_programs_are_no_text(tmp_path: Path) -> None:
    segment = (
        'Ein <bpt i="1">&lt;b&gt;</bpt>großer<ept i="1">&lt;/b&gt;</ept>\n  <hi>Hund</hi> &amp; <ph x="1">{0}</ph>mehr'
    )
    path = tmx(
        tmp_path / "x.tmx", [f'<tu><tuv lang="de-AT"><seg>{segment}</seg></tuv><tuv lang="EN"><seg>x</seg></tuv></tu>']
    )
    assert pairs(path, keys=("de", "en")) == [("Ein großer Hund & mehr", "x")]


@pytest.mark.parametrize(
    ("units", "source", "message"),
    [
        ([unit(de="a", en="b", fr="c")], "*all*", r"^unit 1 of `.*x.tmx` is in 3 languages \(`de`, `en`, `fr`\)$"),
        ([unit(de="a")], "de", r"^no unit of `.*x.tmx` is in two languages; its languages: `de`$"),
        ([], "de", r"^`.*x.tmx` has no translation unit$"),
        ([unit(de="a", en="b"), "<tu>"], "de", r"^`.*x.tmx` is not XML after unit 1: mismatched tag: line 1, column "),
    ],
)
def test_what_is_wrong_with_a_translation_memory(tmp_path: Path, units: list[str], source: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pairs(tmx(tmp_path / "x.tmx", units, source))


def test_a_language_that_no_unit_has_is_named(tmp_path: Path) -> None:
    path = tmx(tmp_path / "x.tmx", [unit(**{"de-AT": "a", "en": "b"})] * 3)
    message = r"^none of the 3 units of `.*x.tmx` is in `fr`; its languages: `de-at`, `en`$"
    for skip in (0, 2, 3):
        with pytest.raises(DataError, match=message):
            pairs(path, keys=("de", "fr"), skip=skip)
    late = tmx(tmp_path / "y.tmx", [unit(de="a", en="b"), unit(de="c", fr="d")])
    assert pairs(late, keys=("de", "fr")) == [("a", ""), ("c", "d")]


def test_other_xml_and_cut_gzip(tmp_path: Path) -> None:
    (tmp_path / "x.tmx").write_text("<xliff/>", encoding="utf-8")
    with pytest.raises(DataError, match=r"is not TMX: it holds <xliff>$"):
        pairs(tmp_path / "x.tmx")
    whole = tmx(tmp_path / "x.tmx.gz", [unit(de=str(n), en=str(n)) for n in range(9999)])
    whole.write_bytes(whole.read_bytes()[:-4000])
    with pytest.raises(DataError, match=r"is a damaged gzip file after unit \d[\d,]*: "):
        pairs(whole)


def test_a_zip_of_opus(tmp_path: Path) -> None:
    path = moses(tmp_path / "x.zip", [source for source, _ in PAIRS], [target for _, target in PAIRS])
    assert pairs(path) == PAIRS
    assert pairs(path, skip=3) == PAIRS[3:]
    assert pairs(path, keys=("en", "de")) == [(target, source) for source, target in PAIRS]
    assert pairs(path, alone=True) == [(source, source) for source, _ in PAIRS]


def test_what_is_wrong_with_a_zip(tmp_path: Path) -> None:
    path = moses(tmp_path / "x.zip", ["a", "b"], ["c"])
    message = (
        r"^`Books.de-en.de` and `Books.de-en.en` in `.*x.zip` must have the same number of lines, but have 2 and 1$"
    )
    with pytest.raises(DataError, match=message):
        pairs(path)
    with pytest.raises(DataError, match=r"^`.*x.zip` has no member for `fr`; it has `README`, `Books.de-en.de`, "):
        pairs(path, keys=("de", "fr"))
    content = bytearray(moses(path, ["Ein Hund"] * 99, ["A dog"] * 99).read_bytes())
    content[100] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"^`.*x.zip` is a damaged or encrypted zip file: "):
        pairs(path)
    path.write_bytes(b"PK\x03\x04 no more")
    with pytest.raises(DataError, match=r"is a damaged or encrypted zip file"):
        pairs(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("B.de-en.de", b"gut\nschl\xe4cht\n")
        archive.writestr("B.de-en.en", b"good\nbad\n")
    with pytest.raises(DataError, match=r"x.zip/B.de-en.de` is not UTF-8: line 2, byte 5 is 0xe4$"):
        pairs(path)
    assert list(ParallelText(str(path), "").pairs("skip")) == [("gut", "good"), (None, "bad")]


@pytest.mark.parametrize(
    ("source", "units", "expected"),
    [
        ("en-US", [unit(de="a", en="b")], [("b", "a")]),
        ("en-US", [unit(**{"de-DE": "a", "en-GB": "b"})], [("b", "a")]),
        ("eng", [unit(de="a", en="b")], [("b", "a")]),
        ("*all*", ['<tu srclang="en">' + unit(de="a", en="b").removeprefix("<tu>")], [("b", "a")]),
        ("de", [unit(de="a"), unit(en="b", de="c")], [("a", ""), ("c", "b")]),
        ("de", [unit(**{"de": "a", "zh-Hans": "x"}), unit(**{"de": "b", "zh-CN": "y"})], [("a", "x"), ("b", "y")]),
    ],
)
def test_the_head_tells_source_and_target_whatever_region_it_names(
    tmp_path: Path, source: str, units: list[str], expected: list[object]
) -> None:
    assert pairs(tmx(tmp_path / "x.tmx", units, source)) == expected


@pytest.mark.parametrize(
    ("keys", "code"),
    [(("en-US", "de"), "en"), (("en", "de"), "en-us"), (("zh-CN", "de"), "zh-Hans"), (("zh", "de"), "zh-TW")],
)
def test_a_code_that_says_more_or_less_is_the_same_language(tmp_path: Path, keys: tuple[str, str], code: str) -> None:
    assert pairs(tmx(tmp_path / "x.tmx", [unit(**{"de": "a", code: "b"})]), keys=keys) == [("b", "a")]


def test_another_region_is_not_taken_for_the_one_that_is_asked_for(tmp_path: Path) -> None:
    path = tmx(tmp_path / "x.tmx", [unit(**{"de": "a", "en-GB": "b"})])
    with pytest.raises(DataError, match=r"is in `en-us`; its languages: `de`, `en-gb`$"):
        pairs(path, keys=("de", "en-US"))
    with pytest.raises(DataError, match=r"declares the source language `fr`, but unit 1 is in `de`, `en-gb`$"):
        pairs(tmx(path, [unit(**{"de": "a", "en-GB": "b"})], "fr"))


def account(path: Path, keys: tuple[str, ...] = ("src", "tgt")) -> list[tuple[str, int, str]]:
    found: list[tuple[str, int, str]] = []

    def note(fault: str, path: str, line: int, detail: str, of: str = "lines") -> None:
        found.append((fault, line, detail))

    list(ParallelText(str(path), "", jsonl_keys=keys).pairs("error", note))
    return found


@pytest.mark.slow
def test_the_account_of_a_translation_memory(tmp_path: Path) -> None:
    units = [
        unit(de="a", en="b", fr="c"),
        '<tu><tuv xml:lang="de">a</tuv><tuv xml:lang="en"><seg>b</seg></tuv></tu>',
        unit(**{"de": "a", "en-US": "x", "en-GB": "y"}),
    ]
    path = tmx(tmp_path / "x.tmx", units)
    assert pairs(path, keys=("de", "en")) == [("a", "b"), ("", "b"), ("a", "x")]
    assert account(path, ("de", "en")) == [
        ("segment", 2, "its `de` has no <seg>"),
        ("variants", 3, "2 texts in `en-us`, `en-gb`"),
        ("others", 0, "the languages `fr`"),
    ]
    assert account(tmx(path, [unit(de="a", en="b")], "*all*")) == [
        ("sides", 0, "its head names no source language; it is `de`, as in unit 1")
    ]
    many = unit(**{f"x-{number}": "c" for number in range(20_000)}, de="a", en="b")
    assert max(len(detail) for _, _, detail in account(tmx(path, [many]), ("de", "en"))) < 200
    with pytest.raises(DataError) as raised:
        pairs(tmx(path, [many]), keys=("de", "it"))
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("EUC-KR", "한국어"), ("GB2312", "中国"), ("Big5", "中國"), ("Shift_JIS", "日本語"), ("euc-jp", "日本語"),
        ("windows-1251", "Привет"), ("koi8-r", "Привет"), ("iso-8859-2", "żółw"), ("UTF-16", "ж"), ("utf-16-le", "ж"),
    ],
)  # fmt: skip
def test_a_memory_in_another_encoding(tmp_path: Path, encoding: str, text: str) -> None:
    xml = HEAD.format("de").replace('"1.0"', f'"1.0" encoding="{encoding}"', 1)
    (tmp_path / "x.tmx").write_bytes(f"{xml}{unit(de=text, en='b')}</body></tmx>".encode(encoding))
    assert pairs(tmp_path / "x.tmx") == [(text, "b")]


@pytest.mark.parametrize("encoding", ["utf-7", "rot13", "hex", "idna", "punycode", "no-such-one", "unicode_escape"])
def test_an_encoding_that_is_none_of_files_is_named(tmp_path: Path, encoding: str) -> None:
    xml = HEAD.format("de").replace('"1.0"', f'"1.0" encoding="{encoding}"', 1)
    (tmp_path / "x.tmx").write_text(f"{xml}{unit(de='a', en='b')}</body></tmx>", encoding="ascii")
    with pytest.raises(DataError, match=rf"is in an encoding that is not known: `{encoding}`$"):
        pairs(tmp_path / "x.tmx")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (b"AT&T", r"is not XML after unit 1: .*invalid token.*: `.*AT&T", "is `&amp;` in XML"),
        (b"a & b", r"is not XML after unit 1: .*invalid token", "is `&amp;` in XML"),
        (b"a&#x1F;b", r"is not XML after unit 1: reference to invalid", "XML has no control characters"),
        (b"a\x0bb", r"is not XML after unit 1: .*invalid token", "XML has no control characters"),
        (b"<b>a", r"is not XML after unit 1: mismatched tag", "as `&lt;` and close each element"),
        (b"&foo;", r"^unit 2 of `.*` has an unknown entity, `&foo;`$", "by its text"),
        (b"sch\xf6n", r"is not UTF-8 after unit 0: a byte is 0xf6$", "it could be cp1252 (Western European)"),
    ],
)
def test_what_is_not_xml_has_its_cause_and_a_way_out(tmp_path: Path, text: bytes, message: str, hint: str) -> None:
    content = f"{HEAD.format('de')}{unit(de='a', en='b')}{unit(de='TEXT', en='b')}</body></tmx>".encode()
    (tmp_path / "x.tmx").write_bytes(content.replace(b"TEXT", text))
    with pytest.raises(DataError, match=message) as raised:
        pairs(tmp_path / "x.tmx")
    assert hint in raised.value.hint


def test_entities_of_html_are_their_characters_and_a_wrong_utf_16_is_read(tmp_path: Path) -> None:
    path = tmx(tmp_path / "x.tmx", [unit(de="caf&eacute;&nbsp;&amp; mehr", en="b")])
    assert pairs(path) == [("café & mehr", "b")]
    path.write_bytes(path.read_bytes().replace(b'"1.0"', b'"1.0" encoding="UTF-16"', 1))
    assert pairs(path) == [("café & mehr", "b")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"<seg>{'<hi>' * 5000}x{'</hi>' * 5000}</seg>", "has more than 100 nested elements"),
        (f"<seg>{'x' * 3000}</seg>", "has a segment of more than 2,000 characters"),
        (f"<seg>{'<!--' + 'x' * 5_000_000 + '-->'}</seg>", "has a tag or a comment of more than 2,000 bytes"),
        ("".join(f"<seg>{'x' * 900}</seg></tuv><tuv xml:lang='a'>" for _ in range(9)), "has a unit of more than 4,000"),
    ],
    ids=["depth", "segment", "comment", "unit"],
)
def test_a_memory_has_a_budget(tmp_path: Path, content: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation_memory, "MOST_TEXT_BYTES", 2000)
    monkeypatch.setattr(translation_memory, "MOST_TOGETHER_BYTES", 4000)
    path = tmx(tmp_path / "x.tmx.gz", [f'<tu><tuv xml:lang="de">{content}</tuv></tu>'])
    with pytest.raises(DataError, match=f"^unit 1 of `.*` {message}"):
        pairs(path)
    (tmp_path / "y.tmx").write_text('<!DOCTYPE tmx [<!ENTITY a "b">]><tmx/>', encoding="ascii")
    with pytest.raises(DataError, match=r"declares an entity, `a`, and entities are not read$"):
        pairs(tmp_path / "y.tmx")


def zipped(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "-").replace("_", "."), text)
    return path


@pytest.mark.parametrize("keys", [("src", "tgt"), ("de", "en")])
def test_members_belong_together_by_their_names(tmp_path: Path, keys: tuple[str, str]) -> None:
    path = zipped(
        tmp_path / "x.zip",
        LICENSE_de="l\n",
        A_de__en_de="a\nb\n",
        A_de__fr_de="c\n",
        A_de__fr_fr="d\n",
        A_de__en_en="e\nf\n",
    )
    if keys == ("src", "tgt"):
        with pytest.raises(
            DataError, match=r"holds 2 pairs of texts, `A.de-en`, `A.de-fr`, and it is not clear which of them to use$"
        ):
            pairs(path)
        return
    assert pairs(path, keys=keys) == [("a", "e"), ("b", "f")]
    assert account(path, keys)[0] == ("others", 0, "the members `LICENSE.de`, `A.de-fr.de`, `A.de-fr.fr`")
    assert len(account(path, keys)) == 3


@pytest.mark.parametrize("stems", [("train", "test"), ("A_de__en", "B_de__en")])
def test_none_of_several_pairs_of_members_is_taken(tmp_path: Path, stems: tuple[str, str]) -> None:
    members = {f"{stem}_{side}": f"{stem} {side}\n" for side in ("de", "en") for stem in stems}
    with pytest.raises(
        DataError, match=r"holds 2 pairs of texts, `.*`, `.*`, and it is not clear which of them to use$"
    ) as raised:
        pairs(zipped(tmp_path / "x.zip", **members), keys=("de", "en"))
    assert "unpack it" in raised.value.hint


def test_two_members_of_other_names_are_a_pair_where_there_is_no_choice(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", Buch_de="a\n", Book_en_txt="b\n")
    assert pairs(path, keys=("de", "en")) == [("a", "b")]
    with pytest.raises(DataError, match=r"has no member for `fr`; it has `Buch.de`, `Book.en.txt`$"):
        pairs(path, keys=("de", "fr"))


@pytest.mark.parametrize("way", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED])
def test_a_damaged_member_is_named_in_a_sentence(tmp_path: Path, way: int) -> None:
    text = "".join(f"{number * 7919 % 1000} Hunde\n" for number in range(3000))
    with zipfile.ZipFile(tmp_path / "x.zip", "w", way) as archive:
        for side in ("de", "en"):
            archive.writestr(f"B.de-en.{side}", text)
    sound, said = (tmp_path / "x.zip").read_bytes(), list[str]()
    for place in range(40, 1000, 120):
        damaged = bytearray(sound)
        damaged[place] ^= 0xFF
        (tmp_path / "x.zip").write_bytes(damaged)
        try:  # a byte of the archive may mean nothing
            pairs(tmp_path / "x.zip")
        except DataError as error:
            said.append(str(error))
    assert any("is a damaged or encrypted zip file: " in each for each in said)


def test_they_are_corpora_as_others_are(tmp_path: Path) -> None:
    many = [(f"{source} {n}", f"{target} {n}") for n in range(20) for source, target in PAIRS]
    zipped = moses(tmp_path / "x.zip", [source for source, _ in many], [target for _, target in many])
    units = tmx(tmp_path / "y.tmx", [unit(de=source, en=target) for source, target in many])
    data = DataConfig(src=(str(zipped), str(units)), corpus_weights=(1, 2), valid_size=5)
    assert [text.tgt for text in parallel_texts(data)] == ["", ""]
    plain, kept = open_corpus(data), open_corpus(data, prepared=DatasetCache(tmp_path / "prepared"))
    assert isinstance(plain, Corpus)
    assert isinstance(kept, Corpus)
    assert list(plain.train()) == list(kept.train())
    assert plain.inspection.counts == (80, 80)
    assert plain.findings == kept.findings


def test_a_list_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.de").write_text("of another corpus\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "elsewhere")
    for name in ("a", "b"):
        for side in ("de", "en"):
            (tmp_path / f"{name}.{side}").write_text(f"{name} {side}\n", encoding="utf-8")
    for side in ("de", "en"):
        (tmp_path / f"all.{side}.list").write_text(
            f"# what there is\na.{side}\n\n{tmp_path}/b.{side}\n", encoding="utf-8"
        )
    data = DataConfig(src=str(tmp_path / "all.de.list"), tgt=str(tmp_path / "all.en.list"))
    found = resolve_paths(data)
    assert found.files("src") == (str(tmp_path / "a.de"), str(tmp_path / "b.de"))
    assert [list(text.pairs("error")) for text in parallel_texts(found)] == [[("a de", "a en")], [("b de", "b en")]]
    (tmp_path / "all.de.list").write_text("\na.de\nc.de\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"^no file `c.de`, listed in line 3 of `{tmp_path / 'all.de.list'}`$"):
        resolve_paths(data)
    (tmp_path / "all.de.list").write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"^`{tmp_path / 'all.de.list'}` lists no file$"):
        resolve_paths(data)


def test_without_the_library_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        DataError, match=r"^reading Parquet files and folders of `datasets` requires the extra `parquet`$"
    ):
        pairs(tmp_path)


@pytest.mark.foreign
class TestColumns:
    def table(self, path: Path, columns: dict[str, list[object]], **options: object) -> Path:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(columns), path, **options)
        return path

    def test_parquet(self, tmp_path: Path) -> None:
        rows = [*PAIRS, ("zwei\nZeilen", "two")] * 3
        columns: dict[str, list[object]] = {
            "id": list(range(15)),
            "src": [s for s, _ in rows],
            "tgt": [t for _, t in rows],
        }
        path = self.table(tmp_path / "x.parquet", columns, row_group_size=4)
        expected = [(source.replace("\n", " "), target) for source, target in rows]
        assert pairs(path) == expected
        for skip in (1, 4, 9, 14, 15):
            assert pairs(path, skip=skip) == expected[skip:]
        assert pairs(path, alone=True, keys=("tgt", "x"))[0] == ("A dog", "A dog")

    def test_columns_of_tables_and_nothing(self, tmp_path: Path) -> None:
        values: list[object] = [{"de": "Hund", "en": "dog"}, None, {"de": None, "en": "x"}]
        path = self.table(tmp_path / "x.parquet", {"translation": values})
        assert pairs(path, keys=("translation.de", "translation.en")) == [("Hund", "dog"), ("", ""), ("", "x")]
        with pytest.raises(DataError, match=r"^the column `translation` of `.*` has no `fr`; its keys: `de`, `en`$"):
            pairs(path, keys=("translation.de", "translation.fr"))

    def test_a_small_file_with_long_texts_stays_small(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(containers, "MOST_TOGETHER_BYTES", 4000)
        monkeypatch.setattr(containers, "MOST_TEXT_BYTES", 2000)
        distinct: list[object] = [f"{number} {'x' * 1000}" for number in range(20)]
        path = self.table(tmp_path / "x.parquet", {"src": distinct, "tgt": ["b"] * 20}, use_dictionary=False)
        sizes = [batch.num_rows for _, batch in containers._parquet_batches(path, ("src", "tgt"), 0)]
        assert max(sizes) <= 4, "rows are counted by their bytes"
        same: list[object] = ["y" * 1500] * 300
        path = self.table(path, {"src": same, "tgt": ["b"] * 300}, compression="zstd")
        _, batch = next(iter(containers._parquet_batches(path, ("src", "tgt"), 0)))
        assert len({id(text) for text in containers.iterate_texts(batch.column(0), "src", 0, path)}) == 1
        with pytest.raises(DataError, match=r"^`src` near row 2 of `.*` has 2,001 bytes; at most 2,000 are read$"):
            pairs(self.table(path, {"src": ["a", "x" * 2001], "tgt": ["b"] * 2}, use_dictionary=False))

    def test_columns_that_are_not_read_are_said(self, tmp_path: Path) -> None:
        columns: dict[str, list[object]] = {f"c{number}": [1] for number in range(3000)}
        path = self.table(tmp_path / "x.parquet", {"src": ["a"], "tgt": ["b"], **columns})
        found = account(path)
        assert len(found) == 3000
        assert found[0] == ("others", 0, f"the columns {', '.join(f'`c{n}`' for n in range(10))} and 2,990 more")
        with pytest.raises(DataError) as raised:
            pairs(path, keys=("de", "en"))
        assert len(str(raised.value)) < 500

    def test_an_arrow_file_outside_its_folder_is_not_read(self, tmp_path: Path) -> None:
        (tmp_path / "set").mkdir()
        (tmp_path / "outside.arrow").write_bytes(b"")
        (tmp_path / "set" / "data.arrow").symlink_to("../outside.arrow")
        state = {"_data_files": [{"filename": "data.arrow"}]}
        (tmp_path / "set" / "state.json").write_text(json.dumps(state), encoding="utf-8")
        with pytest.raises(DataError, match=r"data.arrow` is outside of its folder, at "):
            pairs(tmp_path / "set")

    def test_what_is_wrong(self, tmp_path: Path) -> None:
        path = self.table(tmp_path / "x.parquet", {"src": ["a"] * 3, "target": ["b"] * 3, "n": [1, 2, 3]})
        with pytest.raises(DataError, match=r"has no column `tgt`.*; its columns: `src`, `target`, `n`$"):
            pairs(path)
        with pytest.raises(DataError, match=r"^`n` in row 1 of `.*x.parquet` is 1, not a string$"):
            pairs(path, keys=("src", "n"))
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(DataError, match=r"^`.*x.parquet` is damaged or has another format: "):
            pairs(path, keys=("src", "target"))

    def test_a_folder_of_datasets(self, tmp_path: Path) -> None:
        import pyarrow

        folder = tmp_path / "train"
        folder.mkdir()
        features = {"info": {"features": {"label": {"names": ["bad", "good"], "_type": "ClassLabel"}}}}
        schema = pyarrow.schema([("text", pyarrow.string()), ("label", pyarrow.int64())])
        schema = schema.with_metadata({"huggingface": json.dumps(features)})
        names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
        for number, name in enumerate(names):
            with pyarrow.OSFile(str(folder / name), "wb") as sink, pyarrow.ipc.new_stream(sink, schema) as writer:
                columns = {"text": [f"{number} {row}" for row in range(5)], "label": [row % 2 for row in range(5)]}
                writer.write_table(pyarrow.table(columns, schema=schema), max_chunksize=2)
        with pytest.raises(DataError, match=r"is not a folder saved by `datasets`: it has no state.json$"):
            pairs(folder)
        state = {"_data_files": [{"filename": name} for name in names]}
        (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
        expected = [(f"{number} {row}", ["bad", "good"][row % 2]) for number in range(2) for row in range(5)]
        assert pairs(folder, keys=("text", "label")) == expected
        assert pairs(folder, keys=("text", "label"), skip=6) == expected[6:]
        (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}', encoding="utf-8")
        with pytest.raises(DataError, match=r"holds several splits of a data set$") as raised:
            pairs(tmp_path)
        assert str(folder) in raised.value.hint
        data = DataConfig(src=str(folder), jsonl_keys=("text", "label"), valid_size=1)
        before = open_corpus(data, "classify", prepared=DatasetCache(tmp_path / "prepared"))
        assert isinstance(before, Corpus)
        assert len(before) == 9
        assert before.digests == open_corpus(replace(data, cache_dir="")).digests
