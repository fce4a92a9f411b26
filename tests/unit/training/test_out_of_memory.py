"""Where a batch does not fit: the same step in parts, at the same steps after an interruption, or a clear error."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from pellucid.data.batching import collate_batch
from pellucid.errors import PellucidError
from pellucid.model.transformer import Transformer
from pellucid.training.failures import is_out_of_memory, split_batch
from tests.tiny_model import tiny_config
from tests.unit.training.test_loop import batches, one_step
from tests.unit.training.toy_run import ToyRun, toy_shard

ON_A_CPU = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to ..."


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."), True),
        (RuntimeError(ON_A_CPU), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 8 GB)"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (MemoryError(), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_is_a_lack_of_memory(error: Exception, memory: bool) -> None:
    assert is_out_of_memory(error) == memory


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 8, 16])
def test_the_parts_of_a_batch_are_its_sentences(parts: int) -> None:
    shard, config = toy_shard(), tiny_config()
    batch = collate_batch(shard, np.arange(9), config)
    found = split_batch(batch, parts)
    assert len(found) == {1: 1, 2: 2, 3: 3, 4: 3, 8: 5, 16: 9}[parts]
    assert np.concatenate([part.sentences for part in found]).tolist() == list(range(9))
    assert sum(part.num_tokens for part in found) == batch.num_tokens
    for part in found:
        alone = collate_batch(shard, part.sentences, config)
        for name in ("src", "tgt_in", "tgt_out"):
            assert torch.equal(getattr(part, name), getattr(alone, name)), "no column of padding alone"


def limited(most: int, monkeypatch: pytest.MonkeyPatch, since: int = 0) -> list[int]:
    """Has a forward pass over more than `most` sentences fail, after so many passes; returns what was tried."""
    tried: list[int] = []
    states = Transformer.states

    def failing(model: Transformer, src: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        tried.append(len(src))
        if len(src) > most and len(tried) > since:
            raise RuntimeError(ON_A_CPU)
        return states(model, src, *rest)

    monkeypatch.setattr(Transformer, "states", failing)
    return tried


def test_in_parts_the_step_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [[0, 1, 2, 3, 4, 5, 6], [7, 8]]
    loss, norm, expected = one_step(ToyRun(tmp_path / "whole", dropout=0.0), *groups)
    tried = limited(2, monkeypatch)
    run = ToyRun(tmp_path / "parts", dropout=0.0)
    parts_loss, parts_norm, found = one_step(run, *groups)
    assert tried == [7, 4, 2, 2, 2, 1, 1, 1]
    assert run.trainer.state.parts == 4
    assert (parts_loss, parts_norm) == pytest.approx((loss, norm), rel=1e-5)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    text = "out of memory at step 1: batches are split into {} parts from now on; the gradient is the same up to "
    assert [said.partition("rounding")[0] for said in run.said] == [text.format(2), text.format(4)]


def test_what_had_been_added_up_before_memory_ran_out_does_not_count_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch of the step fits, the second does not."""
    groups = [[0, 1], [2, 3, 4, 5]]
    loss, norm, expected = one_step(ToyRun(tmp_path / "whole", dropout=0.0), *groups)
    assert limited(2, monkeypatch) == []
    parts_loss, parts_norm, found = one_step(ToyRun(tmp_path / "parts", dropout=0.0), *groups)
    assert (parts_loss, parts_norm) == pytest.approx((loss, norm), rel=1e-5)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_another_error_is_no_lack_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ToyRun(tmp_path)

    def failing(*_: object) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(Transformer, "states", failing)
    with pytest.raises(RuntimeError, match="something else"):
        run.trainer.train()
    assert run.trainer.state.parts == 1


def test_a_single_sentence_that_does_not_fit_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = limited(0, monkeypatch)
    run = ToyRun(tmp_path)
    (batch,) = batches(run, [0, 1, 2])
    with pytest.raises(
        PellucidError,
        match=rf"^out of memory at step 1 with one sentence at a time, the longest of {batch.src.size(1)} source and "
        rf"{batch.tgt_out.size(1)} target tokens$",
    ) as error:
        run.trainer.step([batch])
    assert tried == [3, 2, 1]
    assert "`data.max_length`" in error.value.hint
    assert not (tmp_path / "checkpoints").exists(), "nothing was trained, so nothing forbids other settings"


@pytest.mark.slow
def test_a_run_stays_in_parts_and_resumes_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def kill(step: int) -> None:
        if step == 8:
            raise Killed

    def short_of_memory(folder: str, at_step: Callable[[int], None]) -> ToyRun:
        """Memory gets short after 13 passes, at step 7, when the last checkpoint is that of step 6."""
        with monkeypatch.context() as patch:
            limited(3, patch, since=13)
            run = ToyRun(tmp_path / folder, at_step=at_step)
            run.trainer.train()
        return run

    unbroken = short_of_memory("unbroken", lambda step: None)
    (line,) = (line for line in unbroken.metrics if line["event"] == "out_of_memory")
    assert line == {"event": "out_of_memory", "step": 6, "parts": 2}
    with pytest.raises(Killed):
        short_of_memory("broken", kill)
    # Now there is memory enough; but step 7 was taken in parts, and so it is again.
    last = ToyRun(tmp_path / "broken")
    last.trainer.train()
    assert last.trainer.state.parts == 2
    assert last.metrics == unbroken.metrics
    assert last.has_the_weights_of(unbroken)
