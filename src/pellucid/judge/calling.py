"""Calls a learner's functions and classes: arguments by the names of their parameters, errors with their line.

Tutorials name the same thing differently (`d_model`, `embed_size`, `hidden_dim`), and order it differently. A parameter
gets the value of its name; one with an unknown name gets, if it is required, the next value in the paper's order.
"""

import inspect
import re
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

SECONDS = 10.0
"""The most seconds that one exercise may take."""

Names = Mapping[str, tuple[str, ...]]
"""For each role the names of parameters that have it, in lower case without underscores."""

SIZES: Names = {
    "d_model": ("dmodel", "embeddim", "embedsize", "embdim", "hiddendim", "hiddensize", "dim", "d", "nembd", "modeldim",
                "embeddingdim", "embeddingsize", "emb", "demb", "dembed", "dhidden", "size", "features",
                "normalizedshape",
                "din", "dout", "width", "numhiddens", "modelsize", "units", "hidden", "embed", "normshape"),
    "num_heads": ("numheads", "nheads", "nhead", "heads", "h", "head", "numattentionheads", "headnum", "nhd",
                  "numhead"),
    "head_dim": ("headdim", "dk", "dv", "dhead", "headsize", "headwidth", "dq", "dkey", "dvalue", "dimk"),
    "d_ff": ("dff", "ffdim", "dimfeedforward", "ffndim", "hidden2", "intermediatesize", "dinner", "ffhidden",
             "ffnhidden",
             "pfdim", "dimff", "innerdim", "ffnnumhiddens", "ffsize", "mlpdim"),
    "expansion": ("forwardexpansion", "expansion", "expansionfactor", "mlpratio"),
    "dropout": ("dropout", "dropoutratio", "dropoutp", "p", "pdrop", "rate", "droprate", "dropoutrate", "drop",
                "dropoutprob", "dropprob", "dropoutprobability",
                "attentiondropout", "attndropout"),
    "bias": ("bias", "usebias", "qkvbias"),
    "device": ("device",),
    "dtype": ("dtype",),
    "max_length": ("maxlen", "maxlength", "maxseqlen", "maxpositions", "contextlength", "blocksize", "maxseqlength",
                   "maxpositionembeddings", "seqlen", "seqlength", "length", "pos", "npositions", "t", "numpositions"),
    "config": ("config", "cfg", "args", "hparams", "opt", "params", "configuration"),
    "eps": ("eps", "epsilon", "layernormeps"),
}  # fmt: skip


class CallError(Exception):
    """Is raised for an error in the learner's code: its type and message, with the line where it has one."""


class Undecided(Exception):
    """Is raised if a parameter has no value that the judge knows."""


class TimeExceeded(BaseException):
    """Is raised in the learner's code after its time; a BaseException, which `except Exception` does not catch."""


@contextmanager
def limit_time(seconds: float = SECONDS) -> Iterator[None]:
    """Raises TimeExceeded after `seconds`, in the main thread of a system with SIGALRM; elsewhere there is no limit."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeExceeded

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def quiet_torch(seed: int = 0) -> Iterator[None]:
    """Makes double precision the default and seeds the random numbers; restores both at exit."""
    before = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def normalize_name(name: str) -> str:
    """Returns a name in lower case without underscores."""
    return re.sub(r"[\W_]", "", name).lower()


def find_role(name: str, names: Names) -> str | None:
    """Returns the role of a parameter by its name, or None."""
    plain = normalize_name(name)
    for role, known in names.items():
        if plain in known or plain == normalize_name(role):
            return role
    return None


def list_parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Returns the parameters of a callable without `self`; None for a builtin without a signature."""
    target = function.forward if isinstance(function, nn.Module) else function
    try:
        return list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return None


