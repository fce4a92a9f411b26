"""`pellucid serve`: a real process that says where it listens, answers, and ends after its accepted requests."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.cli.command_line import CommandLine


@contextmanager
def running(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    command = [sys.executable, "-m", "pellucid", "serve", *arguments, "--port", "0", "--engine", "torch"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        said = re.fullmatch(r"listening on (http://\S+:\d+)\n", line)
        assert said is not None, line
        yield process, said[1]
    finally:
        process.kill()
        if not process.stdout.closed:
            process.communicate(timeout=20)


def translate(url: str, text: str) -> str:
    body = json.dumps({"q": text, "source": "de", "target": "en"}).encode()
    request = urllib.request.Request(f"{url}/translate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(json.load(answer)["translatedText"])


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.slow
def test_a_signal_ends_it_after_the_requests_that_it_accepted(finished_run: Path) -> None:
    with running(f"de-en={finished_run}", "--device", "cpu") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        one = translate(url, "a b c")
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append(translate(url, "\n".join(["a b c"] * 2000))))
        thread.start()
        while "pellucid_waiting_tokens 0.0" in read(f"{url}/metrics"):
            pass
        process.send_signal(signal.SIGTERM)
        thread.join(60)
        assert found == ["\n".join([one] * 2000)]
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0
        assert out == ""
        assert "POST /translate 200" in err
        assert "a b c" not in err


@pytest.mark.slow
def test_localhost_listens_on_both_versions_of_ip(finished_run: Path) -> None:
    with running(f"de-en={finished_run}", "--host", "localhost") as (_, url):
        assert translate(url, "a b") == translate(url.replace("127.0.0.1", "localhost"), "a b")


def test_faults_of_the_command(finished_run: Path, tmp_path: Path, pellucid: CommandLine) -> None:
    found = pellucid("serve", finished_run)
    assert (found.status, found.error) == (2, f"`{finished_run}` does not state its language pair")
    assert (
        pellucid("serve", f"de-en={finished_run}", "--port", "70000").error == "`--port 70000` must be from 0 to 65535"
    )
    missing = pellucid("serve", f"de-en={finished_run}", "--api-key-file", tmp_path / "none")
    assert missing.status == 2
    assert (
        "unknown `--host nowhere.invalid`"
        in pellucid("serve", f"de-en={finished_run}", "--host", "nowhere.invalid").error
    )


def test_options_of_http_are_refused_with_mcp(pellucid: CommandLine) -> None:
    found = pellucid("serve", "run", "--mcp", "--store", "x")
    assert (found.status, found.error) == (2, "`--store` has no effect on standard input and output")
