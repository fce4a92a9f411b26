"""Measures a model's speed on this machine by engine, dtype, threads and workers, each in separate processes.

Configurations take turns, round by round, so that other load slows all of them alike; only one computes at a time.
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
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from pellucid.benchmark.machine import cpu_model, matrix_peak, measure_memory
from pellucid.benchmark.texts import read_benchmark_text
from pellucid.benchmark.times import summarize_times, summarize_times_with_p95
from pellucid.config import Task
from pellucid.errors import ConfigError, PellucidError, format_argument
from pellucid.process import keep_freed_memory
from pellucid.tasks.task import TextModel, open_task, resolve_model
from pellucid.tasks.translator import Translator
from pellucid.workers import Workers, can_fork

ROUNDS = 3
PEAKS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}
CTRANSLATE2_DTYPES = "float32", "int8"
GAIN_OF_BFLOAT16 = 1.1
"""The smallest ratio of bfloat16's to float32's matrix product speed at which bfloat16 is measured."""
MOST_WORKERS = 8
FEWEST_LINES, MOST_LINES = 4, 2000
FIRST_LINES = {False: 8, True: 1}
"""The lines per process in warm-up turns: together, and one at a time."""
MOST_BEHIND = 4
"""The largest ratio of a configuration's warm-up time to the fastest of its mode at which it is still measured."""
LEAST_SHARE = 1 / 3
"""The share of the time that is reserved for the measured turns, even if warm-up took longer."""
NEW_TOKENS = 32
"""The number of tokens that a language model generates per line."""

Load = Callable[[], TextModel[Any]]


@dataclass(frozen=True)
class Mode:
    """One way to use a model: its name, the options of `TextModel.process_lines`, and whether lines are processed one
    at a time."""

    name: str
    options: dict[str, Any] = field(hash=False)
    alone: bool = False


@dataclass(frozen=True)
class BenchConfiguration:
    """One way to run a model: engine, dtype, number of processes and threads."""

    engine: str
    dtype: str
    workers: int
    threads: int
    is_default: bool = False
    """True for engine and dtype of a command without options, in one process."""

    def __str__(self) -> str:
        return f"{self.engine} {self.dtype}, {self.layout}"

    @property
    def layout(self) -> str:
        """The number of processes and threads as text."""
        processes = "1 process" if self.workers == 1 else f"{self.workers} workers"
        return f"{processes} x {self.threads} thread{'s' * (self.threads > 1)}"


@dataclass(frozen=True)
class BenchTask:
    """Lines for one worker, and the mode to process them in."""

    mode: Mode
    lines: list[str]


@dataclass(frozen=True)
class Timing:
    """The time and the number of tokens for some lines."""

    tokens: int
    """The number of output tokens; of input tokens for a classifier."""
    seconds: list[float]
    """The time of each line, if lines are processed one at a time; else the total time."""


@dataclass(frozen=True)
class Row:
    """The speed of one configuration in one mode."""

    mode: str
    alone: bool
    side: BenchConfiguration
    lines: int
    lines_per_second: dict[str, float]
    tokens_per_second: dict[str, float]
    share_of_peak: float | None
    """Operations per second in matrix products with weights, counted as in Pellucid's engine, relative to float32's
    peak in the same rounds."""
    seconds_a_line: dict[str, float] | None
    """One line at a time: median, range and 95th percentile over all lines."""
    memory_megabytes: float | None


@dataclass(frozen=True)
class LeftOut:
    """An engine or a dtype that was not measured."""

    engine: str
    dtype: str
    reason: str


@dataclass(frozen=True)
class Bench:
    """The results of a benchmark."""

    model: dict[str, Any]
    machine: dict[str, Any]
    versions: dict[str, str]
    text: dict[str, Any]
    rounds: int
    peak_gflops: dict[str, dict[str, float]]
    rows: list[Row]
    left_out: list[LeftOut] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Returns the results as JSON-compatible data."""
        return asdict(self)


def list_modes(task: Task) -> list[Mode]:
    """Returns the ways to use a task's models: lines together and one at a time."""
    if task.name == "translate":
        found = [Mode("beam 5", {"beam_size": 5}), Mode("greedy", {"beam_size": 1})]
    elif task.name == "generate":
        found = [Mode(f"{NEW_TOKENS} new tokens, greedy", {"max_new_tokens": NEW_TOKENS, "beam_size": 1})]
    else:
        found = [Mode("labels", {})]
    return [*found, *(Mode(f"{mode.name}, alone", mode.options, alone=True) for mode in found)]


