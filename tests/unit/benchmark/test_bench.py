"""What is measured of a model."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pellucid.benchmark.bench import BenchConfiguration, Mode, list_configurations, list_modes, products
from pellucid.config import TASKS
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
            sides = list_configurations(TASKS[task], cores)
            assert len(set(sides)) == len(sides)
            assert all(side.engine == "torch" or not side.is_default for side in sides)
            compiled = list_configurations(TASKS[task], cores, "compiled")
            assert {side.engine for side in compiled if side.is_default} == {"compiled"}
            assert [side.engine for side in compiled if side.dtype == "bfloat16"].count("compiled") == 0
            assert BenchConfiguration("torch", "float32", 1, cores) in compiled
            assert all(0 < side.workers * side.threads <= cores for side in sides)
            assert any(side.engine == "ctranslate2" for side in sides) == (task == "translate")
            assert sum(side.is_default for side in sides) == (1 if cores == 1 else 2)
    assert [mode.name for mode in list_modes(TASKS["translate"])] == [
        "beam 5", "greedy", "beam 5, alone", "greedy, alone",
    ]  # fmt: skip


def test_a_mode_is_known_by_its_name() -> None:
    mode = Mode("beam 5", {"beam_size": 5})
    assert {mode: 1}[replace(mode)] == 1
