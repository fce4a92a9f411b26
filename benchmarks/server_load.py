"""Claim: under ten times the load that it can take, and with workers killed, the server loses and mistakes no answer.

    python benchmarks/server_load.py > server_load.json             (--quick: a trial of seconds)
    python benchmarks/server_load.py --model RUN --input TEST.de    a translator of your own in place of the demo's

*load*: `pellucid serve` has `--clients` connections (200) on the loopback, which send `--times` (10) times the lines
per second that the server translated with 16 clients, for `--seconds` (120); then SIGTERM, under this load. Each
answer is compared with `Translator.translate`. It is `right`, `wrong`, `busy` (503 with Retry-After), or `lost` if the
connection was closed before the answer; `other` is any other status. Every request that the server's access log names
must have been answered. The latencies are those of right answers, in milliseconds; `MiB` is resident memory after a
quarter of the time and at the end, which may be 5 % more.

*killed*: two workers of `uvicorn --workers 2 --factory` share a folder of documents and glossaries; one of them gets
SIGKILL under load. The connections of this worker are `cut`, each at most once; all later requests are answered. Each
glossary is found afterwards, and each document is right, or has an error that says that it was not translated.

*speed*: the server and `Translator.translate` in this process take turns on the same lines, which 16 connections send
as lists; one line goes back and forth on a kept connection. `speed` is the ratio of Python's seconds to the server's,
and `more milliseconds` of one line the server's less Python's; neither has an effect on the exit status.

Exit status 1 if any of this does not hold. Linux alone: it reads /proc.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from held_memory import resident
from report import (
    circumstances,
    p95,
    positive,
    print_json,
    refusals_in_words,
    summarize_times,
    take_turns,
    time_call,
)

from pellucid import Translator, read_lines
from pellucid.data.dates import split_dates
from pellucid.demo import TRAINED
from pellucid.documents.spans import has_letters

MOST_LINES = 8
"""The lines of a request."""
DOCUMENTS = 8
"""The documents, and the glossaries, that are sent before a worker is killed."""
MOST_GROWTH = 1.05
IDLE = 4.0
"""The seconds after which a client opens a new connection: the server closes idle ones after 5."""
LIMIT = 60.0
"""The seconds that a server has to start, to end, and to answer a request."""
SETTINGS = "PELLUCID_SERVER_LOAD"
"""The environment variable that tells `make_application` its arguments, as JSON."""


def make_application() -> Any:
    """Returns the application of a worker, for `uvicorn --factory server_load:make_application`."""
    from pellucid.serve import app

    return app(**json.loads(os.environ[SETTINGS]))


class Server:
    """A server in a process of its own, with what it writes on standard error."""

    def __init__(self, words: Sequence[str], listening: str, environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | (environment or {}),
        )  # fmt: skip
        self.logged = 0
        """The lines of the access log for /translate."""
        self.workers: list[int] = []
        self.port = 0
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(listening,), daemon=True)
        self._reader.start()
        if not self._ready.wait(LIMIT) or not self.port:
            self.process.kill()
            raise SystemExit("error: the server does not start")

    def _read(self, listening: str) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.startswith("POST /translate "):
                    self.logged += 1
                    continue
                print(f"server: {line}", end="", file=sys.stderr)
                if found := re.search(r"Started server process \[(\d+)\]", line):
                    self.workers.append(int(found[1]))
                if found := re.search(listening, line):
                    self.port = int(found[1])
                    self._ready.set()
        self._ready.set()

    def end(self) -> int:
        """Sends SIGTERM. Returns the exit status, -9 if the server does not end in time."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._reader.join(LIMIT)
        return self.process.wait()


