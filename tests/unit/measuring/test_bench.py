"""What is measured of a model, and what is said of it."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pellucid.config import TASKS
from pellucid.measuring.bench import Bench, LeftOut, Mode, Row, Side, modes_of, products, sides_of
from pellucid.measuring.report import recommendation, report
from pellucid.model.families import build_model
from tests.tiny_model import tiny_config, words


class Holder:
    """What has a model."""

    def __init__(self, **fields: Any) -> None:
        self.model = build_model(tiny_config(**fields)).eval()


def products_with_weights(model: torch.nn.Module, *ids: torch.Tensor) -> int:
    """What PyTorch counts of a pass, without the products of tokens with tokens."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*ids)
    counted = counter.get_flop_counts()["Global"]
    return sum(count for name, count in counted.items() if "bmm" not in str(name) and "attention" not in str(name))


@pytest.mark.parametrize(("read", "written"), [(1, 1), (7, 4), (3, 12)])
def test_the_products_of_a_translation_are_those_that_torch_counts(read: int, written: int) -> None:
    holder = Holder(d_ff=24)
    counted = products_with_weights(holder.model, words(19, 1, read + 1), words(19, 1, written + 1))
    assert products(holder, read, written, 1) == counted  # type: ignore[arg-type]
    wider = products(holder, read, written, 5) - counted  # type: ignore[arg-type]
    assert wider == 4 * (products(holder, read, written, 1) - products(holder, read, -1, 1))  # type: ignore[arg-type]


def test_the_products_of_one_stack() -> None:
    encoder = Holder(num_decoder_layers=0, num_classes=2, tie_embeddings="none")
    head = sum(p.numel() for name, p in encoder.model.named_parameters() if p.dim() == 2 and name.startswith("head."))
    counted = products_with_weights(encoder.model, words(19, 1, 6))
    assert head > 0
    assert products(encoder, 6, 0, 1) + 2 * head == counted  # type: ignore[arg-type]
    decoder = Holder(num_encoder_layers=0)
    counted = products_with_weights(decoder.model, words(19, 1, 9))
    prompt = 2 * sum(p.numel() for p in decoder.model.decoder.parameters() if p.dim() == 2) * 5
    assert products(decoder, 5, 8, 1) - prompt == counted  # type: ignore[arg-type]


def test_sides_share_the_cores_and_are_those_of_a_task() -> None:
    for cores in (1, 2, 3, 8, 64):
        for task in ("translate", "classify", "generate"):
            sides = sides_of(TASKS[task], cores)
            assert len(set(sides)) == len(sides)
            assert all(0 < side.workers * side.threads <= cores for side in sides)
            assert any(side.engine == "ctranslate2" for side in sides) == (task == "translate")
            assert sum(side.is_plain for side in sides) == (1 if cores == 1 else 2)
    assert [mode.name for mode in modes_of(TASKS["translate"])] == [
        "beam 5", "greedy", "beam 5, alone", "greedy, alone",
    ]  # fmt: skip


PLAIN, WORKERS = Side("torch", "float32", 1, 2), Side("torch", "float32", 2, 1)
ELSEWHERE = Side("ctranslate2", "int8", 1, 2)


def row(side: Side, speed: float, mode: str = "beam 5", spread: float = 0.1) -> Row:
    values = {"median": speed, "min": speed * (1 - spread), "max": speed * (1 + spread)}
    alone = {"median": 0.02, "min": 0.01, "max": 0.05, "p95": 0.04} if "alone" in mode else None
    return Row(mode, alone is not None, side, 40, values, values, 0.25, alone, 250.0)


def bench(*rows: Row, **fields: Any) -> Bench:
    model = {
        "folder": "my run", "task": "translate", "family": "encoder-decoder", "parameters": 1000, "megabytes": 0.1,
        "d_model": 8, "encoder_layers": 2, "decoder_layers": 1, "vocabulary": 19,
    }  # fmt: skip
    given = {"model": model, "machine": {"cpu": "x", "cores": 2, "threads": 2}, "versions": {}, "rounds": 3}
    text = {"from": "in", "lines": 40, "tokens_a_line": 7.5}
    peaks = {"float32": {"median": 300.0, "min": 290.0, "max": 310.0}}
    return Bench(**given | {"text": text, "peak_gflops": peaks, "rows": list(rows)} | fields)


def test_what_is_clearly_faster_is_recommended() -> None:
    assert recommendation(bench(row(PLAIN, 100), row(WORKERS, 150))) == [
        "beam 5: 150 sentences a second, 1.5 times the plain command:\n"
        "  pellucid translate 'my run' --beam-size 5 --workers 2 --threads 1 < input.txt > output.txt"
    ]


def test_what_may_be_chance_is_not() -> None:
    assert recommendation(bench(row(PLAIN, 100), row(WORKERS, 115))) == [
        "beam 5: 100 sentences a second, nothing that was tried is clearly faster than that:\n"
        "  pellucid translate 'my run' --beam-size 5 < input.txt > output.txt"
    ]


def test_another_engine_and_too_few_rounds_are_told() -> None:
    rows = [row(PLAIN, 100, "greedy, alone"), row(ELSEWHERE, 400, "greedy, alone")]
    said = recommendation(bench(*rows, rounds=1))
    assert said[0] == (
        "greedy, alone: 20 ms a line, 4 times the plain command:\n"
        "  pellucid translate 'my run' --beam-size 1 --engine ctranslate2 --dtype int8"
    )
    assert said[1].startswith("Another engine's answers may differ")
    assert said[2].startswith("Only 1 round of 3 fitted")


def test_a_report_has_the_fastest_first_and_what_was_not_measured() -> None:
    left = LeftOut("ctranslate2", "int8", "it is not installed")
    lines = report(bench(row(PLAIN, 100), row(WORKERS, 150), left_out=[left]))
    assert lines[0].startswith("model: a translator, 1,000 parameters (0.1 MB), encoder-decoder, 2 + 1 layers of 8")
    assert lines[2] == "peak of matrix products in GFLOP/s: float32 300 (290-310)"
    speeds = [line for line in lines if "sentences/s" in line]
    assert speeds == [
        "  torch float32, 2 workers x 1 thread: 150 (135-165) sentences/s, 150 tokens/s, 25.0 % of the peak, 250 MB",
        "  torch float32, 1 process x 2 threads: 100 (90-110) sentences/s, 100 tokens/s, 25.0 % of the peak, 250 MB",
    ]
    assert "  ctranslate2 int8: it is not installed" in lines


def test_a_mode_is_known_by_its_name() -> None:
    mode = Mode("beam 5", {"beam_size": 5})
    assert {mode: 1}[replace(mode)] == 1
