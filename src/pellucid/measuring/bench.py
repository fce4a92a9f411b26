"""A model's speed on the machine at hand, by engine, type, threads and workers, each in processes of its own.

All sides take turns, round by round, so that what else the machine does slows them alike; only one computes at a time.
"""

import os
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from inspect import signature
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from pellucid.config import Task
from pellucid.errors import ConfigError, PellucidError, argument
from pellucid.measuring.machine import cpu_model, matrix_peak, memory_of
from pellucid.measuring.texts import measured_text
from pellucid.measuring.times import spread, spread_with_p95
from pellucid.process import keep_freed_memory
from pellucid.tasks.task import TextModel, model_folder, open_task
from pellucid.tasks.translator import Translator
from pellucid.workers import Workers, may_be_copied

ROUNDS = 3
PEAKS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}
ENGINES = {"torch": ("float32", "bfloat16"), "ctranslate2": ("float32", "int8")}
"""The types of each engine that are tried."""
GAIN_OF_BFLOAT16 = 1.1
"""The least ratio of its products' speed to float32's for it to be tried."""
MOST_WORKERS = 8
FEWEST_LINES, MOST_LINES = 4, 2000
FIRST_LINES = {False: 8, True: 1}
"""The lines for each process in turns that do not count: together, and one at a time."""
MOST_BEHIND = 4
"""The most times as slow as the fastest of its mode that a side may be in them, and still be measured."""
LEAST_SHARE = 1 / 3
"""The part of the time that is kept for the turns that count, however long the others took."""
NEW_TOKENS = 32
"""The tokens by which a language model continues each line."""

Load = Callable[[], TextModel[Any]]


@dataclass(frozen=True)
class Mode:
    """One way to use a model: its name, the options of `TextModel.answer`, and whether lines come one at a time."""

    name: str
    options: dict[str, Any] = field(hash=False)
    alone: bool = False


@dataclass(frozen=True)
class Side:
    """One way to run a model: how many processes, by which engine."""

    engine: str
    dtype: str
    workers: int
    threads: int

    def __str__(self) -> str:
        return f"{self.engine} {self.dtype}, {self.layout}"

    @property
    def layout(self) -> str:
        """Its processes and their threads in words."""
        processes = "1 process" if self.workers == 1 else f"{self.workers} workers"
        return f"{processes} x {self.threads} thread{'s' * (self.threads > 1)}"

    @property
    def is_plain(self) -> bool:
        """True for what a command does that is given no options."""
        return self.engine == "torch" and self.dtype == "float32" and self.workers == 1


@dataclass(frozen=True)
class Ask:
    """Some lines for one worker, and what to do with them."""

    mode: Mode
    lines: list[str]


@dataclass(frozen=True)
class Told:
    """The time and the tokens that some lines took."""

    tokens: int
    """The tokens that were written; of a classifier those that were read."""
    seconds: list[float]
    """The time of each line, where they come one at a time; else of all."""


@dataclass(frozen=True)
class Row:
    """The speed of one side in one mode."""

    mode: str
    alone: bool
    side: Side
    lines: int
    lines_per_second: dict[str, float]
    tokens_per_second: dict[str, float]
    share_of_peak: float | None
    """The speed of the products with weights that our own arithmetic takes, to float32's peak in the same rounds."""
    seconds_a_line: dict[str, float] | None
    """One at a time: the spread over all lines, with what 95 in 100 stay under."""
    memory_megabytes: float | None


@dataclass(frozen=True)
class LeftOut:
    """An engine or a type that was not measured."""

    engine: str
    dtype: str
    reason: str