@dataclass
class Load:
    """The clients of a server, each with one connection.

    Args:
        port: the port of the server.
        right: the translation of each line.
        pause: the mean seconds between two requests of a client; a client waits for its answer before the next one.
    """

    port: int
    right: dict[str, str]
    pause: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    """The answers by status."""
    lines: int = 0
    """The lines of right answers."""
    milliseconds: list[float] = field(default_factory=list)
    is_ending: bool = False

    async def run(self, clients: int, seconds: float, during: Any = None) -> None:
        """Sends requests for some seconds, in which `during` may be awaited."""
        end = time.monotonic() + seconds
        work = [self._send(number, end) for number in range(clients)]
        await asyncio.gather(*work, *([during] if during else []))

    async def _send(self, number: int, end: float) -> None:
        chance, connection = random.Random(number), None
        known = [*self.right]
        used, next_one = 0.0, time.monotonic() + chance.random() * self.pause
        while next_one < end and not self.is_ending:
            await asyncio.sleep(max(0.0, next_one - time.monotonic()))
            if self.is_ending:
                break
            texts = chance.choices(known, k=chance.randint(1, MOST_LINES))
            begun = time.monotonic()
            try:
                if connection and begun - used > IDLE:
                    connection[1].close()
                    connection = None
                connection = connection or await asyncio.open_connection("127.0.0.1", self.port)
                body = json.dumps({"q": texts, "source": "de", "target": "en"}).encode()
                status, headers, answer = await asyncio.wait_for(
                    ask(connection, "POST /translate", body, "application/json"), LIMIT
                )
                if headers.get("connection") == "close":
                    connection[1].close()
                    connection = None
            except (OSError, EOFError, TimeoutError):
                self.counts["unanswered" if self.is_ending else "lost"] += 1
                if connection:
                    connection[1].close()
                connection = None
            else:
                self._judge(texts, status, headers, answer, 1000 * (time.monotonic() - begun))
            used = time.monotonic()
            next_one = max(next_one + 2 * self.pause * chance.random(), used)
        if connection:
            connection[1].close()

    def _judge(
        self, texts: list[str], status: int, headers: dict[str, str], answer: bytes, milliseconds: float
    ) -> None:
        self.answers[str(status)] += 1
        if status == 200:
            is_right = json.loads(answer)["translatedText"] == [self.right[text] for text in texts]
            self.counts["right" if is_right else "wrong"] += 1
            self.lines += len(texts) * is_right
            self.milliseconds.append(milliseconds)
        else:
            is_busy = status == 503 and int(headers.get("retry-after", 0)) >= 1
            self.counts["busy" if is_busy else "other"] += 1

    def table(self) -> dict[str, Any]:
        """Returns the counts, and the latencies of right answers."""
        kinds = ("right", "wrong", "busy", "lost", "other", "unanswered")
        times = self.milliseconds or [0.0]
        latency = {"p50": round(statistics.median(times), 1), "p95": round(p95(times), 1)}
        return {kind: self.counts[kind] for kind in kinds} | {"milliseconds": latency}


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def ask(
    connection: Connection, line: str, body: bytes = b"", kind: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """Returns the status, the headers and the body of an answer. Raises OSError or EOFError if there is none."""
    reader, writer = connection
    head = f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    writer.write((head + (f"Content-Type: {kind}\r\n" if kind else "") + "\r\n").encode() + body)
    await writer.drain()
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
    return int(first.split()[1]), headers, await reader.readexactly(int(headers.get("content-length", 0)))


async def ask_once(port: int, line: str, body: bytes = b"", kind: str = "") -> tuple[int, bytes]:
    """Returns the status and the body of the answer to a request on a connection of its own."""
    connection = await asyncio.open_connection("127.0.0.1", port)
    try:
        status, _, answer = await asyncio.wait_for(ask(connection, line, body, kind), LIMIT)
        return status, answer
    finally:
        connection[1].close()


def measure_load(args: argparse.Namespace, right: dict[str, str]) -> dict[str, Any]:
    """Returns the counts of answers under load, memory, and the end by SIGTERM."""
    words = ["pellucid", "serve", f"de-en={args.model}", "--port", "0", "--device", "cpu", "--engine", args.engine]
    server = Server([*words, "--queue-tokens", str(args.queue_tokens)], r"listening on http://127\.0\.0\.1:(\d+)")
    try:
        warm, first = Load(server.port, right), Load(server.port, right)
        asyncio.run(warm.run(1, 0.1))  # loads the model
        asyncio.run(first.run(16, max(1.0, args.seconds / 12)))
        pace = first.lines / max(1.0, args.seconds / 12)
        mean = (MOST_LINES + 1) / 2
        load = Load(server.port, right, args.clients * mean / (args.times * max(pace, 1.0)))
        looks: list[int] = []
        status: list[int] = []

        async def watch() -> None:
            for _ in range(40):
                await asyncio.sleep(args.seconds / 40)
                looks.append(resident(server.process.pid))
            load.is_ending = True
            status.append(await asyncio.to_thread(server.end))

        begun = time.monotonic()
        asyncio.run(load.run(args.clients, args.seconds + LIMIT, watch()))
    finally:
        if server.process.poll() is None:
            server.process.kill()
    growth = max(looks[-4:]) / max(looks[:10])
    sent = sum(load.counts.values()) / args.seconds * mean
    accepted = server.logged - sum(each.answers.total() for each in (warm, first))
    table = load.table() | {
        "lines per second": {
            "alone": round(pace, 1), "sent": round(sent, 1), "right": round(load.lines / args.seconds, 1),
        },
        "MiB": {"after a quarter": round(max(looks[:10]) / 2**20, 1), "end": round(max(looks[-4:]) / 2**20, 1)},
        "accepted": accepted, "answered": load.answers.total(), "exit status": status[0],
        "seconds": round(time.monotonic() - begun, 1),
    }  # fmt: skip
    bad = table["wrong"] + table["lost"] + table["other"]
    holds = not bad and table["right"] > 0 and accepted == table["answered"] and status[0] == 0
    table["holds"] = holds and (args.quick or growth <= MOST_GROWTH)
    return table


async def add_entries(port: int, text: str, count: int) -> tuple[list[dict[str, str]], list[str]]:
    """Returns the documents and the glossaries that were sent to a server, over a connection each."""
    documents, glossaries = [], []
    parts = {"source_lang": "de", "target_lang": "en-us"}
    body = "".join(
        f'--line\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in parts.items()
    )
    body += '--line\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    body += f"{text}\r\n--line--\r\n"
    table = {"name": "g", "source_lang": "de", "target_lang": "en", "entries": "a\tb", "entries_format": "tsv"}
    for _ in range(count):
        status, found = await ask_once(port, "POST /v2/document", body.encode(), "multipart/form-data; boundary=line")
        assert status == 200, found
        documents.append(json.loads(found))
        status, found = await ask_once(port, "POST /v2/glossaries", json.dumps(table).encode(), "application/json")
        assert status == 201, found
        glossaries.append(json.loads(found)["glossary_id"])
    return documents, glossaries


async def find_ends(port: int, documents: Sequence[dict[str, str]], expected: str) -> Counter[str]:
    """Returns the number of documents that are right, wrong, have an error, are not found, or have no end in time."""
    ends = Counter[str]()
    deadline = time.monotonic() + 2 * LIMIT
    for each in documents:
        place, key = f"POST /v2/document/{each['document_id']}", json.dumps({"document_key": each["document_key"]})
        while True:
            status, found = await ask_once(port, place, key.encode(), "application/json")
            state = json.loads(found).get("status") if status == 200 else "not found"
            if state not in ("queued", "translating") or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.2)
        if state == "done":
            _, result = await ask_once(port, f"{place}/result", key.encode(), "application/json")
            state = "right" if result.decode() == expected else "wrong"
        ends[state] += 1
    return ends


