"""`pellucid train` on several processes: the same run, one voice, one folder, and the end of all where one is lost."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pellucid.tasks.translator import Translator
from pellucid.weights.tensors import load_tensors
from tests.ranks import run_ranks
from tests.toy_task import reversed_letters, small_arguments, write_pairs

ROOT = Path(__file__).parents[2]
Table = dict[str, Any]
TIMES = ("seconds", "tokens_per_second")
KILLED = r"rank 1 \(process \d+( on .*\) has died, as|\) was ended) by SIGKILL"
"""As the other rank tells it, or where that takes too long the launcher."""


def arguments(folder: Path, out: str, *settings: str) -> list[str]:
    """The command's words, for texts in the folder."""
    src, tgt = write_pairs(folder, reversed_letters(80))
    words = small_arguments(src, tgt, folder / out, *settings)
    return ["-m", "pellucid", *words, "--device", "cpu"]


def lines_of(run: Path) -> list[Table]:
    """The metrics, but for times."""
    tables = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [{k: v for k, v in t.items() if k not in TIMES and not k.startswith("ranks_")} for t in tables]


@pytest.mark.slow
def test_the_command_on_two_ranks_has_one_voice_and_one_folder(tmp_path: Path) -> None:
    first, second = run_ranks(2, *arguments(tmp_path, "run"), cwd=tmp_path)
    assert (first.returncode, second.returncode, second.stdout, second.stderr) == (0, 0, "", "")
    assert "run: finished after 6 steps, validation loss " in first.stderr
    found = {path.name for path in (tmp_path / "run").iterdir() if not path.name.startswith(".")}
    assert found >= {"model.safetensors", "pellucid.json", "result.json", "metrics.jsonl", "README.md", "corpus.json"}
    assert not (tmp_path / "run/.lock").exists()
    validations = [line for line in lines_of(tmp_path / "run") if line["event"] == "validation"]
    assert [line["step"] for line in validations] == [3, 6]


def train(words: list[str], ranks: int, *options: str, **environment: str) -> subprocess.Popen[str]:
    """The command with `--ranks`, as a user gives it."""
    return subprocess.Popen(
        [sys.executable, *words, "--ranks", str(ranks), *options],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def processes_of(launcher: int) -> list[int]:
    """The ranks, in their order."""
    return sorted(map(int, Path(f"/proc/{launcher}/task/{launcher}/children").read_text(encoding="ascii").split()))


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 100
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.02)


EXACTLY = """
import sys
import pellucid
from tests.toy_task import small_recipe

src, tgt, out, *settings = sys.argv[1:]
run = pellucid.Run(small_recipe(src, tgt, *settings), out, device="cpu", quiet=True)
run.on_step(lambda event: {"exact": event.loss, "norm": event.gradient_norm})
run.train()
"""


@pytest.mark.slow
def test_ranks_and_accumulation_are_the_same_run(tmp_path: Path) -> None:
    """Losses of 200 steps within 1e-5, the gradient of the first within 1e-6."""
    texts = write_pairs(tmp_path, reversed_letters(400))
    settings = (
        "train.steps=200", "train.warmup_steps=20", "train.validate_every=50", "train.save_every=200",
        "train.average=1",
    )  # fmt: skip
    (tmp_path / "exactly.py").write_text(EXACTLY, encoding="utf-8")
    found: list[list[Table]] = []
    for out, ranks, accumulate in (("alone", 1, 4), ("two", 2, 2), ("again", 2, 2), ("four", 4, 1)):
        words = [tmp_path / "exactly.py", *texts, tmp_path / out, *settings, f"train.accumulate={accumulate}"]
        assert {done.returncode for done in run_ranks(ranks, *words, cwd=ROOT)} == {0}
        found.append(lines_of(tmp_path / out))
    alone, two, again, four = found
    steps = [line for line in alone if line["event"] == "train"]
    assert len(steps) == 200
    for lines in (two, four):
        of_ranks = [line for line in lines if line["event"] == "train"]
        assert [line["tokens"] for line in of_ranks] == [line["tokens"] for line in steps], "the same order"
        assert [line["exact"] for line in of_ranks] == pytest.approx([line["exact"] for line in steps], abs=1e-5)
        assert of_ranks[0]["norm"] == pytest.approx(steps[0]["norm"], rel=1e-6)
        validated = [[line["bleu"] for line in each if line["event"] == "validation"] for each in (lines, alone)]
        assert validated[0] == validated[1]
    assert two == again
    once, twice = (load_tensors(tmp_path / out / "model.safetensors") for out in ("two", "again"))
    assert all(once[name].equal(twice[name]) for name in once), "bit by bit"


