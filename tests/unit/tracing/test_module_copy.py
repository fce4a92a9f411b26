"""A copy of a model's modules: the same tensors and outputs, with hooks, modes and attributes of its own."""

from functools import partial, update_wrapper
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.tracing.module_copy import copy_in_eval_mode, copy_module_tree
from tests.unit.tracing.models import classifier, source, transformer


def test_it_holds_the_same_tensors_and_computes_the_same() -> None:
    model, src, tgt = transformer(), source(6), source(4)
    copied = copy_module_tree(model)
    pairs = zip(model.named_parameters(), copied.named_parameters(), strict=True)
    assert all(name == other and one is two for (name, one), (other, two) in pairs)
    assert [name for name, _ in copied.named_modules()] == [name for name, _ in model.named_modules()]
    assert not set(copied.modules()) & set(model.modules())
    assert torch.equal(copied(src, tgt), model(src, tgt))


def test_modes_and_hooks_are_its_own() -> None:
    model, calls = classifier(), []
    copied = copy_module_tree(model)
    copied.train()
    copied.encoder.register_forward_hook(lambda *_: calls.append("copy"))
    assert not any(module.training for module in model.modules())
    model(source())
    assert calls == []
    copied(source())
    assert calls == ["copy"]


def test_hooks_of_the_model_see_the_copy_as_well() -> None:
    model, calls = classifier(), []
    model.encoder.register_forward_hook(lambda module, *_: calls.append(module))
    copied = copy_module_tree(model)
    copied(source())
    assert calls == [copied.encoder]


def test_shared_modules_stay_shared() -> None:
    shared = nn.Linear(2, 2)
    copied = copy_module_tree(nn.Sequential(shared, nn.ReLU(), shared))
    assert copied[0] is copied[2]
    assert copied[0] is not shared


def with_method(model: nn.Module) -> None:
    """A bound method in place of `forward`."""
    model.forward = type(model).forward.__get__(model)


def with_partial(model: nn.Module) -> None:
    """What accelerate puts in place of `forward`."""
    before = model._before = model.forward  # type: ignore[assignment]

    def forward(module: Any, *inputs: Any) -> Any:
        return module._before(*inputs)

    model.forward = update_wrapper(partial(forward, model), before)


@pytest.mark.parametrize("change", [with_method, with_partial])
def test_a_method_put_in_place_of_forward_is_the_copys(change: Any) -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 3)).train()
    change(model)
    x = torch.randn(4, 3)
    assert torch.equal(copy_module_tree(model).eval()(x), model[1](x))


def test_a_model_in_evaluation_is_not_copied() -> None:
    model = transformer()
    assert copy_in_eval_mode(model) is model
    model.decoder.layers[1].train()
    copied = copy_in_eval_mode(model)
    assert not any(module.training for module in copied.modules())
    assert model.decoder.layers[1].training
    assert not model.training