@dataclass(frozen=True)
class Bench:
    """The findings."""

    model: dict[str, Any]
    machine: dict[str, Any]
    versions: dict[str, str]
    text: dict[str, Any]
    rounds: int
    peak_gflops: dict[str, dict[str, float]]
    rows: list[Row]
    left_out: list[LeftOut] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as json.dumps() takes it."""
        return asdict(self)


def modes_of(task: Task) -> list[Mode]:
    """Returns the ways in which models of a task are used, lines together and one at a time."""
    if task.name == "translate":
        found = [Mode("beam 5", {"beam_size": 5}), Mode("greedy", {"beam_size": 1})]
    elif task.name == "generate":
        found = [Mode(f"{NEW_TOKENS} new tokens, greedy", {"max_new_tokens": NEW_TOKENS, "beam_size": 1})]
    else:
        found = [Mode("labels", {})]
    return [*found, *(Mode(f"{mode.name}, alone", mode.options, alone=True) for mode in found)]


def sides_of(task: Task, threads: int) -> list[Side]:
    """Returns the ways to run a model on so many cores."""
    counts = [count for count in (1, 2, 4, MOST_WORKERS) if count <= threads]
    own = [Side("torch", dtype, count, threads // count) for dtype in ENGINES["torch"] for count in counts]
    own += [Side("torch", "float32", 1, 1)] if threads > 1 else []
    others = [Side("ctranslate2", dtype, 1, threads) for dtype in ENGINES["ctranslate2"]]
    return own + (others if task.name == "translate" else [])


def bench(
    model: str | Path,
    input: str | None = None,
    *,
    seconds: float = 60,
    threads: int | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Bench:
    """Measures how fast a model is on this machine's processor.

    Args:
        input: a file of lines to measure on; None: those that a run was validated on, or our own sentences.
        seconds: about how long the turns may take altogether; opening the model comes beside them.
        threads: cores to take; None: all.
        say: is told what is being done.

    Raises what `TextModel.load` raises; DataError for an empty text; ConfigError for what cannot be measured.
    """
    for name, value in (("seconds", seconds), ("threads", threads)):
        if value is not None and value <= 0:
            raise ConfigError(f"{argument(name, value)} must be above 0")
    cores = threads or torch.get_num_threads()
    torch.set_num_threads(1)  # the workers compute, and copies of this process have no threads of its own
    say("opening the model")
    task = open_task(model, "cpu")
    if not task.task.method:
        raise ConfigError(f"`{model}` is {task.task.noun}: there is nothing that it writes", f"use {task.task.use}")
    lines, origin = measured_text(model_folder(model), task.task, input)
    if task.task.name == "generate":
        lines = [_half(line) for line in lines]
    with ExitStack() as stack:
        start = _Starter(stack, task, model)
        probe = start.probe(cores)
        say("measuring the peak of matrix products")
        peaks = {name: found for name, dtype in PEAKS.items() if (found := _peak(probe, dtype))}
        left_out, running = list[LeftOut](), dict[Side, Workers[Ask, Told]]()
        for side in sides_of(task.task, cores):
            if reason := _not_worth(side, peaks):
                if side.workers == 1:
                    left_out.append(LeftOut(side.engine, side.dtype, reason))
            else:
                running[side] = start.side(side)
        # What is said of long lines is for who wants their answers.
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        turns = _Turns(task, modes_of(task.task), running, lines, cores)
        started = time.monotonic()
        left_out += turns.begin(say)
        rest = max(LEAST_SHARE * seconds, seconds - (time.monotonic() - started))
        rows = turns.take(probe, peaks, rest, say)
        peak_gflops = {name: spread([value / 1e9 for value in values]) for name, values in peaks.items()}
    return Bench(
        _described(model, task),
        {"cpu": cpu_model(), "cores": os.cpu_count(), "threads": cores},
        {name: version(name) for name in ("pellucid", "torch")},
        {"from": origin, "lines": len(lines), "tokens_a_line": round(turns.tokens_a_line, 1)},
        turns.rounds,
        peak_gflops,
        rows,
        left_out,
    )


class _Starter:
    """Starts the processes of each side, and ends them with its context."""

    def __init__(self, stack: ExitStack, task: TextModel[Any], model: str | Path) -> None:
        self._stack = stack
        self._task = task
        self._model = model
        self._forks = may_be_copied()
        self._method: Literal["fork", "spawn"] = "fork" if self._forks else "spawn"

    def probe(self, threads: int) -> Workers[torch.dtype, float]:
        """Returns a process that measures peaks."""
        return self._started(1, partial(_ready_to_probe, threads))

    def side(self, side: Side) -> Workers[Ask, Told]:
        """Returns the processes of a side. They open the model, or have it already as a copy of this one."""
        load: Load
        if side.engine != "torch":
            load = partial(_load_by_engine, str(self._model), side)
        elif self._forks and side.dtype == "float32":
            task = self._task
            load = lambda: task  # noqa: E731 (which a copy has, and nothing pickles)
        else:
            load = partial(type(self._task).load, self._model, "cpu", side.dtype)
        return self._started(side.workers, partial(_ready_to_answer, load, side.threads))

    def _started(self, count: int, ready: Callable[[], Any]) -> Workers[Any, Any]:
        workers: Workers[Any, Any] = Workers(count, ready, self._method)
        self._stack.callback(workers.stop)
        return workers


def _load_by_engine(model: str, side: Side) -> TextModel[Any]:
    """Opens a translator by another engine than our own, where this version of Pellucid has it."""
    if "engine" not in signature(Translator.load).parameters:
        raise ConfigError("this version of pellucid has no engine but its own")
    options: dict[str, Any] = {"engine": side.engine, "dtype": side.dtype, "threads": side.threads}
    return Translator.load(model, "cpu", **options)


def _ready_to_probe(threads: int) -> Callable[[list[torch.dtype], int], list[float]]:
    torch.set_num_threads(threads)
    return lambda dtypes, _: [matrix_peak(dtype) for dtype in dtypes]


def _ready_to_answer(load: Load, threads: int) -> Callable[[list[Ask], int], list[Told]]:
    torch.set_num_threads(threads)
    keep_freed_memory()
    task = load()
    return lambda asked, _: [_told(task, ask) for ask in asked]


def _told(task: TextModel[Any], ask: Ask) -> Told:
    """Answers some lines as they are asked for, and says how long each took."""
    stretches = [[line] for line in ask.lines] if ask.mode.alone else [ask.lines]
    found, times = list[Any](), list[float]()
    for stretch in stretches:
        started = time.perf_counter()
        found += task.answer(stretch, 0, **ask.mode.options)
        times.append(time.perf_counter() - started)
    if task.task.name == "classify":
        tokens = sum(map(len, task.tokenizers.source.encode_lines(ask.lines)))
    else:
        tokens = sum(len(one.tokens) for one in found)
    return Told(tokens, times)


def _half(line: str) -> str:
    """Returns the first half of a line, for a model to go on from there: of its words, or of its characters."""
    words = line.split()
    return " ".join(words[: (len(words) + 1) // 2]) if len(words) > 1 else line[: (len(line) + 1) // 2]


def _peak(probe: Workers[torch.dtype, float], dtype: torch.dtype) -> list[float]:
    """Returns a measurement of a peak; none where this machine's torch has no products of that type."""
    try:
        return list(next(probe.answered(iter([(0, [dtype])]), lambda: True)))
    except RuntimeError:
        return []


