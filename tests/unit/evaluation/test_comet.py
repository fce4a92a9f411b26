"""Scores by COMET in an environment of its own: what comes back, how it is tested, and each way not to get it."""

import json
import math
import os
import platform
import shutil
import stat
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest

from pellucid.errors import ConfigError, PellucidError
from pellucid.evaluation.comet import CometEnvironment, comet_score, compare_comet
from tests.unit.evaluation.comet_stand_in import StandIn, stand_in

pytestmark = pytest.mark.slow

SOURCES = ["ein hund", "katze läuft", "b"]
REFERENCES = ["a dog", "a cat runs", "b"]
OURS, THEIRS = ["a dog", "a cat barks", "b"], ["a cat", "", "b"]
MARK = "pellucid-comet:"


@pytest.fixture
def environment(tmp_path: Path) -> StandIn:
    return stand_in(tmp_path / "env")


def scored(environment: StandIn, kind: str = "regression", **options: object) -> CometEnvironment:
    return CometEnvironment(comet=str(environment.python), comet_model=str(environment.model(kind)), **options)  # type: ignore[arg-type]


def program(folder: Path, text: str) -> str:
    """Writes a program of the shell and returns its path."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_each_line_is_scored_and_the_signature_says_how(environment: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("comet", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, name, None)  # neither may be imported here
    comet = scored(environment, threads=1)
    comet.check()
    found = comet.score(SOURCES, [OURS, THEIRS], [REFERENCES])
    assert found.systems == [[1.0, 2 / 3, 1.0], [0.5, 0.0, 1.0]]
    digest = sha256(b"regression").hexdigest()[:12]
    versions = f"unbabel-comet:2.2.7|torch:2.13.0|transformers:4.57.6|python:{platform.python_version()}"
    assert found.signature == f"model:regression|sha256:{digest}|refs:1|dtype:float32|{versions}"


def test_references_go_to_the_models_that_read_them(environment: StandIn) -> None:
    quality, unified = scored(environment, "referenceless"), scored(environment, "unified")
    for references in ([], [REFERENCES], [REFERENCES, OURS]):
        found = quality.score(SOURCES, [SOURCES], references)
        assert (found.systems, "|refs:0|" in found.signature) == ([[1.0, 1.0, 1.0]], True)
    assert "|refs:0|" in unified.score(SOURCES, [SOURCES]).signature
    found = unified.score(SOURCES, [OURS], [REFERENCES])
    assert (found.systems, "|refs:1|" in found.signature) == ([[1.0, 2 / 3, 1.0]], True)


@pytest.mark.parametrize("references", [[], [REFERENCES, OURS]])
def test_a_model_that_needs_references_takes_one_set(environment: StandIn, references: list[list[str]]) -> None:
    with pytest.raises(ConfigError, match=rf"needs one set of references, not {len(references)}"):
        scored(environment).score(SOURCES, [OURS], references)


def test_a_name_is_looked_for_in_the_cache_alone(environment: StandIn) -> None:
    comet = CometEnvironment(comet=str(environment.python), comet_model="some/model")
    with pytest.raises(ConfigError, match=r"`comet_model=\"some/model\"` is not in the cache") as caught:
        comet.check()
    assert "`comet_download=True`" in caught.value.hint
    (environment.on_hub("some/model")).mkdir(parents=True)  # of which only a part was downloaded
    with pytest.raises(ConfigError, match="is not in the cache"):
        comet.check()
    shutil.rmtree(environment.on_hub("some/model"))
    environment.model("regression", environment.on_hub("some/model"))
    comet.check()
    assert comet.score(SOURCES, [OURS], [REFERENCES]).signature.startswith("model:some/model|sha256:")


def test_a_download_is_made_where_it_is_asked_for(environment: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    comet = CometEnvironment(comet=str(environment.python), comet_model="some/model", comet_download=True)
    with pytest.raises(ConfigError, match=r"`comet_model=\"some/model\"` has no checkpoints/model.ckpt"):
        comet.check()
    without = CometEnvironment(comet=str(environment.python), comet_model="without/network", comet_download=True)
    with pytest.raises(PellucidError, match="failed: LocalEntryNotFoundError: no connection") as caught:
        without.check()
    assert "comet_download" not in caught.value.hint  # it was asked for


def test_a_checkpoint_by_its_file(environment: StandIn) -> None:
    model = environment.model("regression")
    by_file = CometEnvironment(comet=str(environment.python), comet_model=str(model / "checkpoints/model.ckpt"))
    assert by_file.score(SOURCES, [OURS], [REFERENCES]).systems == [[1.0, 2 / 3, 1.0]]
    (model / "hparams.yaml").unlink()
    with pytest.raises(ConfigError, match=r"beside the checkpoint `.*model\.ckpt` there is no hparams\.yaml"):
        by_file.check()


@pytest.mark.parametrize("name", ["nothing.ckpt", "./nothing/there", "wmt20-comet-da"])
def test_a_model_that_is_neither_a_path_nor_a_name(environment: StandIn, name: str) -> None:
    with pytest.raises(ConfigError, match="is no checkpoint: there is no file"):
        CometEnvironment(comet=str(environment.python), comet_model=name).check()


def test_what_is_no_program(environment: StandIn, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x", encoding="utf-8")
    (tmp_path / "bad").write_text("#!/nothing/here\n", encoding="utf-8")
    (tmp_path / "bad").chmod(0o755)
    for comet, said, hint in (
        (tmp_path / "none", "does not exist", "name the Python"),
        (tmp_path / "text", "is not executable", "name the Python"),
        (environment.folder, "is a folder", f"name its Python: {environment.python}"),
        (tmp_path / "bad", "cannot be run: No such file", "name the Python"),
    ):
        with pytest.raises(ConfigError, match=rf"`comet=\"{comet}\"` {said}") as caught:
            CometEnvironment(comet=str(comet)).check()
        assert caught.value.hint.startswith(hint)


def test_an_environment_without_comet(environment: StandIn) -> None:
    shutil.rmtree(environment.packages / "unbabel_comet-2.2.7.dist-info")
    with pytest.raises(ConfigError, match="has no package `unbabel-comet`") as caught:
        scored(environment).check()
    assert f"`{environment.python} -m pip install unbabel-comet`" in caught.value.hint


def test_packages_of_this_process_are_not_that_ones(
    environment: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "comet.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    scored(environment).score(SOURCES, [OURS], [REFERENCES])


def test_a_program_that_dies(environment: StandIn, tmp_path: Path) -> None:
    with pytest.raises(PellucidError, match="ended with status 9, without an answer; it last said: Killed: out of mem"):
        scored(environment, "dies").score(SOURCES, [OURS], [REFERENCES])
    with pytest.raises(PellucidError, match="was ended by SIGTERM, without an answer"):
        CometEnvironment(comet=program(tmp_path, "kill -TERM $$")).check()


def test_an_error_of_the_library(environment: StandIn) -> None:
    with pytest.raises(PellucidError, match=r"failed: RuntimeError: size mismatch for encoder\.weight"):
        scored(environment, "fails").score(SOURCES, [OURS], [REFERENCES])


def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    comet = CometEnvironment(comet=program(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait"), comet_timeout=0.5)
    with pytest.raises(PellucidError, match=r"gave no answer within 0\.5 seconds") as caught:
        comet.check()
    assert "`comet_timeout=`" in caught.value.hint
    child = int((tmp_path / "child").read_text(encoding="utf-8"))
    end = time.monotonic() + 30  # what is killed may take a moment, but would sleep for longer
    while _lives(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert not _lives(child)


def _lives(number: int) -> bool:
    """Tells whether a process runs; one that has ended may still wait to be asked how."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "nothing"),
        ("hello", "hello"),
        (f"{MARK}not JSON", "not JSON"),
        (f"{MARK}[1]", r"\[1\]"),
        (f'{MARK}{{"systems": [{{"lines": [1, 2]}}]}}', r"systems"),
    ],
)
def test_an_answer_that_cannot_be_read(tmp_path: Path, answer: str, said: str) -> None:
    with pytest.raises(PellucidError, match=rf"answered what cannot be read: .*{said}"):
        CometEnvironment(comet=program(tmp_path, f"cat <<'END'\n{answer}\nEND")).score(["a"], [["a"]], [["a"]])


