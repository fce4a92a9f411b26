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
