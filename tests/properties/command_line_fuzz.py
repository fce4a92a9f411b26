"""Draws command lines that nobody would write, and runs each in a child of its own, with little memory and time.

    python -m tests.properties.command_line_fuzz --tries 5000 --seed 1

What must hold of each: an exit status of 0, 1 or 2, no traceback, no bare error (one that asks for --debug), no signal.
Devices are copies, made where they may be made; nothing is written outside of the folder of a try.
"""

import argparse
import gzip
import importlib
import inspect
import json
import os
import random
import re
import resource
import shutil
import signal
import stat
import sys
import tempfile
import time
import typing
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.cli.main import UNEXPECTED_HINT

MEMORY = 3 << 30
"""Bytes of addresses that a try may take beyond what the process has before it."""
SECONDS = 60

VERBS = (
    "train", "doctor", "clean", "translate", "classify", "generate", "score", "evaluate", "inspect", "plot", "heads",
    "align", "recipes", "info", "average", "convert", "xyzzy", "",
)  # fmt: skip
"""All but demo, which trains for a minute."""

NUMBERS = (
    "0", "1", "2", "3", "7", "-1", "-0", "1.5", "0.1", "1e308", "-1e308", "1e-320", "nan", "inf", "-inf", "five", "",
    "99999999999999999999999", "9" * 5000, "0x10", "1_0", "١", "2147483648", "9223372036854775807", "true",
)  # fmt: skip
WORDS = (
    "", "-", "--", "a", "auto", "cpu", "cuda", "meta", "float32", "bfloat16", "int8", "\x1b[31mred", "a\nb", "x" * 300,
    "a\0b", "\udcff", "안녕", "{}", "%s", "../..", "error", "skip", "replace", "heads", "matrix", "beam", "masks",
    "positions", "schedule", "run", "words", "lines", "continuous", "hf", "ct2", "pellucid", "default", "tiny", "src",
)  # fmt: skip
FILES = (
    "in.src", "in.tgt", "empty", "blank", "bad", "cp949", "utf16", "in.gz", "half.gz", "binary", "long", "missing",
    "folder", "loop", "n" * 300, "a\0b", "in.tsv", "in.jsonl", "-", "", "denied",
)  # fmt: skip
OUTPUTS = (
    "out", "out.svg", "out.html", "out.trace", "out.json", "out.png", "folder", "none/out", "loop", "o" * 300, "a\0b",
    "null", "null.svg", "full", "in.src", "-", "", ".", "안녕.svg", "run", "/proc/x",
)  # fmt: skip
MODELS = (
    "run",
    "run",
    "run",
    "broken",
    "half",
    "missing",
    "folder",
    "in.src",
    "loop",
    "m" * 300,
    "a\0b",
    "",
    "org/name",
)
SETTINGS = (
    "train.steps=2", "train.seed=99999999999999999999999", "train.learning_rate=1e30", "train.schedule=constant",
    "model.d_model=8", "model.d_model=7", "model.num_heads=0", "decode.beam_size=1000000000", "\x1b=1", "a.b=c",
    "decode.length_penalty=1e308", "data.max_length=1", "data.vocab_size=5", "data.tokenizer=bpe", "x", "=",
    "data.normalize=none", "train.x=[[[",
    "train.batch_tokens=1", "train.accumulate=3", "train.average=1", "train.warmup_steps=1e9", "model.dropout=nan",
    "train.seed=" + "9" * 5000, "data.src=" + "[" * 20_000, "model.positions=rotary", "model.norm=pre",
)  # fmt: skip
RECIPES = ("default", "multi30k-de-en", "missing", "good.toml", "deep.toml", "digits.toml", "bad", "folder", "")
ENCODINGS = ("utf-8", "ascii", "latin-1", "cp949", "cp1252")
STREAMS = ("file", "file", "file", "closed", "full")
INPUTS = (
    b"",
    b"a b\n",
    b"a b\n\nc\n",
    b"\xff\xfe\n",
    b"a\n" * 100,
    b"\x1f\x8b\x08",
    "안녕\n".encode(),
    b"a\0b\n",
    "a b\n".encode("utf-16"),
)


NEEDED = ("src", "tgt", "ref", "out", "output")
"""Options that a command seldom works without."""


@dataclass(frozen=True)
class Try:
    """A command line, and what it is started with."""

    arguments: tuple[str, ...]
    stdin: bytes | None
    stdout: str
    stderr: str
    encoding: str