def measure_kill(args: argparse.Namespace, right: dict[str, str]) -> dict[str, Any]:
    """Returns the counts of answers of two workers of which one is killed, and the ends of documents and glossaries."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {"models": [f"de-en={args.model}"], "device": "cpu", "engine": args.engine, "store": name}
        words = ["uvicorn", "--workers", "2", "--factory", "server_load:make_application", "--no-access-log"]
        words += [
            "--app-dir",
            str(Path(__file__).parent),
            "--port",
            str(find_port()),
            "--timeout-graceful-shutdown",
            "30",
        ]
        server = Server(words, r"running on http://127\.0\.0\.1:(\d+)", {SETTINGS: json.dumps(settings)})
        try:
            return asyncio.run(_kill_one(args, right, server, folder))
        finally:
            if server.process.poll() is None:
                server.end()


async def _kill_one(args: argparse.Namespace, right: dict[str, str], server: Server, folder: Path) -> dict[str, Any]:
    deadline = time.monotonic() + LIMIT
    while len(server.workers) < 2:
        await asyncio.sleep(0.1)
        if time.monotonic() > deadline or server.process.poll() is not None:
            raise SystemExit("error: the workers do not start")
    clients, text = min(args.clients, 32), "\n\n".join([*right] * (1 if args.quick else 4))
    load = Load(server.port, right)
    kept: dict[str, Any] = {}

    async def kill() -> None:
        await asyncio.sleep(args.seconds / 4)
        kept["documents"], kept["glossaries"] = await add_entries(server.port, text, DOCUMENTS)
        kept["before"] = load.counts["right"]
        os.kill(find_worker(folder, kept["documents"][-1]["document_id"]), signal.SIGKILL)

    await load.run(clients, args.seconds, kill())
    source, expected = folder / "a.txt", folder / "b.txt"
    source.write_text(text, encoding="utf-8")
    Translator.load(args.model, "cpu", engine=args.engine).translate_document(source, expected)
    ends = await find_ends(server.port, kept["documents"], expected.read_text(encoding="utf-8"))
    found = [await ask_once(server.port, f"GET /v2/glossaries/{name}/entries") for name in kept["glossaries"]]
    glossaries = sum(answer == (200, b"a\tb") for answer in found)
    table = load.table()
    table["cut"] = table.pop("lost")
    table |= {"right after the kill": table["right"] - kept["before"], "clients": clients, "documents": dict(ends)}
    table |= {"glossaries": {"found": glossaries, "lost": len(found) - glossaries}}
    holds = not table["wrong"] + table["other"] and table["cut"] <= clients and table["right after the kill"] > 0
    table["holds"] = holds and set(ends) <= {"right", "error"} and glossaries == len(found)
    return table


async def send_all(port: int, lines: Sequence[str], size: int, clients: int) -> None:
    """Has lines translated in lists of a size, over several connections. Raises SystemExit if one is refused."""
    left = [lines[place : place + size] for place in range(0, len(lines), size)]

    async def send() -> None:
        connection = await asyncio.open_connection("127.0.0.1", port)
        while left:
            body = json.dumps({"q": left.pop(), "source": "de", "target": "en"}).encode()
            status, _, answer = await asyncio.wait_for(
                ask(connection, "POST /translate", body, "application/json"), LIMIT
            )
            if status != 200:
                raise SystemExit(f"error: status {status}: {answer.decode()}")
        connection[1].close()

    await asyncio.gather(*(send() for _ in range(min(clients, len(left)))))


def measure_speed(args: argparse.Namespace, right: dict[str, str]) -> dict[str, Any]:
    """Returns the speed of the server over that of Python, by the lines of a request, and the latency of one line."""
    words = ["pellucid", "serve", f"de-en={args.model}", "--port", "0", "--device", "cpu", "--engine", args.engine]
    server = Server(words, r"listening on http://127\.0\.0\.1:(\d+)")
    translator = Translator.load(args.model, "cpu", engine=args.engine)
    lines = [*right][:200]

    def send(size: int) -> Callable[[], object]:
        return lambda: asyncio.run(send_all(server.port, lines, size, 16))

    try:
        sides = {"python": lambda: translator.translate(lines), **{f"lists of {n}": send(n) for n in (200, 25, 5, 1)}}
        times = take_turns(sides, 1 if args.quick else 9, warm_up=1)
        more = asyncio.run(_compare_one(server.port, translator, lines[: 5 if args.quick else 100]))
    finally:
        server.end()
    ratios = {
        name: summarize_times([a / b for a, b in zip(times["python"], each, strict=True)])
        for name, each in times.items()
        if name != "python"
    }
    return {"speed": ratios, "more milliseconds": more, "holds": True}


async def _compare_one(port: int, translator: Translator, lines: Sequence[str]) -> dict[str, float]:
    connection, more = await asyncio.open_connection("127.0.0.1", port), []
    for line in lines:
        body, begun = json.dumps({"q": line, "source": "de", "target": "en"}).encode(), time.perf_counter()
        await asyncio.wait_for(ask(connection, "POST /translate", body, "application/json"), LIMIT)
        seconds = time.perf_counter() - begun
        more.append(1000 * (seconds - time_call(lambda line=line: translator.translate([line]))))  # type: ignore[misc]
    connection[1].close()
    return {"p50": round(statistics.median(more), 1), "p95": round(p95(more), 1)}


def find_worker(folder: Path, document: str) -> int:
    """Returns the process that translates a document, by the lock that it holds in the folder of documents."""
    worker = json.loads((folder / "documents" / f"{document}.json").read_bytes())["worker"]
    number = (folder / "documents" / f"{worker}.lock").stat().st_ino
    locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[4]) for line in locks if line.split()[5].endswith(f":{number}"))


def find_port() -> int:
    """Returns a port of the loopback that was free a moment ago: uvicorn's workers take no 0."""
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Measures; JSON on standard output, the server's log on standard error. Returns 1 where the claim fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=TRAINED, help="a run or model folder of a translator")
    parser.add_argument("--input", type=Path, help="source sentences, one a line; default: dates")
    parser.add_argument("--lines", type=positive, default=400, help="lines of the input that are sent")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--clients", type=positive, default=200)
    parser.add_argument("--times", type=float, default=10.0, help="the load, in multiples of what the server can take")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--queue-tokens", type=positive, default=2048)
    parser.add_argument("--only", choices=("load", "killed", "speed"), help="one of the three")
    parser.add_argument("--quick", action="store_true", help="a few seconds, a trial of the script")
    args = parser.parse_args(argv)
    args.seconds = min(args.seconds, 2.0) if args.quick else args.seconds
    source = list(read_lines(args.input)) if args.input else [date for date, _ in split_dates(2000, 7, 1000)[1]]
    lines = [line for line in dict.fromkeys(source) if has_letters(line)][: args.lines]  # others are not translated
    found = Translator.load(args.model, "cpu", engine=args.engine).translate(lines)
    right = dict(zip(lines, [each.text for each in found], strict=True))
    table: dict[str, Any] = {"lines": len(lines)}
    parts = {"load": measure_load, "killed": measure_kill, "speed": measure_speed}
    for name, measure in parts.items():
        if args.only in (None, name):
            table[name] = measure(args, right)
            print(f"{name}: {json.dumps(table[name])}", file=sys.stderr)
    print_json(circumstances(__file__, argv, ("starlette", "uvicorn")) | table)
    return int(not all(table[name]["holds"] for name in parts if name in table))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
