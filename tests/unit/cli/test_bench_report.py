"""What is said of a model's speed, and which command is recommended."""

from typing import Any

from pellucid.benchmark.bench import Bench, BenchConfiguration, LeftOut, Row
from pellucid.cli.bench_report import recommendation, report

PLAIN, WORKERS = BenchConfiguration("torch", "float32", 1, 2, True), BenchConfiguration("torch", "float32", 2, 1)
ELSEWHERE = BenchConfiguration("ctranslate2", "int8", 1, 2)


def row(side: BenchConfiguration, speed: float, mode: str = "beam 5", spread: float = 0.1) -> Row:
    values = {"median": speed, "min": speed * (1 - spread), "max": speed * (1 + spread)}
    alone = {"median": 0.02, "min": 0.01, "max": 0.05, "p95": 0.04} if "alone" in mode else None
    return Row(mode, alone is not None, side, 40, values, values, 0.25, alone, 250.0)


def bench(*rows: Row, **fields: Any) -> Bench:
    model = {
        "folder": "my run", "task": "translate", "family": "encoder-decoder", "parameters": 1000, "megabytes": 0.1,
        "d_model": 8, "encoder_layers": 2, "decoder_layers": 1, "vocabulary": 19, "engine": "torch",
    }  # fmt: skip
    given = {"model": model, "machine": {"cpu": "x", "cores": 2, "threads": 2}, "versions": {}, "rounds": 3}
    text = {"from": "in", "lines": 40, "tokens_a_line": 7.5}
    peaks = {"float32": {"median": 300.0, "min": 290.0, "max": 310.0}}
    return Bench(**given | {"text": text, "peak_gflops": peaks, "rows": list(rows)} | fields)


def test_what_is_clearly_faster_is_recommended() -> None:
    assert recommendation(bench(row(PLAIN, 100), row(WORKERS, 150))) == [
        "beam 5: 150 sentences per second, 1.5 times as fast as without options:\n"
        "  pellucid translate 'my run' --beam-size 5 --workers 2 --threads 1 < input.txt > output.txt"
    ]


def test_what_may_be_chance_is_not() -> None:
    assert recommendation(bench(row(PLAIN, 100), row(WORKERS, 115))) == [
        "beam 5: 100 sentences per second, no other configuration is clearly faster:\n"
        "  pellucid translate 'my run' --beam-size 5 < input.txt > output.txt"
    ]


def test_the_reference_is_an_option_where_the_compiled_engine_is_the_default() -> None:
    rows = [
        row(BenchConfiguration("compiled", "float32", 1, 2, True), 100),
        row(BenchConfiguration("torch", "float32", 1, 2), 200),
    ]
    found = bench(*rows)
    found.model["engine"] = "compiled"
    assert recommendation(found) == [
        "beam 5: 200 sentences per second, 2 times as fast as without options:\n"
        "  pellucid translate 'my run' --beam-size 5 --engine torch < input.txt > output.txt"
    ]


def test_another_engine_and_too_few_rounds_are_told() -> None:
    rows = [row(PLAIN, 100, "greedy, alone"), row(ELSEWHERE, 400, "greedy, alone")]
    said = recommendation(bench(*rows, rounds=1))
    assert said[0] == (
        "greedy, alone: 20 ms per line, 4 times as fast as without options:\n"
        "  pellucid translate 'my run' --beam-size 1 --engine ctranslate2 --dtype int8"
    )
    assert said[1].startswith("The outputs of another engine may differ")
    assert said[2].startswith("Only 1 round of 3 fit into the time limit")


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
