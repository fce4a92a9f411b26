"""A tokenizer.json without the library that runs it."""

import sys
from pathlib import Path

import pytest

from pellucid.errors import CheckpointError, ConfigError, format_install_command
from pellucid.text.foreign_files import ForeignFiles
from pellucid.text.hugging_face import HuggingFaceTokenizer
from pellucid.text.hugging_face_loading import load_hugging_face_tokenizers
from pellucid.text.special_ids import clean_up_spaces


@pytest.mark.parametrize(
    "files",
    [{"tokenizer.json": '{"model": {}}'}, {"vocab.txt": "[PAD]\n"}, {"vocab.json": '{"a": 0}', "merges.txt": ""}],
)
def test_a_missing_library_is_named_with_its_extra(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match="requires the library `tokenizers`, which is not installed") as caught:
        load_hugging_face_tokenizers(ForeignFiles(tmp_path))
    assert caught.value.hint == f"install the extra `hf`: {format_install_command('hf')}"


@pytest.mark.parametrize("options", [None, {}, {"pad_id": 0}, {"pad_id": 0, "bos_id": 0, "eos_id": "1", "unk_id": 0}])
def test_options_that_name_no_ids(options: object) -> None:
    with pytest.raises(CheckpointError, match="the options of the tokenizer `x` do not name its ids"):
        HuggingFaceTokenizer.from_options(b"{}", options, "x")


def test_spaces_before_marks_and_endings() -> None:
    assert clean_up_spaces("it 's fine , is n't it ? yes .") == "it's fine, isn't it? yes."


@pytest.mark.foreign
@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"version": "1.0", "model": {"type": "Nothing"}}'])
def test_a_damaged_file(data: bytes) -> None:
    options = {"pad_id": 0, "bos_id": 0, "eos_id": 0, "unk_id": 0}
    with pytest.raises(
        CheckpointError, match=rf"`x.json` \({len(data)} bytes\) is not a tokenizer that Pellucid can run"
    ):
        HuggingFaceTokenizer.from_options(data, options, "x.json")


@pytest.mark.foreign
def test_a_token_that_a_folder_adds_under_another_number(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
    (tmp_path / "added_tokens.json").write_text('{"new": 5}')
    tokenizers = load_hugging_face_tokenizers(ForeignFiles(tmp_path))
    assert tokenizers is not None
    assert tokenizers.source.encode("a new a") == [4, 5, 4]
    (tmp_path / "added_tokens.json").write_text('{"new": 9}')
    with pytest.raises(CheckpointError, match="adds the token `new` with the id 9, but its id is 5"):
        load_hugging_face_tokenizers(ForeignFiles(tmp_path))
