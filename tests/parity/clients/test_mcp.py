"""`pellucid serve --mcp` with the client of the official SDK; standard output holds the protocol alone."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.tasks.translator import Translator

pytestmark = [pytest.mark.foreign]

TEXT = "a b c d"


def arguments(folder: Path) -> list[str]:
    return ["-m", "pellucid", "serve", str(folder), "--mcp", "--device", "cpu", "--engine", "torch"]


def test_the_sdks_client_translates_scores_and_explains(folder: Path) -> None:
    import anyio
    from mcp import Client, StdioServerParameters, stdio_client

    translator = Translator.load(folder, "cpu", engine="torch")
    [expected] = translator.translate([TEXT], confidence=True)
    found: dict[str, Any] = {}

    async def talk() -> None:
        parameters = StdioServerParameters(command=sys.executable, args=arguments(folder), env=dict(os.environ))
        async with Client(stdio_client(parameters)) as client:
            found["tools"] = {tool.name: tool for tool in (await client.list_tools()).tools}

            async def call(name: str, **options: Any) -> Any:
                answer = await client.call_tool(name, options)
                content: Any = answer.content[0]
                return content.text if answer.is_error else answer.structured_content or json.loads(content.text)

            found["translate"] = await call("translate", text=TEXT, source="de", target="en-US")
            found["alternatives"] = await call("translate", text=TEXT, alternatives=2)
            found["score"] = await call("score", text=TEXT, translation=expected.text)
            word = expected.text.split()[1]
            found["explain"] = await call("explain_word", text=TEXT, word=word)
            found["no word"] = await call("explain_word", text=TEXT, word="nothing")
            found["no pair"] = await call("translate", text=TEXT, source="fr", target="en")
            found["too long"] = await call("translate", text="a" * 100_001)

    async def bounded() -> None:
        with anyio.fail_after(120):
            await talk()

    anyio.run(bounded)
    assert found["tools"].keys() == {"translate", "score", "explain_word"}
    assert "de-en" in found["tools"]["translate"].description
    assert found["translate"]["text"] == expected.text
    assert found["translate"]["score"] == pytest.approx(expected.score, abs=1e-4)
    assert found["alternatives"]["alternatives"]
    assert found["score"]["score"] == pytest.approx(expected.score, abs=1e-4)
    trace = translator.trace(TEXT)
    row = [token.text_in_word.strip() for token in trace.sequences["out"]].index(expected.text.split()[1])
    assert trace.predictions is not None
    assert found["explain"]["probability"] == pytest.approx(math.exp(trace.predictions[row].log_prob), abs=1e-4)
    values = pellucid.attribute(translator, trace).values[row]
    lost = [one["log_probability_lost_without_it"] for one in found["explain"]["depends_on"]]
    assert lost == pytest.approx(sorted(values.tolist(), reverse=True), abs=1e-3)
    assert "the translation has no word `nothing`" in found["no word"]
    assert "`fr` to `en` is not supported; the pairs are `de-en`" in found["no pair"]
    assert "the limit is 100,000" in found["too long"]


def test_standard_output_holds_the_protocol_alone(folder: Path) -> None:
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "translate", "arguments": {"text": TEXT}}},
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, *arguments(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
        lines = [process.stdout.readline(), process.stdout.readline()]
        rest, errors = process.communicate(timeout=60)  # the end of the input ends the server
    finally:
        process.kill()
    answers = [json.loads(line) for line in lines]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert (rest, process.returncode) == (b"", 0), errors
    assert b"Traceback" not in errors
