"""Files of terms."""

from pathlib import Path

import pytest

from pellucid.data.terms import read_terms
from pellucid.errors import DataError


def test_pairs_are_read(tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("Hund\tdog\r\n\n New York \t NY\n", encoding="utf-8")
    assert read_terms(tmp_path / "terms") == [("Hund", "dog"), ("New York", "NY")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\tb\nHund dog\n", "line 2: Hund dog has 1 field"),
        ("a\tb\tc\n", "has 3 fields"),
        ("a\t\n", "has 2 fields, one of them empty"),
        ("\n", "holds no terms"),
        ("a\tb\n\u200b\tc\n", "line 2: .* has no visible character"),
        ("a\t\u00ad\n", "line 1: .* has no visible character"),
    ],
)
def test_what_is_no_pair_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "terms").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        read_terms(tmp_path / "terms")


@pytest.mark.parametrize(
    "text",
    [
        'source,target\nHund,dog\n"New York, NY",NY\n\nHund,hound\n',
        'Hund,dog\n"New York, NY",NY\nHund,hound\n',
        "de;en-US;note\nHund;dog;\nNew York, NY;NY;a, b\nHund;hound;x\n",
        '\ufeffHund;dog\r\n"New York, NY";NY\r\nHund;hound\r\n',
        "Hund\tdog\nNew York, NY\tNY\nHund\thound\n",
    ],
)
def test_csv_is_read_with_and_without_a_heading(tmp_path: Path, text: str) -> None:
    (tmp_path / "terms.csv").write_text(text, encoding="utf-8", newline="")
    assert read_terms(tmp_path / "terms.csv") == [("Hund", "dog"), ("New York, NY", "NY"), ("Hund", "hound")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\nc,\n", "line 2: c.* has 2 fields, one of them empty"),
        ("a,b\nc\n", "line 2: c has 1 field"),
        ("source,target\n", "holds no terms"),
        ('a,"b\n', "is damaged CSV|has 1 field"),
    ],
)
def test_what_is_no_csv_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "terms.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        read_terms(tmp_path / "terms.csv")


TBX_2 = """<?xml version="1.0"?><!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd"><martif type="TBX" xml:lang="en">
<martifHeader><fileDesc><sourceDesc><p>x</p></sourceDesc></fileDesc></martifHeader><text><body><termEntry id="1">
<langSet xml:lang="de"><tig><term>Hund</term></tig></langSet>
<langSet xml:lang="en">
<ntig><termGrp><term>dog</term></termGrp></ntig><tig><term>hound</term></tig></langSet></termEntry>
<termEntry><langSet xml:lang="de"><tig><term>allein</term></tig></langSet></termEntry></body></text></martif>"""
TBX_3 = """<tbx type="TBX-Basic" style="dca" xml:lang="en" xmlns="urn:iso:std:iso:30042:ed-2"><tbxHeader/><text><body>
<conceptEntry><langSec xml:lang="de-DE"><termSec><term>Hund</term></termSec></langSec><langSec xml:lang="en"><termSec>
<term>dog</term></termSec><termSec><term>hound</term></termSec></langSec>MORE</conceptEntry></body></text></tbx>"""


def test_tbx_is_read(tmp_path: Path) -> None:
    pairs = [("Hund", "dog"), ("Hund", "hound")]
    for text in (TBX_2, TBX_3.replace("MORE", "")):
        (tmp_path / "terms.tbx").write_text(text, encoding="utf-8")
        for languages in ((None, None), ("de", "en"), (None, "en")):
            assert read_terms(tmp_path / "terms.tbx", languages) == pairs
        assert read_terms(tmp_path / "terms.tbx", ("en", "de")) == [(target, source) for source, target in pairs]
        with pytest.raises(DataError, match=r"has no terms in `fr`; its languages: `?de"):
            read_terms(tmp_path / "terms.tbx", ("fr", "en"))


def test_tbx_of_several_languages_needs_their_codes(tmp_path: Path) -> None:
    more = '<langSec xml:lang="fr"><termSec><term>chien</term></termSec></langSec>'
    (tmp_path / "terms.tbx").write_text(TBX_3.replace("MORE", more), encoding="utf-8")
    with pytest.raises(DataError, match=r"has the languages .*de-de.*en.*fr"):
        read_terms(tmp_path / "terms.tbx")
    assert read_terms(tmp_path / "terms.tbx", ("de", "fr")) == [("Hund", "chien")]
    (tmp_path / "terms.tbx").write_text("<html/>", encoding="utf-8")
    with pytest.raises(DataError, match=r"terms\.tbx` is not TBX"):
        read_terms(tmp_path / "terms.tbx")