@pytest.mark.slow
def test_sharded_ranks_are_the_same_run(tmp_path: Path) -> None:
    """Losses within 1e-5; stopped and gone on with, and on one process, they leave what they leave undisturbed."""
    texts = write_pairs(tmp_path, reversed_letters(400))
    (tmp_path / "exactly.py").write_text(EXACTLY, encoding="utf-8")
    settings = ("train.steps=40", "train.warmup_steps=20", "train.save_every=10", "train.validate_every=20")

    def trained(out: str, shard: str, ranks: int = 2) -> list[Table]:
        words = [tmp_path / "exactly.py", *texts, tmp_path / out, *settings, f"train.fsdp={shard}"]
        done = run_ranks(ranks, *words, cwd=ROOT)
        assert {each.returncode for each in done} == {0}, done[0].stderr
        return lines_of(tmp_path / out)

    plain, sharded, whole = trained("plain", "false"), trained("run", "true"), trained("whole", "true")
    assert sharded == whole
    exact = [[line["exact"] for line in lines if line["event"] == "train"] for lines in (plain, sharded)]
    assert exact[0] == pytest.approx(exact[1], abs=1e-5)
    run, names = tmp_path / "run", ("model.safetensors", "checkpoints/step-00000040/optimizer.safetensors")

    def go_back(step: int) -> None:
        (run / "result.json").unlink()
        for path in (run / "checkpoints").iterdir():
            if int(path.name[5:]) > step:
                shutil.rmtree(path)

    go_back(30)
    assert trained("run", "true") == whole
    for name in names:
        assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    go_back(30)
    trained("run", "true", ranks=1)
    alone, both = (load_tensors(folder / names[1]) for folder in (run, tmp_path / "whole"))
    assert {name: tensor.shape for name, tensor in alone.items()} == {name: t.shape for name, t in both.items()}
    assert Translator.load(tmp_path / "whole", device="cpu").translate(["a b c"])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the ranks in /proc")
def test_a_rank_of_a_sharded_run_that_dies_is_named(tmp_path: Path) -> None:
    settings = ("train.steps=100000", "train.save_every=10", "train.validate_every=1000", "train.fsdp=true")
    with train(arguments(tmp_path, "run", *settings), 2, PELLUCID_RANK_TIMEOUT="4") as process:
        wait_for(tmp_path / "run/checkpoints/step-00000010", process)
        os.kill(processes_of(process.pid)[1], signal.SIGKILL)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert re.search(KILLED, err), err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the ranks in /proc")
def test_a_rank_that_dies_or_hangs_ends_the_job_and_it_goes_on(tmp_path: Path) -> None:
    settings = ("train.steps=160", "train.save_every=10", "train.validate_every=80", "train.log_every=100")
    assert {done.returncode for done in run_ranks(2, *arguments(tmp_path, "whole", *settings), cwd=tmp_path)} == {0}
    words, run = arguments(tmp_path, "run", *settings), tmp_path / "run"

    def strike(number: int, at: int, victim: int | None, said: str) -> None:
        """Sends a signal to a rank, or to the launcher, once there is that checkpoint."""
        with train(words, 2, PELLUCID_RANK_TIMEOUT="4") as process:
            wait_for(run / f"checkpoints/step-{at:08d}", process)
            ranks, began = processes_of(process.pid), time.monotonic()
            os.kill(process.pid if victim is None else ranks[victim], number)
            err = process.communicate(timeout=60)[1]
            while any(Path(f"/proc/{rank}/stat").exists() and "Z" not in _stat(rank) for rank in ranks):
                assert time.monotonic() - began < 60
                time.sleep(0.05)
        assert re.search(said, err), err

    strike(signal.SIGKILL, 10, 1, KILLED)
    strike(signal.SIGKILL, 40, None, "")
    strike(signal.SIGSTOP, 70, 0, r"rank 0 \(process \d+ on .*\) has not answered for 4 s \(`PELLUCID_RANK_TIMEOUT`\)")
    with train(words, 2, "--max-restarts", "1") as process:
        wait_for(run / "checkpoints/step-00000110", process)
        os.kill(processes_of(process.pid)[0], signal.SIGKILL)
        err = process.communicate(timeout=100)[1]
    assert process.returncode == 0, err
    assert "resuming after step 1" in err
    for name in ("model.safetensors", "checkpoints/step-00000160/optimizer.safetensors"):
        assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert lines_of(run) == lines_of(tmp_path / "whole")


def _stat(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.slow
def test_another_number_of_ranks_goes_on_in_the_same_order(tmp_path: Path) -> None:
    settings = ("train.accumulate=2", "train.validate_every=6", "train.average=1", "train.steps=12")
    whole, run = arguments(tmp_path, "whole", *settings), arguments(tmp_path, "run", *settings)
    assert {done.returncode for done in run_ranks(2, *whole, cwd=tmp_path)} == {0}
    half = [*run, "--set", "train.patience=0"]
    assert {done.returncode for done in run_ranks(2, *half, cwd=tmp_path)} == {0}
    (tmp_path / "run/result.json").unlink()
    for path in (tmp_path / "run/checkpoints").glob("step-00000012"):
        (path / "state.json").write_text("{}", encoding="utf-8")  # so the run goes on from the one before
    alone = subprocess.run([sys.executable, *run], capture_output=True, text=True, check=True)
    assert (
        "this run had 2 ranks and now has 1: the order of the texts is unchanged, a step has 4 batches, as before; "
        "the weights are the same up to rounding\n"
    ) in alone.stderr
    tokens = [[line["tokens"] for line in lines_of(tmp_path / each) if "tokens" in line] for each in ("whole", "run")]
    assert tokens[0] == tokens[1]
    state = json.loads((tmp_path / "run/checkpoints/step-00000012/state.json").read_text(encoding="utf-8"))
    assert ("ranks" in state, state["accumulate"]) == (False, 4)
    with train(run, 3) as process:
        err = process.communicate(timeout=100)[1]
    assert err.count("run: already finished, nothing to do; 12 steps") == 1
