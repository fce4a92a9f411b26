"""At whatever write a run dies, or finds the disk full, the same command ends in the same bytes: real processes."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.data.dates import split_dates, write_parallel
from pellucid.run.run import train
from tests.processes import run_python
from tests.properties import makers
from tests.toy_task import SMALL, reversed_letters, small_arguments, small_recipe, write_pairs

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")

ROOT = Path(__file__).parents[2]
TIME_LIMIT = 1500
ON_CPU = ("--device", "cpu")
PLAIN = (
    "train.steps=4", "train.save_every=2", "train.validate_every=2", "train.accumulate=2", "train.ema_decay=0.9",
)  # fmt: skip
SAMPLED = (
    "train.steps=6", "train.validate_every=2", "train.accumulate=2", "train.average_strategy=best", "train.average=2",
    "data.tokenizer=bpe", "data.vocab_size=400", "data.subword_regularization=0.2", "data.joint_vocab=false",
    "data.corpus_weights=[0.5, 1.5]", "model.tie_embeddings=none",
)  # fmt: skip


def plain(folder: Path) -> list[str]:
    """The arguments of a run of four steps, with its texts in `folder`."""
    write_pairs(folder, reversed_letters(60))
    return [*small_arguments("train.src", "train.tgt", Path("run"), *PLAIN), *ON_CPU]


def sampled(folder: Path) -> list[str]:
    """Of a run on two corpora, whose sentences are cut in other pieces each time, with checkpoints of other steps."""
    pairs, _ = split_dates(300, 1, 10)
    for name, part in (("a", pairs[:120]), ("b", pairs[120:])):
        write_parallel(part, folder, name)
    settings = [part for setting in (*SMALL, *SAMPLED) for part in ("--set", setting)]
    texts = [part for name in "ab" for part in ("--src", f"{name}.written", "--tgt", f"{name}.iso")]
    return ["train", *texts, "--out", "run", *settings, *ON_CPU]


def outcomes(mode: str, folder: Path, places: str, arguments: list[str]) -> Iterator[dict[str, Any]]:
    """What tests/properties/faults.py tells."""
    environment = os.environ | {"PELLUCID_CACHE": "run/cache"}
    done = run_python(
        "-m", "tests.properties.faults", mode, folder, places, *arguments, cwd=ROOT, env=environment, timeout=TIME_LIMIT
    )
    assert done.returncode == 0, done.stderr[-3000:]
    yield from map(json.loads, done.stdout.splitlines())


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Same model, same metrics, and nothing half-written beside them."""
    where = f"at {found['at']}: {found.get('struck')} {found['again']}"
    assert found["again"]["status"] == 0, where
    for name in ("model", "metrics", "others"):
        assert found["left"][name] == expected["left"][name], where
    hidden = {name for name in found["left"]["names"] if Path(name).name.startswith(".")}
    assert hidden <= {".lock", ".lock-holder"}, where


def assert_killed(mode: str, folder: Path, places: str, arguments: list[str]) -> int:
    """Runs it with a death at each of the places; returns how many they were."""
    first, *struck = outcomes(mode, folder, places, arguments)
    assert first["again"]["status"] == 0, first
    for one in struck:
        assert one["struck"]["status"] == 137, one
        assert_same(one, first)
    return len(struck)


def assert_full(mode: str, folder: Path, places: str, arguments: list[str]) -> tuple[int, int]:
    """Runs it with a full disk at each place; returns how many runs went on, and how many ended with an error."""
    first, *struck = outcomes(mode, folder, places, arguments)
    counts = [0, 0]
    for one in struck:
        status, said = one["struck"]["status"], one["struck"]["said"]
        counts[status] += 1
        if status:
            message = r"error: the run in `run` cannot be written: No space left on device, [\d,.]+ MB free; th.*"
            assert re.search(message, said), said
            assert "hint: free space on that disk and run the same command again" in said
        assert "Traceback" not in said
        assert_same(one, first)
    return counts[0], counts[1]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small translator."""
    folder = tmp_path_factory.mktemp("model")
    train(small_recipe(*write_pairs(folder, reversed_letters(60))), folder / "model", device="cpu", quiet=True)
    return folder / "model"


def assert_completed(places: str, folder: Path, name: str, *model: Path) -> int:
    """Makes what `name` says with a death at each of the places, and again; returns how many they were."""
    makers.prepare_texts(folder)
    first, *struck = outcomes("kill", folder, places, ["make", name, *map(str, model)])
    assert first["again"]["status"] == 0, first
    assert first["left"]["files"]
    for one in struck:
        assert (one["struck"]["status"], one["again"]["status"]) == (137, 0), one
        # A kill after an output took its place leaves the manifest of its half, which is of nothing any more.
        left = {name: digest for name, digest in one["left"]["files"].items() if not name.endswith(".partial.json")}
        assert left == first["left"]["files"], one
    return len(struck)


WITHOUT_MODEL = ["ids", "clean", "conversion", "output", "pieces"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_MODEL)
def test_what_is_made_for_a_request_is_completed_by_it_after_a_kill(tmp_path: Path, name: str) -> None:
    assert assert_completed("2:9", tmp_path, name) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_MODEL)
def test_what_is_made_for_a_request_is_completed_by_it_after_a_kill_at_any_write(tmp_path: Path, name: str) -> None:
    assert assert_completed("1:1", tmp_path, name) > 8


@pytest.mark.slow
def test_what_is_made_of_large_texts_is_completed_after_a_kill_at_each_fifth_write(tmp_path: Path) -> None:
    assert assert_completed("1:5", tmp_path, "prepared") > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", ["distilled", "augmented", "translated"])
def test_what_models_write_is_completed_after_a_kill_at_each_third_write(
    tmp_path: Path, model: Path, name: str
) -> None:
    assert assert_completed("1:3", tmp_path, name, model) > 5


@pytest.mark.slow
def test_killed_at_some_writes(tmp_path: Path) -> None:
    assert assert_killed("kill", tmp_path, "7:61", plain(tmp_path)) >= 2


@pytest.mark.slow
def test_a_disk_that_is_full_at_some_writes(tmp_path: Path) -> None:
    went_on, ended = assert_full("full", tmp_path, "28:31", plain(tmp_path))
    assert went_on
    assert ended


@pytest.mark.slow
def test_killed_at_each_sixth_write(tmp_path: Path) -> None:
    """At each one, one after the other, it is killed in the chain below."""
    assert assert_killed("kill", tmp_path, "1:6", plain(tmp_path)) > 16


@pytest.mark.slow
def test_killed_at_some_writes_of_a_run_with_all_that_there_is(tmp_path: Path) -> None:
    assert assert_killed("kill", tmp_path, "3:11", sampled(tmp_path)) > 12


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [plain, sampled])
def test_killed_again_and_again_one_write_later_each_time(tmp_path: Path, arguments: Any) -> None:
    first, last = outcomes("chain", tmp_path, "", arguments(tmp_path))
    assert_same(last, first)
    assert last["at"] > 30


@pytest.mark.slow
def test_a_disk_that_is_full_once_at_each_eighth_write(tmp_path: Path) -> None:
    went_on, ended = assert_full("full", tmp_path, "1:8", plain(tmp_path))
    assert min(went_on, ended) > 3


@pytest.mark.slow
def test_a_disk_that_is_full_from_each_eighth_write_on(tmp_path: Path) -> None:
    """From other ones than those of the test before."""
    went_on, ended = assert_full("broken", tmp_path, "3:8", plain(tmp_path))
    assert (went_on, ended > 12) == (0, True)
