"""Tables as text, CSV, LaTeX and JSON."""

import csv
import io
import json

from pellucid.sweep.table import Column, ReportTable

TABLE = ReportTable(
    [Column("run", "run"), Column("d_ff", "d_ff"), Column("bleu", "BLEU", 2), Column("never", "never")],
    [{"run": "a,b_c", "d_ff": 1024, "bleu": 41.0254}, {"run": "50 %", "d_ff": 64, "bleu": None}],
)


def test_a_terminal_is_shown_aligned_columns_without_empty_ones() -> None:
    assert TABLE.write("table") == "run     d_ff   BLEU\na,b_c  1,024  41.03\n50 %      64      -\n"


def test_csv_has_full_numbers_and_quotes_what_it_must() -> None:
    rows = list(csv.reader(io.StringIO(TABLE.write("csv"))))
    assert rows == [["run", "d_ff", "bleu"], ["a,b_c", "1024", "41.0254"], ["50 %", "64", ""]]


def test_latex_escapes_what_means_something_there() -> None:
    lines = TABLE.write("latex").splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    assert lines[2] == r"run & d\_ff & BLEU \\"
    assert lines[4:6] == [r"a,b\_c & 1,024 & 41.03 \\", r"50 \% & 64 & - \\"]


def test_json_gives_the_rows_back() -> None:
    assert json.loads(TABLE.write("json")) == TABLE.rows