def bind(
    function: Callable[..., Any], values: Mapping[str, Any], names: Names, order: Sequence[str] = ()
) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments of a call of `function`, from `values` by role.

    A required parameter with an unknown name gets the first role in `order` that no name has taken. Raises Undecided if
    none is left.
    """
    parameters = list_parameters(function)
    if parameters is None:
        return [values[role] for role in order if role in values], {}
    roles = [find_role(each.name, names) for each in parameters]
    left = [role for role in order if role in values and role not in roles]
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter, role in zip(parameters, roles, strict=True):
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            if not isinstance(function, type):
                args += [values[each] for each in left]
                left = []
            continue
        required = parameter.default is parameter.empty
        if role is None or role not in values:
            if not required:
                continue
            if not left:
                raise Undecided(parameter.name)
            role = left.pop(0)
        if parameter.kind is parameter.KEYWORD_ONLY or kwargs or len(args) < parameters.index(parameter):
            kwargs[parameter.name] = values[role]
        else:
            args.append(values[role])
    return args, kwargs


class Settings(SimpleNamespace):
    """A configuration object that knows every usual name of a size, as an attribute and as a key."""

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __getattr__(self, key: str) -> Any:
        role = None if key.startswith("__") else find_role(key, SIZES)
        if role is None:
            if "drop" in key:
                return 0.0
            raise AttributeError(key)
        return self.__dict__["sizes"][role]

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of a name, or `default`."""
        return getattr(self, key, default)


def construct(
    factory: Callable[..., Any], sizes: Mapping[str, Any], order: Sequence[str] = ("d_model", "num_heads"),
    parts: Names | None = None,
) -> Any:  # fmt: skip
    """Returns an instance of a learner's class, with sizes by the names of its parameters.

    Raises CallError for an error in its code, and Undecided for a required parameter that the judge does not know.
    """
    values = {**sizes, "dropout": 0.0, "bias": True, "device": "cpu", "dtype": torch.float64, "eps": 1e-6}
    values["config"] = Settings(sizes=values)
    values.setdefault("expansion", 2)
    args, kwargs = bind(factory, values, {**(parts or {}), **SIZES}, order)
    made = run(factory, *args, **kwargs)
    if isinstance(made, nn.Module):
        made = prepare(made)
    return made


def prepare(module: nn.Module, seed: int = 1) -> nn.Module:
    """Makes a module ready for comparison: double precision, no dropout, and parameters that are all different.

    The fresh values make a bias of zeros, or a norm's ones, count in the comparison.
    """
    module = module.double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point():
                values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(values * 0.5 + (0.1 if parameter.dim() > 1 else 0.7))
    return module


def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls the learner's code. Raises CallError with type, message and line of an error there."""
    try:
        return function(*args, **kwargs)
    except (Exception, SystemExit) as error:
        raise CallError(describe_error(error)) from error


def describe_error(error: BaseException) -> str:
    """Returns type, message and the innermost line of an error that is neither in Pellucid nor in a library."""
    message = " ".join(str(error).split())
    text = f"{type(error).__name__}: {message[:160]}" if message else type(error).__name__
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{type(error).__name__}: {error.msg} ({_short(error.filename or '')}, line {error.lineno})"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__)
        if not re.search(r"site-packages|[/\\]pellucid[/\\]judge[/\\]|<frozen|[/\\]lib[/\\]python", frame.filename)
    ]  # fmt: skip
    return f"{text} ({_short(frames[-1].filename)}, line {frames[-1].lineno})" if frames else text


def _short(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def to_tensor(output: Any) -> Any:
    """Returns an output as a tensor: of a tuple or a dict the first element, of an array or a list the values."""
    if isinstance(output, dict):
        output = next(iter(output.values()), None)
    if isinstance(output, tuple) and output and (len(output) < 2 or not isinstance(output[0], int | float)):
        output = output[0]
    if isinstance(output, Tensor) or output is None:
        return output
    try:
        return torch.as_tensor(output)
    except (TypeError, ValueError, RuntimeError):
        return output


def to_numpy(value: Any) -> Any:
    """Returns a tensor as an array, and any other value as it is."""
    return value.detach().numpy().copy() if isinstance(value, Tensor) else value


def uses_numpy(function: Any) -> bool:
    """Returns True if the code around a function knows NumPy and no PyTorch."""
    known = getattr(inspect.unwrap(function) if callable(function) else function, "__globals__", {})
    modules = {value.__name__ for value in list(known.values()) if inspect.ismodule(value)}
    return "numpy" in modules and "torch" not in modules


def call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Calls the learner's function with tensors, or if its code knows NumPy alone with arrays; returns a tensor."""
    # Each call gets copies: code that changes its arguments in place must not change the next comparison.
    copies = [each.clone() if isinstance(each, Tensor) else each for each in args]
    named = {name: each.clone() if isinstance(each, Tensor) else each for name, each in kwargs.items()}
    if uses_numpy(function):
        copies, named = [*map(to_numpy, copies)], {name: to_numpy(each) for name, each in named.items()}
    with torch.no_grad():
        return run(function, *copies, **named)
