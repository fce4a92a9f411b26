"""The clients of DeepL and OpenAI for Node, unmodified, against the server.

`make foreign` installs them into the folder `js` of the virtual environment.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.parity.clients.conftest import LINES
from tests.unit.serve.serving import Server

pytestmark = pytest.mark.foreign
MODULES = Path(sys.prefix, "js", "node_modules")
SCRIPT = Path(__file__).with_name("run_clients.mjs")


@pytest.fixture(scope="module")
def found(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the clients found; `document.text` is the translated document."""
    assert (MODULES / "deepl-node").is_dir(), "`make foreign` installs deepl-node and openai"
    folder = tmp_path_factory.mktemp("node")
    command = ["node", str(SCRIPT), str(MODULES), server.url, "secret", str(folder)]
    done = subprocess.run(command, input=json.dumps(LINES), capture_output=True, encoding="utf-8", timeout=300)
    assert not done.returncode, done.stderr
    table: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    table["document"]["text"] = (folder / "out.txt").read_text(encoding="utf-8")
    assert not (folder / "x.exe").exists()
    return table


def test_deepl_texts(found: dict[str, Any], expected: list[str]) -> None:
    assert [each["text"] for each in found["texts"]] == expected
    assert [(each["detectedSourceLang"], each["billedCharacters"]) for each in found["texts"]] == [
        ("de", len(line)) for line in LINES
    ]
    assert found["single"]["text"] == expected[0]
    assert "<x>q &amp; r</x>" in found["xml"]["text"]
    assert found["html"]["text"].startswith("<p>")
    assert found["html"]["text"].count("<b>") == found["html"]["text"].count("</b>") == 1
    assert [(each["code"], each["name"]) for each in found["sources"]] == [("de", "German")]
    assert [each["code"] for each in found["targets"]] == ["en-US", "en-GB"]
    assert found["limited"] is False


def test_deepl_glossaries(found: dict[str, Any]) -> None:
    glossary = found["glossary"]
    assert glossary["entries"] == glossary["csv"] == {"a": "h", "b": "g"}
    assert (glossary["count"], glossary["name"]) == (2, "mine")
    assert glossary["ready"] is glossary["dated"] is glossary["listed"] is True
    assert {"h", "g"} <= set(glossary["used"].split())
    assert [(each["sourceLang"], each["targetLang"]) for each in glossary["pairs"]] == [("de", "en")]
    assert found["deleted"]["name"] == "GlossaryNotFoundError"
    assert "There is nothing at this address" in found["multilingual"]["message"], "glossaries of version 3"


def test_deepl_documents(found: dict[str, Any], expected: list[str]) -> None:
    assert found["document"]["text"].split("\n\n") == expected
    assert found["document"]["done"] is True
    assert found["document"]["billed"] == sum(map(len, LINES))
    assert found["unknown"]["name"] == "DocumentTranslationError"
    assert "file format not supported" in found["unknown"]["message"]
    assert "Document not found" in found["stranger"]["message"]


def test_deepl_errors(found: dict[str, Any]) -> None:
    assert "Value for 'target_lang' not supported" in found["target"]["message"]
    assert found["stolen"]["name"] == "AuthorizationError"


def test_openai(found: dict[str, Any], expected: list[str]) -> None:
    [choice] = found["whole"]["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (expected[0], "stop")
    assert found["parts"] == found["final"] == expected[0]
    *parts, last = found["chunks"]
    assert "".join(part["choices"][0]["delta"].get("content") or "" for part in parts) == expected[0]
    assert (last["choices"], last["usage"]) == ([], found["whole"]["usage"])
    assert (found["models"], found["model"]) == (["de-en"], "de-en")


def test_openai_errors(found: dict[str, Any]) -> None:
    assert (found["missing"]["name"], found["missing"]["code"]) == ("NotFoundError", "model_not_found")
    assert "does not exist; there are de-en" in found["missing"]["message"]
    assert found["stop"]["name"] == found["refused"]["name"] == "BadRequestError"
    assert "stop is not supported" in found["stop"]["message"]
    assert (found["intruder"]["name"], found["intruder"]["status"]) == ("AuthenticationError", 401)