def list_configurations(task: Task, threads: int, engine: str = "torch") -> list[BenchConfiguration]:
    """Returns the ways to run a model, whose default engine is given, on `threads` cores."""
    counts = [count for count in (1, 2, 4, MOST_WORKERS) if count <= threads]
    found = [BenchConfiguration(engine, "float32", count, threads // count, count == 1) for count in counts]
    found += [BenchConfiguration(engine, "float32", 1, 1, True)] if threads > 1 else []
    found += [BenchConfiguration("torch", "float32", 1, threads)] if engine != "torch" else []
    found += [BenchConfiguration("torch", "bfloat16", count, threads // count) for count in counts]
    others = [BenchConfiguration("ctranslate2", dtype, 1, threads) for dtype in CTRANSLATE2_DTYPES]
    return found + (others if task.name == "translate" else [])


def prepare_engine(task: TextModel[Any]) -> str:
    """Returns the name of the engine of a model that was opened without options; compiles what it needs."""
    from pellucid.engines.compiled.engine import CompiledEngine

    return "compiled" if isinstance(task.engine, CompiledEngine) and task.engine.compile() is not None else "torch"


def bench(
    model: str | Path,
    input: str | None = None,
    *,
    seconds: float = 60,
    threads: int | None = None,
    log_line: Callable[[str], object] = lambda text: None,
) -> Bench:
    """Measures the speed of a model on this machine's processor.

    Args:
        input: a file of lines to measure on; None: the validation text of a run, or built-in sentences.
        seconds: the approximate total time of the turns; loading the model is not included.
        threads: the number of cores to use; None: all.
        log_line: called with a line of progress.

    Raises the errors of `TextModel.load`; DataError for an empty text; ConfigError for a model that cannot be measured.
    """
    for name, value in (("seconds", seconds), ("threads", threads)):
        if value is not None and value <= 0:
            raise ConfigError(f"{format_argument(name, value)} must be above 0")
    cores = threads or torch.get_num_threads()
    torch.set_num_threads(1)  # the workers compute, and a fork has no threads of its parent
    log_line("opening the model")
    task = open_task(model, "cpu")
    if not task.task.method:
        raise ConfigError(f"`{model}` is {task.task.noun}, which generates no text", f"use {task.task.use}")
    lines, origin = read_benchmark_text(resolve_model(model), task.task, input)
    if task.task.name == "generate":
        lines = [_half(line) for line in lines]
    engine = prepare_engine(task)
    with ExitStack() as stack:
        start = _Starter(stack, task, model, engine)
        probe = start.probe(cores)
        log_line("measuring the peak of matrix products")
        peaks = {name: found for name, dtype in PEAKS.items() if (found := _peak(probe, dtype))}
        left_out, running = list[LeftOut](), dict[BenchConfiguration, Workers[BenchTask, Timing]]()
        for side in list_configurations(task.task, cores, engine):
            if reason := _explain_skip(side, peaks):
                if side.workers == 1:
                    left_out.append(LeftOut(side.engine, side.dtype, reason))
            else:
                running[side] = start.side(side)
        # Warnings on long lines do not matter here, since the outputs are not used.
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        turns = _Turns(task, list_modes(task.task), running, lines, cores)
        started = time.monotonic()
        left_out += turns.begin(log_line)
        rest = max(LEAST_SHARE * seconds, seconds - (time.monotonic() - started))
        rows = turns.take(probe, peaks, rest, log_line)
        peak_gflops = {name: summarize_times([value / 1e9 for value in values]) for name, values in peaks.items()}
    return Bench(
        _describe_inputs(model, task) | {"engine": engine},
        {"cpu": cpu_model(), "cores": os.cpu_count(), "threads": cores},
        {name: version(name) for name in ("pellucid", "torch")},
        {"from": origin, "lines": len(lines), "tokens_a_line": round(turns.tokens_a_line, 1)},
        turns.rounds,
        peak_gflops,
        rows,
        left_out,
    )


class _Starter:
    """Starts the processes of each configuration, and stops them when its context exits."""

    def __init__(self, stack: ExitStack, task: TextModel[Any], model: str | Path, engine: str) -> None:
        self._stack = stack
        self._engine = engine
        self._task = task
        self._model = model
        self._forks = can_fork()
        self._method: Literal["fork", "spawn"] = "fork" if self._forks else "spawn"

    def probe(self, threads: int) -> Workers[torch.dtype, float]:
        """Returns a process that measures peak speeds."""
        return self._start(1, partial(_ready_to_probe, threads))

    def side(self, side: BenchConfiguration) -> Workers[BenchTask, Timing]:
        """Returns the processes of a configuration. They load the model, or inherit it as forks of this process."""
        load: Load
        if side.engine != self._engine and side.dtype != "bfloat16":
            load = partial(_load_by_engine, str(self._model), side)
        elif self._forks and side.dtype == "float32":
            task = self._task
            load = lambda: task  # noqa: E731 (inherited by a fork, never pickled)
        else:
            load = partial(type(self._task).load, self._model, "cpu", side.dtype)
        return self._start(side.workers, partial(_ready_to_answer, load, side.threads))

    def _start(self, count: int, ready: Callable[[], Any]) -> Workers[Any, Any]:
        workers: Workers[Any, Any] = Workers(count, ready, self._method)
        self._stack.callback(workers.stop)
        return workers


def _load_by_engine(model: str, side: BenchConfiguration) -> TextModel[Any]:
    """Opens a translator with an engine that is not its default."""
    options: dict[str, Any] = {"engine": side.engine, "dtype": side.dtype}
    if side.engine == "ctranslate2":
        options["threads"] = side.threads
    return Translator.load(model, "cpu", **options)


def _ready_to_probe(threads: int) -> Callable[[list[torch.dtype], int], list[float]]:
    torch.set_num_threads(threads)
    return lambda dtypes, _: [matrix_peak(dtype) for dtype in dtypes]


def _ready_to_answer(load: Load, threads: int) -> Callable[[list[BenchTask], int], list[Timing]]:
    torch.set_num_threads(threads)
    keep_freed_memory()
    task = load()
    return lambda asked, _: [_time_answers(task, ask) for ask in asked]


def _time_answers(task: TextModel[Any], ask: BenchTask) -> Timing:
    """Processes lines together or one by one, according to the mode, and returns the times."""
    chunks = [[line] for line in ask.lines] if ask.mode.alone else [ask.lines]
    found, times = list[Any](), list[float]()
    for chunk in chunks:
        started = time.perf_counter()
        found += task.process_lines(chunk, 0, **ask.mode.options)
        times.append(time.perf_counter() - started)
    if task.task.name == "classify":
        tokens = sum(map(len, task.tokenizers.source.encode_lines(ask.lines)))
    else:
        tokens = sum(len(one.tokens) for one in found)
    return Timing(tokens, times)


def _half(line: str) -> str:
    """Returns the first half of a line as a prompt for a language model: of its words, or of its characters."""
    words = line.split()
    return " ".join(words[: (len(words) + 1) // 2]) if len(words) > 1 else line[: (len(line) + 1) // 2]


def _peak(probe: Workers[torch.dtype, float], dtype: torch.dtype) -> list[float]:
    """Returns a measurement of the peak; an empty list if this machine's torch lacks products of that dtype."""
    try:
        return list(next(probe.answer_chunks(iter([(0, [dtype])]), lambda: True)))
    except RuntimeError:
        return []


def _explain_skip(side: BenchConfiguration, peaks: Mapping[str, Sequence[float]]) -> str:
    """Returns the reason why a configuration is not measured; empty if it is."""
    if side.dtype != "bfloat16":
        return ""
    single, half = peaks["float32"][0] / 1e9, peaks.get("bfloat16", [0.0])[0] / 1e9
    if half >= GAIN_OF_BFLOAT16 * single:
        return ""
    return f"its matrix products reach {half:,.0f} GFLOP/s here, float32 reaches {single:,.0f}"


class _Turns:
    """The turns of all configurations."""

    def __init__(
        self,
        task: TextModel[Any],
        modes: Sequence[Mode],
        running: dict[BenchConfiguration, Workers[BenchTask, Timing]],
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
        self._first: dict[tuple[Mode, BenchConfiguration], float] = {}
        """The seconds per line in the second warm-up turn."""

    def begin(self, log_line: Callable[[str], object]) -> list[LeftOut]:
        """Runs warm-up turns. Returns the configurations that fail or are far slower than the fastest, with reasons."""
        left_out = []
        for side in list(self._running):
            log_line(f"warming up: {side}")
            try:
                for mode in (mode for mode in self._modes if self._has(mode, side)):
                    count = FIRST_LINES[mode.alone] * side.workers
                    self._turn(mode, side, count)  # loads the model and allocates memory
                    self._first[mode, side] = self._turn(mode, side, count)[0] / count
            except PellucidError as error:
                if side.is_default:
                    raise
                left_out.append(LeftOut(side.engine, side.dtype, str(error)))
                self._first = {cell: first for cell, first in self._first.items() if cell[1] != side}
        for mode in self._modes:
            best = min(first for cell, first in self._first.items() if cell[0] == mode)
            for cell, first in list(self._first.items()):
                if cell[0] == mode and first > MOST_BEHIND * best and not cell[1].is_default:
                    del self._first[cell]
                    reason = f"{mode.name}, {cell[1].layout}: {first / best:.1f} times the fastest time in a first turn"
                    left_out.append(LeftOut(cell[1].engine, cell[1].dtype, reason))
        return left_out

    def take(
        self, probe: Workers[torch.dtype, float], peaks: dict[str, list[float]], seconds: float,
        log_line: Callable[[str], object],
    ) -> list[Row]:  # fmt: skip
        """Runs the turns of all configurations, rotating their order, and returns the results."""
        cells = list(self._first)
        each = seconds / (ROUNDS * len(self._modes))
        counts = {}
        for mode in self._modes:
            of_mode = sum(first for cell, first in self._first.items() if cell[0] == mode)
            counts[mode] = min(MOST_LINES, max(FEWEST_LINES, round(each / of_mode)))
        found: dict[tuple[Mode, BenchConfiguration], list[tuple[float, int, list[float]]]] = {
            cell: [] for cell in cells
        }
        started = time.monotonic()
        while self.rounds < ROUNDS and time.monotonic() - started < seconds * (1 - 0.5 / ROUNDS):
            for mode, side in (*cells[self.rounds % len(cells) :], *cells[: self.rounds % len(cells)]):
                log_line(f"round {self.rounds + 1} of {ROUNDS}: {mode.name}, {side}")
                found[mode, side].append(self._turn(mode, side, counts[mode]))
            peaks["float32"] += _peak(probe, torch.float32)
            self.rounds += 1
        best = statistics.median(peaks["float32"])
        return [self._row(*cell, counts[cell[0]], turns, best) for cell, turns in found.items()]

    def _has(self, mode: Mode, side: BenchConfiguration) -> bool:
        """Returns True if a mode uses a configuration: one process for single lines, all cores for lines together."""
        return side.workers == 1 if mode.alone else side.workers * side.threads > self._cores // 2 or self._cores == 1

    def _turn(self, mode: Mode, side: BenchConfiguration, count: int) -> tuple[float, int, list[float]]:
        """Returns the seconds of a turn, its number of tokens, and the seconds of each line."""
        lines = list(islice(cycle(self._lines), count))
        shares = [lines[number :: side.workers] for number in range(side.workers)]
        chunks = [(0, [BenchTask(mode, share)]) for share in shares if share]
        started = time.perf_counter()
        told = [one for found in self._running[side].answer_chunks(iter(chunks), lambda: True) for one in found]
        elapsed = time.perf_counter() - started
        return elapsed, sum(one.tokens for one in told), [second for one in told for second in one.seconds]

    def _row(
        self,
        mode: Mode,
        side: BenchConfiguration,
        count: int,
        turns: Sequence[tuple[float, int, list[float]]],
        peak: float,
    ) -> Row:
        speed = summarize_times([count / elapsed for elapsed, _, _ in turns])
        written = statistics.median(tokens for _, tokens, _ in turns) / count
        work = products(self._task, self.tokens_a_line, written, mode.options.get("beam_size", 1))
        memory = measure_memory(self._running[side].pids)
        return Row(
            mode.name,
            mode.alone,
            side,
            count,
            speed,
            summarize_times([tokens / elapsed for elapsed, tokens, _ in turns]),
            float(f"{work * speed['median'] / peak:.4g}"),
            summarize_times_with_p95([second for _, _, each in turns for second in each]) if mode.alone else None,
            None if memory is None else round(memory / 1e6, 1),
        )


def products(task: TextModel[Any], read: float, written: float, beam_size: int) -> float:
    """Returns the operations in products with weights for a line of `read` source and `written` output tokens.

    Each source token takes two operations per weight of its stack; an output token takes that for each hypothesis, and
    the output projection in addition. The attention's products of tokens with tokens, which are few in a sentence, are
    not counted; nor are repeated searches.
    """
    config, model = task.model.config, task.model
    encoder, decoder = (_weights(getattr(model, name, None)) for name in ("encoder", "decoder"))
    if config.family == "encoder":
        return 2 * encoder * read
    # Keys and values of cross-attention are computed once per source token: half of its four D x D matrices.
    across = 2 * config.d_model**2 * config.num_decoder_layers if config.family == "encoder-decoder" else 0
    step = decoder - across + config.d_model * config.tgt_vocab_size
    begins = read if config.family == "decoder" else 0
    return 2 * ((encoder + across) * (read + 1) + decoder * begins + step * beam_size * (written + 1))


def _weights(stack: nn.Module | None) -> int:
    return sum(p.numel() for p in stack.parameters() if p.dim() == 2) if stack is not None else 0


def _describe_inputs(model: str | Path, task: TextModel[Any]) -> dict[str, Any]:
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
