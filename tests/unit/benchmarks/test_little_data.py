"""The benchmark of few pairs: the settings that it tries, and a sweep of them."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.toy_task import SMALL

pytestmark = pytest.mark.slow


def options(what: str, **others: Any) -> Namespace:
    given = {"pairs": [5000], "languages": ["de", "fr"], "corpus": "multi30k", "out": Path("out")}
    return Namespace(what=what, **given | others)


def test_one_setting_is_changed_at_a_time(script: Callable[[str], ModuleType]) -> None:
    little = script("little_data")
    found = little.trials(options("settings"))
    base = found.pop("de-5000")
    assert len(found) == len(little.VARIANTS)
    changed = {
        name: {key for key in {*base, *values} if base.get(key) != values.get(key)} for name, values in found.items()
    }
    assert changed["de-5000-half-the-pieces"] == {"data.vocab_size"}
    assert changed["de-5000-deep"] == {"model.num_encoder_layers", "model.num_decoder_layers"}
    assert all(changed.values())


def test_a_narrow_model_has_twice_the_steps(script: Callable[[str], ModuleType]) -> None:
    found = script("little_data").trials(options("width", steps=10))
    assert found["de-5000-narrow"]["train.steps"] == 20
    assert found["de-5000-narrow"]["model.d_model"] == 64
    assert "model.d_model" not in found["de-5000"]


def test_a_curve_is_a_sweep(data: Path, in_this_process: Callable[[str], None], run_script: Callable[..., Any]) -> None:
    in_this_process("little_data")
    settings = [part for setting in SMALL for part in ("--set", setting)]
    given = ["--data-dir", data, "--pairs", 1000, "--languages", "de", "--out", data / "out"]
    result, _ = run_script("little_data", "curve", *given, *settings)
    assert [row["setting"] for row in result["sweep"]["settings"]] == ["de-1000"]


def test_sides_in_two_scripts_have_a_vocabulary_each(script: Callable[[str], ModuleType], tmp_path: Path) -> None:
    for side, letters in (("ko", "가나다라마바사"), ("en", "abcdefg")):
        (tmp_path / f"1000.ko-en.{side}").write_text(f"{letters}\n" * 20, encoding="utf-8")
    given = options("curve", pairs=[1000], languages=["ko"], corpus="messages", out=tmp_path)
    values = script("little_data").trials(given)["ko-1000"]
    assert (values["data.joint"], values["data.valid_src"]) == (False, "messages/val.ko.gz")
    assert values["data.vocab_size"] == values["data.target_vocab_size"] == 2000
    assert values["model.tie_embeddings"] == "decoder", "the sides cannot share a matrix"