def draw(generator: random.Random) -> Try:
    """A try: some are mostly sensible, so that they get far, some are not."""
    sense = generator.choice((0.97, 0.9, 0.6))
    verb = generator.choice(VERBS)
    arguments = [verb, *_arguments(verb, generator, sense)]
    if generator.random() > sense:
        arguments.insert(generator.randrange(len(arguments) + 1), generator.choice(WORDS))
    stdin = None if generator.random() < 0.15 else generator.choice(INPUTS)
    choose = generator.choice
    return Try(tuple(arguments), stdin, choose(STREAMS), choose(STREAMS), choose(ENCODINGS))


def _arguments(verb: str, generator: random.Random, sense: float) -> list[str]:
    try:
        function = getattr(importlib.import_module(f"pellucid.cli.{verb}"), verb)
    except (ImportError, AttributeError):
        return [generator.choice(WORDS)]
    signature = inspect.signature(function)
    positional: list[str] = []
    options: list[str] = []
    likely = generator.choice((0.03, 0.1, 0.3))
    for parameter in signature.parameters.values():
        is_option = parameter.kind is parameter.KEYWORD_ONLY
        is_needed = parameter.default is parameter.empty or parameter.name in NEEDED
        if generator.random() > (sense if is_needed or not is_option else likely):
            continue
        kind = typing.get_args(parameter.annotation)[:1] or (parameter.annotation,)
        name = f"--{parameter.name.rstrip('_').replace('_', '-')}"
        if kind == (bool,):
            options.append(name)
            continue
        value = _value(verb, parameter.name, str(kind[0]), generator, sense)
        if not is_option:
            positional += value if isinstance(value, list) else [value]
        elif isinstance(value, str):
            options += [f"{name}={value}"] if generator.random() < 0.3 else [name, value]
    if verb == "train":  # nothing else is small enough for a child
        small = ("model.d_model=8", "model.d_ff=8", "model.num_heads=2", "train.steps=2", "data.tokenizer=spaces")
        options = [part for setting in small for part in ("--set", setting)] + options
        options += ["--set", "train.validate_every=1", "--set", "train.decode_and_evaluate=1"]
    return positional + options


def _value(verb: str, name: str, kind: str, generator: random.Random, sense: float) -> str | list[str]:
    choose, sensible = generator.choice, generator.random() < sense
    if not sensible and generator.random() < 0.3:
        return choose(WORDS)
    if name == "names":
        return [choose(("run", "masks", "a")) for _ in range(generator.randrange(3))]
    if name == "kind" and verb == "plot":
        return choose(("masks", "positions", "schedule", "smoothing", "run")) if sensible else choose(WORDS)
    if name in ("model", "against", "init_from", "compare", "run") or (verb == "convert" and name == "src"):
        return "run" if sensible else choose(MODELS)
    if name == "recipe" or (verb == "recipes" and name == "name"):
        return choose(RECIPES[:1]) if sensible else choose(RECIPES)
    if name in ("output", "out", "dst"):
        return choose(OUTPUTS[:6]) if sensible else choose(OUTPUTS)
    if name == "set":
        return choose(SETTINGS)
    if name[-3:] == "src":
        return "in.src" if sensible else choose(FILES)
    if name in ("input", "tgt", "ref", "gold", "valid_tgt", "test_tgt"):
        return "in.tgt" if sensible else choose(FILES)
    if "int" in kind or "float" in kind:
        return choose(NUMBERS[:6]) if sensible else choose(NUMBERS)
    if name == "budget":
        return choose(("1s", "5s", "0s", "x", "-1m", "1e9h"))
    return choose(WORDS)


def make_place(folder: Path, run: Path) -> None:
    """Fills a folder with all that the names above stand for."""
    shutil.copytree(run, folder / "run")
    shutil.copytree(run, folder / "half", ignore=shutil.ignore_patterns("*.safetensors"))
    shutil.copytree(run, folder / "broken")
    weights = folder / "broken" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    (folder / "folder").mkdir()
    lines = "".join(f"{' '.join('abcdefgh'[: 1 + i % 8])}\n" for i in range(20))
    backwards = "".join(f"{' '.join(reversed('abcdefgh'[: 1 + i % 8]))}\n" for i in range(20))
    contents: dict[str, bytes] = {
        "in.src": lines.encode(), "in.tgt": backwards.encode(), "empty": b"", "blank": b"\n\n", "bad": b"a\n\xff\n",
        "cp949": "안녕 하세요\n".encode("cp949"), "utf16": "a b\n".encode("utf-16"),
        "in.gz": gzip.compress(lines.encode()),
        "half.gz": gzip.compress(lines.encode())[:-20], "binary": bytes(range(256)) * 8, "long": b"a " * 20_000,
        "in.tsv": b"a b\tb a\n" * 20, "in.jsonl": b'{"src": "a b", "tgt": "b a"}\n' * 20, "denied": b"a\n",
        "good.toml": b"[train]\nsteps = 2\n", "deep.toml": b"a = " + b"[" * 20_000,
        "digits.toml": b"a = " + b"9" * 5000,
    }  # fmt: skip
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "loop").symlink_to("loop")
    (folder / "denied").chmod(0)
    for name, minor in (("null", 3), ("null.svg", 3), ("full", 7)):
        try:
            os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        except OSError:  # who is not root makes none
            (folder / name).write_bytes(b"")


