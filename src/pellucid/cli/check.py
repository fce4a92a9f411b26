"""`pellucid check`."""

from typing import Annotated, Literal

import tyro

from pellucid.cli.options import optional
from pellucid.terminal import log_line


def check(
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.py", help="your code; it is run")],
    /,
    *,
    only: Annotated[
        str | None, optional("NAME", "the only part to judge, as `attention`", "all parts that the file defines")
    ] = None,
    lang: Annotated[Literal["en", "ko"], optional("LANG", "language of the sentences: en or ko", "en")] = "en",
) -> int:
    """Judge your own code of the Transformer, part by part, and name its mistakes.

    The parts: causal_mask, padding_mask, attention, MultiHeadAttention, positional_encoding, LayerNorm, EncoderLayer,
    DecoderLayer, loss, learning_rate, greedy, beam. They are found by name, or by the usual names of tutorials.

    The file is run, in a process of its own with a time limit; check only code that you trust. Each part prints a line:
    `right NAME`, `wrong NAME: MISTAKE: sentence` for each mistake, or `unknown NAME` if the judge cannot name the
    mistake. The exit status is 0 if all parts are right, else 1.

    example: pellucid check attention.py
    example: pellucid check mine.py --only MultiHeadAttention --lang ko
    """
    from pathlib import Path

    from pellucid.errors import format_value
    from pellucid.judge.file import check_file

    path = Path(file)
    log_line(f"note: this command runs {format_value(path)}; check only code that you trust")
    all_right = True
    for finding in check_file(path, only):
        for line in finding.list_lines(lang):
            print(line, flush=True)
        for note in finding.list_notes(lang):
            log_line(f"note: {note}")
        all_right = all_right and finding.right
    return 0 if all_right else 1
