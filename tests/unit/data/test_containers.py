"""Corpora in other files than lines of text: what comes out is what was put in, and what is wrong is named."""

import gzip
import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.config import DataConfig
from pellucid.data.locate import locate
from pellucid.data.parallel import ParallelText, parallel_texts
from pellucid.data.prepare import Corpus, open_corpus
from pellucid.data.prepared import Prepared
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
        ([unit(de="a")], "de", r"^unit 1 of `.*x.tmx` is in 1 languages \(`de`\)$"),
        ([], "de", r"^`.*x.tmx` holds no translation unit$"),
        ([unit(de="a", en="b"), "<tu>"], "de", r"^`.*x.tmx` is not XML behind unit 1: mismatched tag: line 1, column "),
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
    with pytest.raises(DataError, match=r"is a damaged gzip file behind unit \d[\d,]*: "):
        pairs(whole)


def test_a_zip_of_opus(tmp_path: Path) -> None:
    path = moses(tmp_path / "x.zip", [source for source, _ in PAIRS], [target for _, target in PAIRS])
    assert pairs(path) == PAIRS
    assert pairs(path, skip=3) == PAIRS[3:]
    assert pairs(path, keys=("en", "de")) == [(target, source) for source, target in PAIRS]
    assert pairs(path, alone=True) == [(source, source) for source, _ in PAIRS]


def test_what_is_wrong_with_a_zip(tmp_path: Path) -> None:
    path = moses(tmp_path / "x.zip", ["a", "b"], ["c"])
    message = r"^`Books.de-en.de` and `Books.de-en.en` in `.*x.zip` must have as many lines .* but have 2 and 1$"
    with pytest.raises(DataError, match=message):
        pairs(path)
    with pytest.raises(DataError, match=r"^`.*x.zip` has no member for `fr`; it has `README`, `Books.de-en.de`, "):
        pairs(path, keys=("de", "fr"))
    content = bytearray(moses(path, ["Ein Hund"] * 99, ["A dog"] * 99).read_bytes())
    content[100] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"^`.*x.zip` is a damaged zip file, or a locked one: "):
        pairs(path)
    path.write_bytes(b"PK\x03\x04 no more")
    with pytest.raises(DataError, match=r"is a damaged zip file"):
        pairs(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("B.de-en.de", b"gut\nschl\xe4cht\n")
        archive.writestr("B.de-en.en", b"good\nbad\n")
    with pytest.raises(DataError, match=r"x.zip/B.de-en.de` is not UTF-8: line 2, byte 5 is 0xe4$"):
        pairs(path)
    assert list(ParallelText(str(path), "").pairs("skip")) == [("gut", "good"), (None, "bad")]


def test_they_are_corpora_as_others_are(tmp_path: Path) -> None:
    many = [(f"{source} {n}", f"{target} {n}") for n in range(20) for source, target in PAIRS]
    zipped = moses(tmp_path / "x.zip", [source for source, _ in many], [target for _, target in many])
    units = tmx(tmp_path / "y.tmx", [unit(de=source, en=target) for source, target in many])
    data = DataConfig(src=(str(zipped), str(units)), weights=(1, 2), valid_size=5)
    assert [text.tgt for text in parallel_texts(data)] == ["", ""]
    plain, kept = open_corpus(data), open_corpus(data, prepared=Prepared(tmp_path / "prepared"))
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
    found = locate(data)
    assert found.files("src") == (str(tmp_path / "a.de"), str(tmp_path / "b.de"))
    assert [list(text.pairs("error")) for text in parallel_texts(found)] == [[("a de", "a en")], [("b de", "b en")]]
    (tmp_path / "all.de.list").write_text("\na.de\nc.de\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"^no file `c.de`, which line 3 of `{tmp_path / 'all.de.list'}` names$"):
        locate(data)
    (tmp_path / "all.de.list").write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"^`{tmp_path / 'all.de.list'}` names no file$"):
        locate(data)


def test_without_the_library_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"^reading Parquet, and folders of `datasets`, needs the extra `parquet`$"):
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
        with pytest.raises(DataError, match=r"^the column `translation` of `.*` has no `fr`; its keys: de, en$"):
            pairs(path, keys=("translation.de", "translation.fr"))

    def test_what_is_wrong(self, tmp_path: Path) -> None:
        path = self.table(tmp_path / "x.parquet", {"src": ["a"] * 3, "target": ["b"] * 3, "n": [1, 2, 3]})
        with pytest.raises(DataError, match=r"has no column `tgt`.*; its columns: `src`, `target`, `n`$"):
            pairs(path)
        with pytest.raises(DataError, match=r"^`n` in row 1 of `.*x.parquet` is 1, not a string$"):
            pairs(path, keys=("src", "n"))
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(DataError, match=r"^`.*x.parquet` is damaged, or of another format: "):
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
        with pytest.raises(DataError, match=r"is a folder, and none that `datasets` has saved: no state.json in it$"):
            pairs(folder)
        state = {"_data_files": [{"filename": name} for name in names]}
        (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
        expected = [(f"{number} {row}", ["bad", "good"][row % 2]) for number in range(2) for row in range(5)]
        assert pairs(folder, keys=("text", "label")) == expected
        assert pairs(folder, keys=("text", "label"), skip=6) == expected[6:]
        (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}', encoding="utf-8")
        with pytest.raises(DataError, match=r"holds several parts of a data set$") as raised:
            pairs(tmp_path)
        assert str(folder) in raised.value.hint
        data = DataConfig(src=str(folder), jsonl_keys=("text", "label"), valid_size=1)
        before = open_corpus(data, "classify", prepared=Prepared(tmp_path / "prepared"))
        assert isinstance(before, Corpus)
        assert len(before) == 9
        assert before.digests == open_corpus(replace(data, prepared="")).digests
