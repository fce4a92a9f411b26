"""Several processes train as one would, and what happens on one of them is agreed by all."""

import json
import re
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.errors import ConfigError
from pellucid.training import ranks
from pellucid.training.ranks import LostRankError
from tests.ranks import run_ranks
from tests.unit.training.on_ranks import WITH, sgd
from tests.unit.training.toy_run import ToyRun

ROOT = Path(__file__).parents[3]


def of_both(folder: Path, *names: str) -> list[dict[str, Any]]:
    """What each of two ranks says of runs of these names."""
    done = run_ranks(2, "-m", "tests.unit.training.on_ranks", folder, *names, cwd=ROOT)
    assert [each.returncode for each in done] == [0, 0], done[0].stderr + done[1].stderr
    return [{"folder": folder, **json.loads(each.stdout)} for each in done]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return of_both(tmp_path_factory.mktemp("ranks"), "same_run", "sums", "stopped", "not_a_number")


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    names = ("signalled", "short_of_memory", "no_memory", "on_the_clock", "patience")
    return of_both(tmp_path_factory.mktemp("ranks"), *names)


def written(job: list[dict[str, Any]], run: str) -> list[dict[str, Any]]:
    """The metrics of a run."""
    lines = (job[0]["folder"] / run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_two_ranks_take_the_steps_of_one_that_accumulates(found: list[dict[str, Any]], tmp_path: Path) -> None:
    alone = ToyRun(tmp_path / "alone", settings={"accumulate": 2}, parts={"optimizer": sgd})
    state = alone.trainer.train()
    expected = torch.cat([p.detach().flatten() for p in alone.model.parameters()])
    first, second = (torch.tensor(each["same_run"]["weights"]) for each in found)
    assert torch.equal(first, second), "bit by bit, or they drift apart"
    torch.testing.assert_close(first, expected, rtol=1e-5, atol=1e-6)
    assert [each["same_run"]["tokens"] for each in found] == [state.tokens] * 2
    lines = [
        [(line["step"], line["loss"], line["tokens"]) for line in run if line["event"] == "train"]
        for run in (alone.metrics, written(found, "same"))
    ]
    assert [line[::2] for line in lines[0]] == [line[::2] for line in lines[1]]
    assert [line[1] for line in lines[0]] == pytest.approx([line[1] for line in lines[1]], abs=1.1e-4)


@pytest.mark.slow
def test_the_log_tells_of_each_rank(found: list[dict[str, Any]]) -> None:
    lines = written(found, "same")
    names = {name for name in lines[0] if name.startswith("ranks_")}
    assert names == {"ranks_tokens_per_second", "ranks_computing", "ranks_waiting", "ranks_adding", "ranks_memory"}
    assert all(len(lines[0][name]) == 2 for name in names)
    assert min(lines[0]["ranks_tokens_per_second"]) > 0
    steps = [line["step"] for line in lines if line["event"] == "train"]
    assert steps == [2, 4, 6, 8, 10, 12], "one rank alone writes"


@pytest.mark.slow
def test_sums_are_in_the_order_of_the_ranks(found: list[dict[str, Any]]) -> None:
    expected = [[0.0, 1.0, 7.0], [0.1 + 1.1] * 6, [3.0]]
    assert [each["sums"] for each in found] == [expected] * 2


@pytest.mark.slow
def test_what_a_hook_of_one_rank_asks_for(found: list[dict[str, Any]]) -> None:
    """The end is everybody's; the rate is the first one's."""
    assert [each["stopped"] for each in found] == [[5, True, 1.0, True], [5, True, 1.0, False]]


@pytest.mark.slow
def test_a_signal_to_one_rank_stops_all_after_a_save(more: list[dict[str, Any]]) -> None:
    assert [each["signalled"] for each in more] == [[signal.SIGTERM, 4, 4]] * 2


@pytest.mark.slow
def test_memory_that_one_rank_lacks_is_saved_by_all(more: list[dict[str, Any]]) -> None:
    (steps, parts, said), other = (each["short_of_memory"] for each in more)
    assert (steps, other[:2]) == (12, [12, parts])
    assert parts > 1
    assert said[0].startswith("out of memory at step 3 on rank 1: batches are split into 2 parts from now on;")


@pytest.mark.slow
def test_memory_for_not_one_sentence_is_the_same_error_on_all(more: list[dict[str, Any]]) -> None:
    first, second = (each["no_memory"] for each in more)
    assert first == second
    assert first.startswith("out of memory at step 1 with one sentence at a time, the longest of ")


@pytest.mark.slow
def test_a_loss_that_is_not_finite_names_the_rank_and_the_pair(found: list[dict[str, Any]]) -> None:
    first, second = (each["not_a_number"] for each in found)
    assert first == second
    assert first.startswith("the loss is not finite at step 1 (loss ")
    assert "; it comes from training pair " in first
    assert first.endswith(", on rank 1 of 2")


@pytest.mark.slow
def test_the_clock_is_that_of_the_first_rank(more: list[dict[str, Any]]) -> None:
    first, second = (each["on_the_clock"] for each in more)
    assert first == second
    assert 10 < first[0] < first[1] == first[2]


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    names = ("sharded", "sharded_not_a_number", "sharded_with_an_optimizer_of_its_own")
    return of_both(tmp_path_factory.mktemp("ranks"), *names)


@pytest.mark.slow
def test_each_rank_holds_its_rows_of_weights_and_moments_alone(sharded: list[dict[str, Any]], tmp_path: Path) -> None:
    """With Muon, a moving average, a clipped gradient and layers computed twice: at the end both have what one has."""
    first, second = (each["sharded"] for each in sharded)
    assert first["weights"] + second["weights"] == first["of"] == second["of"]
    assert abs(first["weights"] - second["weights"]) < 0.02 * first["of"]
    assert first["moments"] < 1.02 * first["of"], "two for what is Adam's, one for what is Muon's, of half the weights"
    assert first["all"] == second["all"]
    alone = ToyRun(tmp_path / "alone", settings={"accumulate": 2, **WITH})
    alone.trainer.train()
    biases_of_keys = ("qkv_proj.bias",)  # nothing depends on them: Adam makes steps of their rounding
    places = [(name, p.detach().flatten()) for name, p in alone.model.named_parameters()]
    found = torch.tensor(first["all"]).split([len(p) for _, p in places])
    for (name, expected), weights in zip(places, found, strict=True):
        if not name.endswith(biases_of_keys):
            torch.testing.assert_close(weights, expected, rtol=0, atol=1e-4, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.slow
def test_sharded_ranks_name_the_pair_that_gives_no_number(sharded: list[dict[str, Any]]) -> None:
    first, second = (each["sharded_not_a_number"] for each in sharded)
    assert first == second
    assert "; it comes from training pair " in first
    assert first.endswith(", on rank 1 of 2")


@pytest.mark.slow
def test_memory_that_a_sharded_rank_lacks_ends_all_with_its_name(tmp_path: Path) -> None:
    first, second = (each["sharded_no_memory"] for each in of_both(tmp_path, "sharded_no_memory"))
    assert second.startswith("out of memory on rank 1; with `train.fsdp` batches are not split, ")
    assert first.startswith("rank 1 (process ")


@pytest.mark.slow
def test_a_sharded_rank_that_dies_while_weights_are_gathered_is_named(tmp_path: Path) -> None:
    first, _ = (each["sharded_dies"] for each in of_both(tmp_path, "sharded_dies"))
    assert first.startswith("rank 1 (process ")


@pytest.mark.slow
def test_an_optimizer_that_may_need_whole_weights_is_refused(sharded: list[dict[str, Any]]) -> None:
    first, second = (each["sharded_with_an_optimizer_of_its_own"] for each in sharded)
    assert first == second
    assert first.startswith("`optimizer` (SGD) cannot be used with `train.fsdp`: ")


@pytest.mark.slow
def test_early_stopping_stops_all(more: list[dict[str, Any]]) -> None:
    assert [each["patience"] for each in more] == [[4, True]] * 2


def test_a_time_limit_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "1")):
        monkeypatch.setenv(name, value)
    for value in ("soon", "0", "-3"):
        monkeypatch.setenv("PELLUCID_RANK_TIMEOUT", value)
        with pytest.raises(ConfigError, match=rf"^`PELLUCID_RANK_TIMEOUT` in the environment \(.*{value}.*\) is not a"):
            ranks.init_distributed(torch.device("cpu"))


