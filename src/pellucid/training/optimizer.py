"""The optimizer, its state in a checkpoint, and the moving average of the weights.

Any PyTorch optimizer can replace the one of the settings. Its whole `state_dict` is saved without pickle: tensors as
safetensors, numbers and the nested structure as JSON.
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
from pellucid.training.loss import get_callable_name
from pellucid.training.muon import Muon
from pellucid.weights.sharded import shard_like
from pellucid.weights.tensors import parameters

Tensors = dict[str, Tensor]
Table = dict[str, Any]
"""A table that can be stored as JSON."""
Optimizer = torch.optim.Optimizer
MOMENTS = ("exp_avg", "exp_avg_sq", "step", "momentum_buffer")
"""The state of a parameter: with Adam the first three, with Muon the last."""
OF_LOSS = "loss."
"""The prefix of the names of the loss's parameters."""


def make_optimizer(model: nn.Module, config: TrainConfig, loss: object = None) -> PaperAdam:
    """Returns the settings' optimizer over the trainable parameters of the model, and of the loss if it has any."""
    trained = [p for p in named_parameters(model, loss).values() if p.requires_grad]
    return Muon(model, trained, config) if config.optimizer == "muon" else PaperAdam(trained, config)


def named_parameters(model: nn.Module, loss: object = None) -> dict[str, nn.Parameter]:
    """Returns the parameters of the model, and of the loss if it is a module, by name."""
    of_loss = loss.named_parameters() if isinstance(loss, nn.Module) else ()
    return dict(model.named_parameters()) | {OF_LOSS + name: p for name, p in of_loss}


