"""Kills and stops processes of running commands at random moments, and measures what is left and for how long.

python -m tests.fuzz.strikes --strikes 100 --minutes 30 --out strikes.md

Each command has child processes: ranks, or workers with either engine. A strike is SIGKILL or SIGSTOP, to the process
that was started or to one of its children. What was struck must be gone within LIMIT seconds; then, or where it was the
first process, that one is killed, and all of its children must be gone within LIMIT seconds.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from pellucid.waits import is_running
from tests.toy_task import reversed_letters, small_arguments, write_pairs

LIMIT = 60.0
STARTING = 25.0
"""Seconds within which a strike comes: from the first import to the middle of the work, on a loaded machine."""


def children_of(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            found += [int(child), *children_of(int(child))]
    return found


def gone_within(pids: list[int]) -> float | None:
    """The seconds until none of the processes runs; None where one does after LIMIT seconds."""
    begun = time.monotonic()
    while time.monotonic() - begun < LIMIT:
        if not any(map(is_running, pids)):
            return time.monotonic() - begun
        time.sleep(0.05)
    return None


def commands(folder: Path, model: Path) -> dict[str, list[str]]:
    """The commands, whose texts are written into a folder."""
    src, tgt = write_pairs(folder, reversed_letters(200))
    words = small_arguments(src, tgt, folder / "run", "train.steps=1000000", "train.validate_every=1000000")
    draw = random.Random(5)
    (folder / "in").mkdir()
    for name in range(20):
        lines = ["".join(draw.choices("abcdefgh", k=30)) for _ in range(400)]
        (folder / "in" / str(name)).write_text("\n".join(lines) + "\n", encoding="utf-8")
    translate = ["translate", str(model), "--device", "cpu", "--threads", "1"]
    of_folder = [*translate, "--input-dir", str(folder / "in"), "--output-dir", str(folder / "out")]
    of_file = [*translate, "--workers", "2", "--input", str(folder / "in" / "0"), "--output", str(folder / "out.txt")]
    return {
        "train --ranks 2": [*map(str, words), "--device", "cpu", "--ranks", "2"],
        "translate, a folder": [*of_folder, "--workers", "2"],
        "translate, a file": of_file,
        "translate, a folder, CTranslate2": [*of_folder, "--engine", "ctranslate2"],
    }


def strike(words: list[str], draw: random.Random, folder: Path) -> tuple[str, float | None, float | None]:
    """Starts a command and strikes; returns how, and the seconds until the struck process and all others were gone."""
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "pellucid", *words], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            env=os.environ | {"OMP_NUM_THREADS": "1"}, cwd=folder,
        )  # fmt: skip
    wait_for_children = "ctranslate2" not in words and draw.random() < 0.8
    begun = time.monotonic()
    while wait_for_children and len(children_of(process.pid)) < 2 and process.poll() is None:
        if time.monotonic() - begun > 100:
            break
        time.sleep(0.02)
    end = time.monotonic() + draw.uniform(0, STARTING / 4 if wait_for_children else STARTING)
    while time.monotonic() < end and process.poll() is None:
        time.sleep(0.02)
    family = children_of(process.pid)
    victim = draw.choice(family) if family and draw.random() < 0.6 else process.pid
    number = draw.choice((signal.SIGKILL, signal.SIGSTOP))
    how = f"{number.name} to {'a child' if victim in family else 'the first process'}, {len(family)} children"
    with suppress(ProcessLookupError):
        os.kill(victim, number)
    struck: float | None = 0.0
    if victim != process.pid:
        struck = gone_within([victim])
    elif number == signal.SIGSTOP:
        time.sleep(2)
    family = list({*family, *children_of(process.pid)})
    process.kill()
    process.wait(LIMIT)
    left = gone_within(family)
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return how, struck, left


def main() -> int:
    """Returns 1 where a process was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a model of the letters a to h")
    parser.add_argument("--strikes", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    draw, until = random.Random(given.seed), time.monotonic() + 60 * given.minutes
    rows = ["| command | strike | struck process gone after | all gone after |", "| --- | --- | --- | --- |"]
    faulty = 0
    for number in range(given.strikes):
        if time.monotonic() > until:
            break
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            known = commands(Path(name), given.model)
            command = list(known)[number % len(known)]
            how, *seconds = strike(known[command], draw, Path(name))
        faulty += None in seconds
        told = " | ".join("never" if each is None else f"{each:.1f} s" for each in seconds)
        rows.append(f"| {command} | {how} | {told} |")
        print(rows[-1], flush=True)
        if given.out:
            given.out.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())
