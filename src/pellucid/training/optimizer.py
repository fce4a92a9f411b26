"""The optimizer, its state on its way into a checkpoint and back, and the moving average of what it makes.

Any other optimizer of PyTorch's kind takes the place of the settings' own as an object. Its whole `state_dict` is saved
without pickle: tensors as safetensors, numbers and the structure around them as JSON.
"""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.config import TrainConfig
from pellucid.errors import CheckpointError, ConfigError
from pellucid.training.adam import PaperAdam, hyperparameters
from pellucid.training.loss import name_of
from pellucid.training.muon import Muon
from pellucid.weights.sharded import sharded_like
from pellucid.weights.tensors import parameters

Tensors = dict[str, Tensor]
Table = dict[str, Any]
"""A table that JSON can hold."""
Optimizer = torch.optim.Optimizer
MOMENTS = ("exp_avg", "exp_avg_sq", "step", "momentum_buffer")
"""The state of a parameter: of one that is Adam's the first three, of one that is Muon's the last."""
OF_LOSS = "loss."
"""Begins the name of a parameter that belongs to the loss."""


def make_optimizer(model: nn.Module, config: TrainConfig, loss: object = None) -> PaperAdam:
    """Returns the settings' optimizer over the trainable parameters of the model, and of a loss that has some."""
    trained = [p for p in named_parameters(model, loss).values() if p.requires_grad]
    return Muon(model, trained, config) if config.optimizer == "muon" else PaperAdam(trained, config)


def named_parameters(model: nn.Module, loss: object = None) -> dict[str, nn.Parameter]:
    """Returns what an optimizer may hold: the parameters of the model, and of a loss that is a module."""
    of_loss = loss.named_parameters() if isinstance(loss, nn.Module) else ()
    return dict(model.named_parameters()) | {OF_LOSS + name: p for name, p in of_loss}