def _not_worth(side: Side, peaks: Mapping[str, Sequence[float]]) -> str:
    """Says why a side is not tried; empty where it is."""
    if side.dtype != "bfloat16":
        return ""
    single, half = peaks["float32"][0] / 1e9, peaks.get("bfloat16", [0.0])[0] / 1e9
    if half >= GAIN_OF_BFLOAT16 * single:
        return ""
    return f"its matrix products reach {half:,.0f} GFLOP/s here, those of float32 {single:,.0f}"


class _Turns:
    """The turns that all sides take."""

    def __init__(
        self,
        task: TextModel[Any],
        modes: Sequence[Mode],
        running: dict[Side, Workers[Ask, Told]],
        lines: Sequence[str],
        cores: int,
    ) -> None:
        self.rounds = 0
        self._task = task
        self._modes = modes
        self._running = running
        self._lines = lines
        ids = task.tokenizers.source.encode_lines(list(lines))
        self.tokens_a_line = statistics.mean(map(len, ids))
        self._cores = cores
        self._first: dict[tuple[Mode, Side], float] = {}
        """The seconds a line in the turn that does not count."""

    def begin(self, say: Callable[[str], object]) -> list[LeftOut]:
        """Has each side take turns that do not count. Returns the sides that cannot, or fall far behind, and why."""
        left_out = []
        for side in list(self._running):
            say(f"warming up: {side}")
            try:
                for mode in (mode for mode in self._modes if self._has(mode, side)):
                    count = FIRST_LINES[mode.alone] * side.workers
                    self._turn(mode, side, count)  # the model is opened, and memory taken
                    self._first[mode, side] = self._turn(mode, side, count)[0] / count
            except PellucidError as error:
                if side.is_plain:
                    raise
                left_out.append(LeftOut(side.engine, side.dtype, str(error)))
                self._first = {cell: first for cell, first in self._first.items() if cell[1] != side}
        for mode in self._modes:
            best = min(first for cell, first in self._first.items() if cell[0] == mode)
            for cell, first in list(self._first.items()):
                if cell[0] == mode and first > MOST_BEHIND * best and not cell[1].is_plain:
                    del self._first[cell]
                    reason = (
                        f"{mode.name}, {cell[1].layout}: {first / best:.1f} times the fastest's time in a first turn"
                    )
                    left_out.append(LeftOut(cell[1].engine, cell[1].dtype, reason))
        return left_out

    def take(
        self, probe: Workers[torch.dtype, float], peaks: dict[str, list[float]], seconds: float,
        say: Callable[[str], object],
    ) -> list[Row]:  # fmt: skip
        """Has all sides take their turns, in an order that changes, and returns what came of it."""
        cells = list(self._first)
        each = seconds / (ROUNDS * len(self._modes))
        counts = {}
        for mode in self._modes:
            of_mode = sum(first for cell, first in self._first.items() if cell[0] == mode)
            counts[mode] = min(MOST_LINES, max(FEWEST_LINES, round(each / of_mode)))
        found: dict[tuple[Mode, Side], list[tuple[float, int, list[float]]]] = {cell: [] for cell in cells}
        started = time.monotonic()
        while self.rounds < ROUNDS and time.monotonic() - started < seconds * (1 - 0.5 / ROUNDS):
            for mode, side in (*cells[self.rounds % len(cells) :], *cells[: self.rounds % len(cells)]):
                say(f"round {self.rounds + 1} of {ROUNDS}: {mode.name}, {side}")
                found[mode, side].append(self._turn(mode, side, counts[mode]))
            peaks["float32"] += _peak(probe, torch.float32)
            self.rounds += 1
        best = statistics.median(peaks["float32"])
        return [self._row(*cell, counts[cell[0]], turns, best) for cell, turns in found.items()]

    def _has(self, mode: Mode, side: Side) -> bool:
        """Tells whether a side is one for a mode: a line alone has one process, and lines together all cores."""
        return side.workers == 1 if mode.alone else side.workers * side.threads > self._cores // 2 or self._cores == 1

    def _turn(self, mode: Mode, side: Side, count: int) -> tuple[float, int, list[float]]:
        """Returns the seconds of a turn, the tokens that it brought, and the seconds of each line."""
        lines = list(islice(cycle(self._lines), count))
        shares = [lines[number :: side.workers] for number in range(side.workers)]
        stretches = [(0, [Ask(mode, share)]) for share in shares if share]
        started = time.perf_counter()
        told = [one for found in self._running[side].answered(iter(stretches), lambda: True) for one in found]
        elapsed = time.perf_counter() - started
        return elapsed, sum(one.tokens for one in told), [second for one in told for second in one.seconds]

    def _row(
        self, mode: Mode, side: Side, count: int, turns: Sequence[tuple[float, int, list[float]]], peak: float
    ) -> Row:
        speed = spread([count / elapsed for elapsed, _, _ in turns])
        written = statistics.median(tokens for _, tokens, _ in turns) / count
        work = products(self._task, self.tokens_a_line, written, mode.options.get("beam_size", 1))
        memory = memory_of(self._running[side].pids)
        return Row(
            mode.name,
            mode.alone,
            side,
            count,
            speed,
            spread([tokens / elapsed for elapsed, tokens, _ in turns]),
            float(f"{work * speed['median'] / peak:.4g}"),
            spread_with_p95([second for _, _, each in turns for second in each]) if mode.alone else None,
            None if memory is None else round(memory / 1e6, 1),
        )