def run_try(tried: Try, run: Path) -> tuple[str, str]:
    """What a try came to: "" or what is wrong with it, and what it said."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        make_place(folder, run)
        devices = {path: path.stat() for path in map(folder.joinpath, ("null", "null.svg", "full"))}
        said = folder.parent / f"{folder.name}.err"
        child = os.fork()
        if not child:
            _become(tried, folder, said)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        text = said.read_text(encoding=tried.encoding, errors="replace") if said.exists() else ""
        said.unlink(missing_ok=True)
        for path, before in devices.items():
            if stat.S_ISCHR(before.st_mode) and (not path.exists() or path.stat().st_rdev != before.st_rdev):
                return "a device was replaced", text
    if status < 0:
        return f"ended by {signal.Signals(-status).name}", text
    if status not in (0, 1, 2):
        return f"exit status {status}", text
    if "Traceback (most recent call last)" in text:
        return "a traceback", text
    if UNEXPECTED_HINT in text:
        return "a bare error", text
    if any(not (c.isprintable() or c == "\n") for c in text) or max(map(len, re.split(r"\s", text))) > 1000:
        return "an error that is not legible", text
    return "", text


def _become(tried: Try, folder: Path, said: Path) -> None:
    """Runs the try in this process, which is a child, and ends it."""
    status = 99
    try:
        os.chdir(folder)
        size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(SECONDS)
        _redirect(tried, said)
        from pellucid.cli.main import main

        status = main(list(tried.arguments))
    except BaseException:
        import traceback

        with said.open("a", encoding="utf-8", errors="replace") as file:
            traceback.print_exc(file=file)
    finally:
        os._exit(status)


def _redirect(tried: Try, said: Path) -> None:
    os.close(0)
    sys.stdin = sys.stdout = sys.stderr = None  # type: ignore[assignment]
    if tried.stdin is not None:
        read, write = os.pipe()
        if read:
            os.dup2(read, 0)
            os.close(read)
        os.write(write, tried.stdin)
        os.close(write)
        sys.stdin = os.fdopen(0, encoding=tried.encoding, closefd=False)
    for number, name, kind in ((1, "stdout", tried.stdout), (2, "stderr", tried.stderr)):
        os.close(number)
        if kind == "closed":
            continue
        path = "/dev/full" if kind == "full" and Path("/dev/full").exists() else said if number == 2 else "/dev/null"
        handle = os.open(path, os.O_WRONLY | (os.O_CREAT if path == said else 0), 0o600)
        if handle != number:
            os.dup2(handle, number)
            os.close(handle)
        setattr(sys, name, os.fdopen(number, "w", encoding=tried.encoding, closefd=False))


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws, runs, and prints what came out as JSON; exit status 1 where anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so long, whatever is left")
    given = parser.parse_args(arguments)
    os.environ["PELLUCID_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"

    import torch

    from pellucid.run.run import train
    from tests.toy_task import reversed_letters, small_recipe, write_pairs

    torch.set_num_threads(1)
    for name in (
        "analysis.align", "analysis.heads", "data.doctor", "evaluation.comparison", "streams.streams",
        "tasks.classifier", "tasks.language_model", "tasks.translator", "views.head_page", "views.inspect",
        "views.plot",
    ):  # fmt: skip
        importlib.import_module(f"pellucid.{name}")  # once for all children
    wrong: list[dict[str, Any]] = []
    kinds: Counter[str] = Counter()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-run-") as name:
        run = Path(name) / "run"
        with open(os.devnull, "w", encoding="utf-8") as quiet:
            sys.stderr, before = quiet, sys.stderr
            train(small_recipe(*write_pairs(Path(name), reversed_letters(100))), run, quiet=True)
            sys.stderr = before
        done = 0
        for number in range(given.tries):
            if time.monotonic() - started > given.seconds:
                break
            tried = draw(random.Random(f"{given.seed} {number}"))
            fault, text = run_try(tried, run)
            done += 1
            kinds[fault or "right"] += 1
            if fault:
                wrong.append({"number": number, "fault": fault, "try": repr(tried)[:2000], "said": text[-3000:]})
    print(json.dumps({"tries": done, "outcomes": dict(kinds), "wrong": wrong}, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
