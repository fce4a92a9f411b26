"""Multilingual folders of transformers converted: both sides are compared as translators between two languages."""

import json
from pathlib import Path

import pytest

from pellucid.conversion.convert import convert
from pellucid.errors import ConfigError
from tests.parity.foreign_tokenizers.test_translating_folders import LINES, make
from tests.unit.cli.command_line import CommandLine

pytestmark = [pytest.mark.foreign, pytest.mark.filterwarnings("ignore::UserWarning")]

CASES = [
    ("m2m-100", (None, None), "af to am (the first one of the model)"),
    ("m2m-100", ("am", None), "am to af (the first one of the model)"),
    ("m2m-100", ("de", "fr"), "de to fr"),
    ("mbart", (None, None), "en_XX to ro_RO"),
    ("mbart", ("de_DE", None), "de_DE to ro_RO"),
    ("mbart-50", ("de_DE", "fr_XX"), "de_DE to fr_XX"),
    ("marian-codes", (None, None), "to fra (the first one of the model)"),
    ("marian-codes", (None, "por"), "to por"),
    ("marian", (None, None), ""),
]


@pytest.mark.parametrize(("kind", "languages", "said"), CASES)
def test_both_sides_translate_between_two_languages(
    kind: str, languages: tuple[str | None, str | None], said: str, tmp_path: Path
) -> None:
    (tmp_path / "theirs").mkdir()
    folder = make(tmp_path / "theirs", kind)
    proof = convert(
        folder, tmp_path / "ours", sentences=LINES[:4], source_language=languages[0], target_language=languages[1]
    )
    assert proof.passed, str(proof)
    assert proof.languages == said
    assert str(proof).splitlines()[0].endswith(f"on 4 sentences, {said}: equal" if said else "on 4 sentences: equal")


def test_the_folder_s_own_languages_are_the_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "theirs").mkdir()
    folder = make(tmp_path / "theirs", "m2m-100")
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"src_lang": "de", "tgt_lang": "ko"}))
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in LINES[:3]), encoding="utf-8")
    pellucid = CommandLine(capsys)
    done = pellucid("convert", folder, tmp_path / "ours", "--sentences", tmp_path / "lines")
    assert (done.status, done.out.splitlines()[0].endswith("on 3 sentences, de to ko: equal")) == (0, True)
    done = pellucid("convert", folder, tmp_path / "other", "--sentences", tmp_path / "lines", "--tgt-lang", "fr")
    assert done.out.splitlines()[0].endswith("on 3 sentences, de to fr: equal")
    assert json.loads((tmp_path / "other" / "conversion.json").read_text(encoding="utf-8"))["languages"] == "de to fr"


def test_languages_that_mean_nothing(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    folder = make(tmp_path / "theirs", "marian")
    with pytest.raises(ConfigError, match=r"^languages are given \(`de`\), but the model has none$"):
        convert(folder, tmp_path / "ours", sentences=LINES[:2], source_language="de")
    assert not (tmp_path / "ours").exists()