def products(task: TextModel[Any], read: float, written: float, beam_size: int) -> float:
    """Returns the operations of the products with weights for a line of so many tokens, and so many that are written.

    Each token takes two operations a weight of the stack that it goes through, a written one those of each hypothesis
    and of the vocabulary besides. Attention's products of tokens with tokens, which are few in a sentence, are not
    counted; nor is what is searched again.
    """
    config, model = task.model.config, task.model
    encoder, decoder = (_weights(getattr(model, name, None)) for name in ("encoder", "decoder"))
    if config.family == "encoder":
        return 2 * encoder * read
    # Keys and values of what is attended to are made once a source token: half of that layer's four squares.
    across = 2 * config.d_model**2 * config.num_decoder_layers if config.family == "encoder-decoder" else 0
    step = decoder - across + config.d_model * config.tgt_vocab_size
    begins = read if config.family == "decoder" else 0
    return 2 * ((encoder + across) * (read + 1) + decoder * begins + step * beam_size * (written + 1))


def _weights(stack: nn.Module | None) -> int:
    return sum(p.numel() for p in stack.parameters() if p.dim() == 2) if stack is not None else 0


def _described(model: str | Path, task: TextModel[Any]) -> dict[str, Any]:
    config, parameters = task.model.config, list(task.model.parameters())
    return {
        "folder": str(model),
        "task": task.task.name,
        "family": config.family,
        "parameters": sum(p.numel() for p in parameters),
        "megabytes": round(sum(p.numel() * p.element_size() for p in parameters) / 1e6, 1),
        "d_model": config.d_model,
        "encoder_layers": config.num_encoder_layers,
        "decoder_layers": config.num_decoder_layers,
        "vocabulary": max(config.src_vocab_size, config.tgt_vocab_size),
    }