def check_optimizer(optimizer: Any, known: Mapping[str, nn.Parameter]) -> str:
    """Checks that training can use and save an optimizer; returns a warning about parameters that it leaves out.

    Of one that is not the settings' it notes the rate that each group has now, for their ratio.

    Args:
        known: the parameters of model and loss, by name.

    Raises ConfigError where it cannot be used.
    """
    lacks = [n for n in ("param_groups", "step", "state_dict", "load_state_dict") if not hasattr(optimizer, n)]
    if not lacks and not all("lr" in group for group in optimizer.param_groups):
        lacks = ["param_groups[0]['lr']"]
    if lacks:
        raise ConfigError(
            f"`optimizer` ({name_of(optimizer)}) has no `{lacks[0]}`",
            "hand over a torch.optim.Optimizer, or a function that makes one of a model",
        )
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ConfigError(
            f"`optimizer` ({name_of(optimizer)}) computes the loss several times a step, through a closure; training "
            "takes one gradient a step",
            "use an optimizer whose step() needs no closure, as SGD, Adam, Adagrad, RMSprop and Muon",
        )
    held, own = _held(optimizer), {id(p) for p in known.values()}
    strangers = sum(id(p) not in own for p in held)
    if strangers:
        raise ConfigError(
            f"{strangers} of the {len(held)} parameters of `optimizer` ({name_of(optimizer)}) are not the model's",
            "make it of the model that is trained: hand over a function, as `lambda model: SGD(model.parameters())`",
        )
    if not isinstance(optimizer, PaperAdam):
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", float(group["lr"]))
    saved_state(optimizer, known)
    taken = {id(p) for p in held}
    left = [name for name, p in known.items() if p.requires_grad and id(p) not in taken]
    if not left:
        return ""
    return f"{len(left)} parameters are in no group of the optimizer and stay as they are (first: `{left[0]}`)"


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Sets the learning rate of a step: of the first group the rate itself; the others keep their ratio to it."""
    first = optimizer.param_groups[0].get("initial_lr")
    for group in optimizer.param_groups:
        value = rate * (group["initial_lr"] / first) if first else rate
        if isinstance(group["lr"], Tensor):  # one that runs within a CUDA graph
            group["lr"].fill_(value)
        else:
            group["lr"] = value


def saved_state(optimizer: Optimizer, known: Mapping[str, nn.Parameter]) -> tuple[Tensors, Table | None]:
    """Splits all of an optimizer's state into named tensors and a table for JSON.

    Of the settings' Adam the moments by parameter are all there is: its table is None.

    Args:
        known: the parameters of model and loss, by name.

    Raises ConfigError for state that is neither number, text nor tensor, in lists, tuples and dicts or not.
    """
    if isinstance(optimizer, PaperAdam) and optimizer.as_made == hyperparameters(optimizer):
        held = {name: optimizer.state[p] for name, p in known.items() if p in optimizer.state}
        return {f"{moment}.{name}": kept for name, state in held.items() for moment, kept in state.items()}, None
    packing = _Packing(optimizer, known)
    state = packing.packed(optimizer.state_dict())
    return packing.tensors, {"optimizer": name_of(optimizer), "parameters": packing.names, "state": state}


def restore_state(
    optimizer: Optimizer, known: Mapping[str, nn.Parameter], tensors: Tensors, table: Table | None
) -> None:
    """Sets an optimizer to what `saved_state` returned. Raises CheckpointError where that is of another optimizer."""
    if table is None:
        if not isinstance(optimizer, PaperAdam):
            raise _another("the Adam of the settings", name_of(optimizer))
        optimizer.state.clear()
        for name, parameter in known.items():
            # Fused Adam counts steps in single precision, beside the parameter.
            read = {m: tensors[f"{m}.{name}"].to(parameter.device) for m in MOMENTS if f"{m}.{name}" in tensors}
            state = {m: sharded_like(tensor, parameter) for m, tensor in read.items()}
            if state:
                optimizer.state[parameter] = state
        return
    held = _held(optimizer)
    names, device = _names(held, known), held[0].device
    if table["optimizer"] != name_of(optimizer):
        raise _another(table["optimizer"], name_of(optimizer))
    if table["parameters"] != names:
        raise _another(
            f"{table['optimizer']} over {len(table['parameters'])} parameters",
            f"{name_of(optimizer)} over {len(names)}, or over the same in another order",
        )
    state = _unpacked(table["state"], tensors, device)
    if type(optimizer).load_state_dict is not Optimizer.load_state_dict:
        optimizer.load_state_dict(state)
        return
    # PyTorch's own would cast each tensor to the type of its parameter; so only the groups go that way.
    optimizer.load_state_dict({"state": {}, "param_groups": state["param_groups"]})
    for key, entry in state["state"].items():
        optimizer.state[held[key] if key in range(len(held)) else key] = entry


def _held(optimizer: Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _names(held: list[nn.Parameter], known: Mapping[str, nn.Parameter]) -> list[str]:
    names = {id(p): name for name, p in known.items()}
    return [names[id(p)] for p in held]


def _another(saved: str, now: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint holds the state of another optimizer: of {saved}, where this run has {now}",
        "hand over the optimizer that the run began with, or start over with `fresh=True`",
    )


class _Packing:
    """Takes tensors out of a nested state and leaves their names in their places.

    Each object of the JSON has one key that says what it stands for: {"tensor": name}, {"tuple": [...]},
    {"dict": [[key, value], ...]}, as the keys of a dict need not be text. A tensor on the CPU of a model elsewhere, as
    Adam's count of steps may be, has {"cpu": true} beside its name.
    """

    def __init__(self, optimizer: Optimizer, known: Mapping[str, nn.Parameter]) -> None:
        held = _held(optimizer)
        self.names, self.tensors = _names(held, known), Tensors()
        self._optimizer, self._is_on_cpu = name_of(optimizer), held[0].is_cpu
        self._seen: dict[int, str] = {}

    def packed(self, value: Any, path: tuple[Any, ...] = ()) -> Any:
        """Returns a value, which stands at `path` of the state, as JSON has it."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Tensor) and value.layout == torch.strided and not value.is_quantized:
            return {"tensor": self._name(value, path)} | ({"cpu": True} if value.is_cpu and not self._is_on_cpu else {})
        if type(value) is list:
            return [self.packed(each, (*path, i)) for i, each in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": [self.packed(each, (*path, i)) for i, each in enumerate(value)]}
        if isinstance(value, dict) and all(isinstance(key, str | int) for key in value):
            return {"dict": [[key, self.packed(each, (*path, key))] for key, each in value.items()]}
        raise ConfigError(
            f"the state of `optimizer` ({self._optimizer}) cannot be saved: `{'.'.join(map(str, path))}` is of the "
            f"type {type(value).__name__}",
            "what can be saved is numbers, text and dense tensors, and lists, tuples and dicts of these",
        )

    def _name(self, tensor: Tensor, path: tuple[Any, ...]) -> str:
        """Notes a tensor under a name; one that stands at two places has one name, and is one again when it is read."""
        if id(tensor) not in self._seen:
            of_parameter = len(path) > 2 and path[0] == "state" and path[1] in range(len(self.names))
            name = ".".join(map(str, (*path[2:], self.names[path[1]]) if of_parameter else path))
            while name in self.tensors:  # keys with dots in them
                name += "'"
            self._seen[id(tensor)], self.tensors[name] = name, tensor
        return self._seen[id(tensor)]


def _unpacked(value: Any, tensors: Tensors, device: torch.device) -> Any:
    """Returns what _Packing has packed, with tensors on `device` but for those that stayed on the CPU."""
    if isinstance(value, list):
        return [_unpacked(each, tensors, device) for each in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        name = value["tensor"]
        if "cpu" not in value:
            tensors[name] = tensors[name].to(device)
        return tensors[name]
    if "tuple" in value:
        return tuple(_unpacked(each, tensors, device) for each in value["tuple"])
    return {key: _unpacked(each, tensors, device) for key, each in value["dict"]}


class MovingAverage:
    """Holds the average of a model's weights over steps, with `decay` a step, which is judged in their place.

    The first steps weigh more, as the average must first forget the random weights that it begins with: at step t the
    decay is min(decay, (1 + t) / (10 + t)), as TensorFlow's ExponentialMovingAverage has it.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = model
        self.decay = decay
        self.tensors: Tensors = {name: p.detach().clone() for name, p in parameters(model).items()}

    @torch.no_grad()
    def update(self, step: int, stopped: Tensor | None = None) -> None:
        """Moves towards the weights after `step`, counted from 1; not where `stopped`, a number on a GPU, is 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        towards: Any = 1 - decay if stopped is None else (1 - decay) * (1 - stopped)
        for name, parameter in parameters(self.model).items():
            if parameter.is_floating_point():
                self.tensors[name].lerp_(parameter, towards if stopped is None else towards.to(parameter.dtype))
            else:  # a part of one's own may count
                self.tensors[name].copy_(parameter)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Makes the average the model's weights within the context."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for name, parameter in parameters(self.model).items():
            kept = parameter.detach().clone()
            parameter.data.copy_(self.tensors[name])
            self.tensors[name].copy_(kept)