@pytest.mark.parametrize(
    ("score", "lines", "said"),
    [
        ("0.5", "[0.5, 0.5]", "scores of 2 lines, not of 1"),
        ("0.9", "[0.5]", "0.9 as the mean of lines whose mean is 0.5"),
        ("NaN", "[NaN]", "nan as the mean"),
    ],
)
def test_scores_that_cannot_be(tmp_path: Path, score: str, lines: str, said: str) -> None:
    versions = dict.fromkeys(("unbabel-comet", "torch", "transformers", "python"), "1")
    given = {"versions": versions, "digest": "d", "dtype": "float32", "reads_references": True, "systems": []}
    answer = json.dumps(given).replace("[]", f'[{{"score": {score}, "lines": {lines}}}]')
    with pytest.raises(PellucidError, match=f"cannot be read: {said}"):
        CometEnvironment(comet=program(tmp_path, f"cat <<'END'\n{MARK}{answer}\nEND")).score(["a"], [["a"]], [["a"]])


def test_endless_output_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.evaluation.comet._MOST_PRINTED", 1000)
    with pytest.raises(PellucidError, match=r"answered what cannot be read: [\d,]+ bytes"):
        CometEnvironment(comet=program(tmp_path, "yes | head -c 5000; sleep 60")).check()


def test_nothing_stays_in_the_folder_of_temporary_files(
    environment: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    scored(environment).check()
    assert os.listdir(place) == []


def test_the_score_is_the_mean_within_its_interval() -> None:
    lines = [0.5, 0.75, 1.0, 0.25]
    found = comet_score(lines, "s")
    assert (found.score, found.lines) == (0.625, tuple(lines))
    assert found.interval[0] < 0.625 < found.interval[1]
    assert comet_score([0.5] * 7, "s").interval == (0.5, 0.5)
    assert "0.6250 ±" in found.report()
    assert found.report().endswith("  s")


def test_p_counts_exchanges_that_come_out_as_large() -> None:
    # Thirds and tenths are no sums of powers of two: only exact sums find each exchange's equal.
    a, b = [0.1, 0.2, 1 / 3], [0.3, 0.7, 0.6]
    differences = [x - y for x, y in zip(a, b, strict=True)]
    measured = abs(sum(differences))
    signs = [[1 if mask >> bit & 1 else -1 for bit in range(3)] for mask in range(8)]
    as_large = sum(abs(sum(s * d for s, d in zip(sign, differences, strict=True))) >= measured - 1e-9 for sign in signs)
    found = compare_comet(a, b, "s")
    assert as_large == 2
    assert math.isclose(found.p_value, as_large / 8, abs_tol=0.02)
    assert found.difference == found.a - found.b
    assert found.difference_interval[0] <= found.difference <= found.difference_interval[1]
    assert found.signature == "s|ar:10000|bs:1000|seed:12345"
    assert compare_comet(a, a, "s").p_value == 1.0
