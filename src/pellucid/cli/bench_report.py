"""The report of `pellucid bench`: the measurements as text, and the command to use."""

from collections.abc import Sequence
from shlex import quote

from pellucid.benchmark.bench import ROUNDS, Bench, Row
from pellucid.benchmark.texts import OWN
from pellucid.benchmark.times import format_times, three_digits
from pellucid.config import TASKS

UNITS = {"translate": "sentences", "classify": "texts", "generate": "texts"}


def report(bench: Bench) -> list[str]:
    """Returns the results as lines: the model, the machine, a line for each measurement, and a recommendation."""
    model, machine = bench.model, bench.machine
    task, unit = TASKS[model["task"]], UNITS[model["task"]]
    layers = " + ".join(str(n) for n in (model["encoder_layers"], model["decoder_layers"]) if n)
    peaks = ", ".join(f"{name} {format_times(values)}" for name, values in bench.peak_gflops.items())
    hint = " (better: your own text, by --input)" if bench.text["from"] == OWN else ""
    lines = [
        f"model: {task.noun}, {model['parameters']:,} parameters ({model['megabytes']:,} MB), {model['family']}, "
        f"{layers} layers of {model['d_model']:,}, vocabulary {model['vocabulary']:,}",
        f"machine: {machine['cpu']}, {machine['threads']} of {machine['cores']} cores",
        f"peak of matrix products in GFLOP/s: {peaks}",
        f"text: {bench.text['from']}{hint}; {bench.text['lines']:,} lines of {bench.text['tokens_a_line']} tokens",
    ]
    for mode in dict.fromkeys(row.mode for row in bench.rows):
        rows = [row for row in bench.rows if row.mode == mode]
        times = f"{bench.rounds} time{'s' * (bench.rounds > 1)}"
        lines += ["", f"{mode}: {rows[0].lines:,} lines, {times}; median (least-most)"]
        lines += [f"  {row.side}: {_format_row(row, unit)}" for row in _sort_by_speed(rows)]
    if bench.left_out:
        lines += ["", "not measured:"]
        lines += [f"  {each.engine} {each.dtype}: {each.reason}" for each in bench.left_out]
    return [*lines, "", *recommendation(bench)]


def recommendation(bench: Bench) -> list[str]:
    """Returns the commands to use for many lines and for single lines, with the speedup of each.

    A configuration counts as faster only if its slowest round is faster than the default's fastest round.
    """
    unit = UNITS[bench.model["task"]]
    found = []
    for mode in dict.fromkeys(row.mode for row in bench.rows):
        rows = [row for row in bench.rows if row.mode == mode]
        plain = max((row for row in rows if row.side.is_default), key=lambda row: row.side.threads)
        best = _sort_by_speed(rows)[0]
        if best.lines_per_second["min"] <= plain.lines_per_second["max"]:
            best = plain
        ratio = best.lines_per_second["median"] / plain.lines_per_second["median"]
        gain = (
            "no other configuration is clearly faster"
            if best is plain
            else f"{ratio:.2g} times as fast as without options"
        )
        speed = f"{three_digits(best.lines_per_second['median'])} {unit} per second"
        if best.seconds_a_line is not None:
            speed = f"{three_digits(1000 * best.seconds_a_line['median'])} ms per line"
        found.append(f"{mode}: {speed}, {gain}:\n  {command(bench, best, plain)}")
    if any("--engine ctranslate2" in line for line in found):
        found.append(
            "The outputs of another engine may differ from the reference, and depend on the other lines of a batch."
        )
    if bench.rounds < ROUNDS:
        rounds = "1 round" if bench.rounds == 1 else f"{bench.rounds} rounds"
        found.append(
            f"Only {rounds} of {ROUNDS} fit into the time limit, so the figures are unreliable: increase --seconds and "
            "stop other work on the machine."
        )
    return found


def command(bench: Bench, row: Row, plain: Row) -> str:
    """Returns the command that runs a model in the configuration of a row."""
    side, options = row.side, list[str]()
    if bench.model["task"] == "translate":
        options.append("--beam-size 5" if row.mode.startswith("beam 5") else "--beam-size 1")
    if side.engine != bench.model["engine"] and side.dtype != "bfloat16":
        options.append(f"--engine {side.engine}")
    if side.dtype != "float32":
        options.append(f"--dtype {side.dtype}")
    if side.workers > 1:
        options.append(f"--workers {side.workers}")
    if (side.workers, side.threads) != (1, plain.side.threads) or plain.side.threads != bench.machine["cores"]:
        options.append(f"--threads {side.threads}")
    words = ["pellucid", bench.model["task"], quote(bench.model["folder"]), *options]
    return " ".join(words) + ("" if row.alone else " < input.txt > output.txt")


def _sort_by_speed(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row.lines_per_second["median"])


def _format_row(row: Row, unit: str) -> str:
    found = [
        f"{format_times(row.lines_per_second)} {unit}/s",
        f"{format_times(row.tokens_per_second).partition(' ')[0]} tokens/s",
    ]
    if row.seconds_a_line is not None:
        milliseconds = {name: 1000 * value for name, value in row.seconds_a_line.items()}
        found.append(
            f"{three_digits(milliseconds['median'])} ms per line, 95 % within {three_digits(milliseconds['p95'])} ms"
        )
    if row.share_of_peak is not None:
        found.append(f"{row.share_of_peak:.1%} of the peak".replace("%", " %"))
    if row.memory_megabytes is not None:
        found.append(f"{row.memory_megabytes:,.0f} MB")
    return ", ".join(found)
