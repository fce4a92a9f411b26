"""The record of a translated file says of what the output is; records of earlier versions do, too."""

import json
from pathlib import Path

import pytest

from pellucid.data import shards as corpora
from pellucid.errors import ConfigError
from pellucid.files.reading import hash_file
from pellucid.streams.folder_files import FileJob, find_shards

COMMAND = {"verb": "translate", "beam_size": 4}


@pytest.fixture
def done(tmp_path: Path) -> FileJob:
    """A file that was translated, with its record."""
    for name, line in (("in", "a b\n"), ("out", "b a\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "text").write_text(line, encoding="utf-8")
    (shard,) = find_shards(tmp_path / "in", tmp_path / "out")
    shard.record.parent.mkdir()
    shard.write_record(COMMAND, 1, hash_file(shard.input))
    return shard


def set_format(shard: FileJob, name: str) -> None:
    """Writes another name of the format into the record."""
    table = json.loads(shard.record.read_text(encoding="utf-8"))
    shard.record.write_text(json.dumps({**table, "format": name}), encoding="utf-8")


def test_its_format_has_a_name_of_its_own(done: FileJob) -> None:
    assert json.loads(done.record.read_text(encoding="utf-8"))["format"] == "pellucid-translated-file/1"
    assert corpora.FORMAT.name == "pellucid-shard/1"


def test_a_record_of_an_earlier_version_counts(done: FileJob) -> None:
    set_format(done, "pellucid-shard/1")
    assert done.lacks() is None
    done.refuse_other(COMMAND)
    with pytest.raises(ConfigError, match="is the output of another command with other `beam_size`"):
        done.refuse_other({**COMMAND, "beam_size": 1})


def test_a_record_of_an_unknown_format_does_not_count(done: FileJob) -> None:
    set_format(done, "pellucid-translated-file/2")
    assert done.lacks() == "their outputs have no record"