def check_optimizer(optimizer: Any, known: Mapping[str, nn.Parameter]) -> str:
    """Checks that training can use and save an optimizer; returns a warning about parameters that it leaves out.

    In a custom optimizer it stores the current learning rate of each group, for their ratio.

    Args:
        known: the parameters of model and loss, by name.

    Raises ConfigError if it cannot be used.
    """
    lacks = [n for n in ("param_groups", "step", "state_dict", "load_state_dict") if not hasattr(optimizer, n)]
    if not lacks and not all("lr" in group for group in optimizer.param_groups):
        lacks = ["param_groups[0]['lr']"]
    if lacks:
        raise ConfigError(
            f"`optimizer` ({get_callable_name(optimizer)}) has no `{lacks[0]}`",
            "pass a torch.optim.Optimizer, or a function that makes one from a model",
        )
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ConfigError(
            f"`optimizer` ({get_callable_name(optimizer)}) computes the loss several times per step, through a "
            "closure; training computes one gradient per step",
            "use an optimizer whose step() requires no closure, such as SGD, Adam, Adagrad, RMSprop and Muon",
        )
    held, own = _list_parameters(optimizer), {id(p) for p in known.values()}
    unknown = sum(id(p) not in own for p in held)
    if unknown:
        raise ConfigError(
            f"{unknown} of the {len(held)} parameters of `optimizer` ({get_callable_name(optimizer)}) do not belong to "
            "the model",
            "make it from the trained model: pass a function, as `lambda model: SGD(model.parameters())`",
        )
    if not isinstance(optimizer, PaperAdam):
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", float(group["lr"]))
    split_state(optimizer, known)
    taken = {id(p) for p in held}
    left = [name for name, p in known.items() if p.requires_grad and id(p) not in taken]
    if not left:
        return ""
    return f"{len(left)} parameters are in no group of the optimizer and are not trained (first: `{left[0]}`)"


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Sets the learning rate of a step: `rate` for the first group; the others keep their ratio to it."""
    first = optimizer.param_groups[0].get("initial_lr")
    for group in optimizer.param_groups:
        value = rate * (group["initial_lr"] / first) if first else rate
        if isinstance(group["lr"], Tensor):  # a rate that is read within a CUDA graph
            group["lr"].fill_(value)
        else:
            group["lr"] = value


def split_state(optimizer: Optimizer, known: Mapping[str, nn.Parameter]) -> tuple[Tensors, Table | None]:
    """Splits all of an optimizer's state into named tensors and a table for JSON.

    For the settings' Adam the state is only the moments by parameter, and the table is None.

    Args:
        known: the parameters of model and loss, by name.

    Raises ConfigError for state other than numbers, text and tensors, and lists, tuples and dicts of them.
    """
    if isinstance(optimizer, PaperAdam) and optimizer.as_made == hyperparameters(optimizer):
        held = {name: optimizer.state[p] for name, p in known.items() if p in optimizer.state}
        return {f"{moment}.{name}": kept for name, state in held.items() for moment, kept in state.items()}, None
    packing = _Packing(optimizer, known)
    state = packing.pack(optimizer.state_dict())
    return packing.tensors, {"optimizer": get_callable_name(optimizer), "parameters": packing.names, "state": state}


def restore_state(
    optimizer: Optimizer, known: Mapping[str, nn.Parameter], tensors: Tensors, table: Table | None
) -> None:
    """Loads a result of `split_state` into an optimizer. Raises CheckpointError if it belongs to another optimizer."""
    if table is None:
        if not isinstance(optimizer, PaperAdam):
            raise _another("the Adam of the settings", get_callable_name(optimizer))
        optimizer.state.clear()
        for name, parameter in known.items():
            # Fused Adam counts steps in single precision, on the parameter's device.
            read = {m: tensors[f"{m}.{name}"].to(parameter.device) for m in MOMENTS if f"{m}.{name}" in tensors}
            state = {m: shard_like(tensor, parameter) for m, tensor in read.items()}
            if state:
                optimizer.state[parameter] = state
        return
    held = _list_parameters(optimizer)
    names, device = _names(held, known), held[0].device
    if table["optimizer"] != get_callable_name(optimizer):
        raise _another(table["optimizer"], get_callable_name(optimizer))
    if table["parameters"] != names:
        raise _another(
            f"{table['optimizer']} over {len(table['parameters'])} parameters",
            f"{get_callable_name(optimizer)} over {len(names)}, or over the same in another order",
        )
    state = _unpack(table["state"], tensors, device)
    if type(optimizer).load_state_dict is not Optimizer.load_state_dict:
        optimizer.load_state_dict(state)
        return
    # PyTorch's load_state_dict would cast each tensor to its parameter's dtype; so it loads only the groups.
    optimizer.load_state_dict({"state": {}, "param_groups": state["param_groups"]})
    for key, entry in state["state"].items():
        optimizer.state[held[key] if key in range(len(held)) else key] = entry


def _list_parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _names(held: list[nn.Parameter], known: Mapping[str, nn.Parameter]) -> list[str]:
    names = {id(p): name for name, p in known.items()}
    return [names[id(p)] for p in held]


def _another(saved: str, now: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint has the state of another optimizer: {saved}, but this run has {now}",
        "pass the optimizer that the run was started with, or start over with `fresh=True`",
    )


class _Packing:
    """Replaces the tensors in a nested state by their names.

    Each object of the JSON has one key, its type: {"tensor": name}, {"tuple": [...]}, {"dict": [[key, value], ...]}, as
    the keys of a dict need not be text. A tensor on the CPU although the model is elsewhere, such as Adam's step count,
    also has {"cpu": true}.
    """

    def __init__(self, optimizer: Optimizer, known: Mapping[str, nn.Parameter]) -> None:
        held = _list_parameters(optimizer)
        self.names, self.tensors = _names(held, known), Tensors()
        self._optimizer, self._is_on_cpu = get_callable_name(optimizer), held[0].is_cpu
        self._seen: dict[int, str] = {}

    def pack(self, value: Any, path: tuple[Any, ...] = ()) -> Any:
        """Returns the JSON of a value, which is at `path` in the state."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Tensor) and value.layout == torch.strided and not value.is_quantized:
            return {"tensor": self._name(value, path)} | ({"cpu": True} if value.is_cpu and not self._is_on_cpu else {})
        if type(value) is list:
            return [self.pack(each, (*path, i)) for i, each in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": [self.pack(each, (*path, i)) for i, each in enumerate(value)]}
        if isinstance(value, dict) and all(isinstance(key, str | int) for key in value):
            return {"dict": [[key, self.pack(each, (*path, key))] for key, each in value.items()]}
        raise ConfigError(
            f"the state of `optimizer` ({self._optimizer}) cannot be saved: `{'.'.join(map(str, path))}` is of the "
            f"type {type(value).__name__}",
            "numbers, strings and dense tensors can be saved, and lists, tuples and dicts of them",
        )

    def _name(self, tensor: Tensor, path: tuple[Any, ...]) -> str:
        """Stores a tensor under a name. A tensor that occurs twice gets one name, and is shared again after loading."""
        if id(tensor) not in self._seen:
            of_parameter = len(path) > 2 and path[0] == "state" and path[1] in range(len(self.names))
            name = ".".join(map(str, (*path[2:], self.names[path[1]]) if of_parameter else path))
            while name in self.tensors:  # keys with dots in them
                name += "'"
            self._seen[id(tensor)], self.tensors[name] = name, tensor
        return self._seen[id(tensor)]


def _unpack(value: Any, tensors: Tensors, device: torch.device) -> Any:
    """Returns the state from its JSON by _Packing, with tensors on `device` unless marked as on the CPU."""
    if isinstance(value, list):
        return [_unpack(each, tensors, device) for each in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        name = value["tensor"]
        if "cpu" not in value:
            tensors[name] = tensors[name].to(device)
        return tensors[name]
    if "tuple" in value:
        return tuple(_unpack(each, tensors, device) for each in value["tuple"])
    return {key: _unpack(each, tensors, device) for key, each in value["dict"]}


class MovingAverage:
    """The exponential moving average of a model's weights, which is validated instead of them.

    The first steps weigh more, to reduce the influence of the random initial weights: at step t the decay rate is
    min(decay, (1 + t) / (10 + t)), as in TensorFlow's ExponentialMovingAverage.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = model
        self.decay = decay
        self.tensors: Tensors = {name: p.detach().clone() for name, p in parameters(model).items()}

    @torch.no_grad()
    def update(self, step: int, stopped: Tensor | None = None) -> None:
        """Moves towards the weights after `step`, counted from 1, unless `stopped`, a number on a GPU, is 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        towards: Any = 1 - decay if stopped is None else (1 - decay) * (1 - stopped)
        for name, parameter in parameters(self.model).items():
            if parameter.is_floating_point():
                self.tensors[name].lerp_(parameter, towards if stopped is None else towards.to(parameter.dtype))
            else:  # a custom module may have an integer counter
                self.tensors[name].copy_(parameter)

    @contextmanager
    def swap_in(self) -> Iterator[None]:
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