def test_a_number_of_processes_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "two"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "1")):
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"^`WORLD_SIZE` in the environment \(.*two.*\) is not a number$"):
        ranks.is_distributed()


def test_each_process_of_a_machine_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, taken = torch.device("cuda"), list[torch.device]()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    assert ranks.local_device(cuda) == cuda, "one process takes the default"
    environment = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    for name, value in (environment | {"MASTER_ADDR": "localhost", "MASTER_PORT": "1"}).items():
        monkeypatch.setenv(name, value)
    assert ranks.local_device(cuda) == torch.device("cuda:1")
    assert taken == [torch.device("cuda:1")]
    assert ranks.local_device(torch.device("cpu")) == torch.device("cpu")
    monkeypatch.setenv("LOCAL_RANK", "3")
    with pytest.raises(ConfigError, match=r"^rank 5 has no GPU: this machine has 2, and 4 ranks$"):
        ranks.local_device(cuda)


WAITS = """
import os, signal, time, torch
from pellucid.errors import PellucidError
import pellucid.training.ranks
from pellucid.training.ranks import init_distributed

{before}
ranks = init_distributed(torch.device("cpu"))
if not ranks.is_first:
    {does}
try:
    ranks.barrier()
    print(ranks.gather(ranks.rank))
except PellucidError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_rank_that_works_alone_for_long_is_waited_for(tmp_path: Path) -> None:
    done = run_ranks(
        2, "-c", WAITS.format(before="", does="time.sleep(2.5)"), cwd=tmp_path, env={"PELLUCID_RANK_TIMEOUT": "1"}
    )
    assert [each.stdout for each in done] == ["[0, 1]\n"] * 2, done[0].stderr + done[1].stderr


HANGS = "os.kill(os.getpid(), signal.SIGSTOP)"
AT_ONCE = f"""
if os.environ["RANK"] == "1":
    pellucid.training.ranks.give_signs = lambda ranks: {HANGS}
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="a process is stopped by a signal")
@pytest.mark.parametrize(("before", "does"), [("", HANGS), (AT_ONCE, "pass")], ids=["later", "before its first sign"])
def test_a_rank_that_hangs_while_it_works_alone_is_not_waited_for(tmp_path: Path, before: str, does: str) -> None:
    program = WAITS.format(before=before, does=does)
    first, second = run_ranks(2, "-c", program, cwd=tmp_path, env={"PELLUCID_RANK_TIMEOUT": "1"})
    said = r"rank 1 \(process \d+ on .*\) has not answered for 1 s \(`PELLUCID_RANK_TIMEOUT`\) and was ended\n"
    assert re.fullmatch(said, first.stdout), first.stderr
    assert second.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_others_that_are_not_there_are_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9", "LOCAL_RANK": "1"}
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ranks, "JOINING", timedelta(seconds=0.5))
    with pytest.raises(LostRankError, match=r"rank 1 has not reached the other ranks at 127.0.0.1:9 within 0 s"):
        ranks.init_distributed(torch.device("cpu"))
