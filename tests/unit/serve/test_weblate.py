"""Requests as Weblate writes them, for LibreTranslate and for DeepL, and what it reads in the answers."""

from datetime import datetime
from pathlib import Path

import pytest

from pellucid.tasks.translator import Translator
from tests.unit.serve.serving import Server, serve

LINES = [" ".join("abcdefgh"[place % 6 :: 2]) for place in range(20)]
"""Weblate sends lists of 20."""
HEADERS = {"Authorization": "DeepL-Auth-Key secret", "User-Agent": "Weblate/5.15"}


@pytest.fixture
def expected(translator: Translator) -> list[str]:
    return [found.text for found in translator.translate(LINES)]


def test_libretranslate(server: Server, guarded: Server, expected: list[str]) -> None:
    codes = [each["code"] for each in server.ask("GET", "/languages").json]
    assert {"de", "en"} <= {*codes}
    table = {"q": LINES, "source": "de", "target": "en"}
    for running, key in ((server, ""), (server, None), (guarded, "secret")):
        found = running.ask("POST", "/translate", {"api_key": key, **table})
        assert (found.status, found.json["translatedText"]) == (200, expected)
    form = [("api_key", "secret"), ("q", LINES[0]), ("source", "de"), ("target", "en")]  # before lists
    assert guarded.ask("POST", "/translate", form=form).json["translatedText"] == expected[0]
    assert guarded.ask("POST", "/translate", {"api_key": "wrong", **table}).json == {"error": "Invalid API key"}
    wrong = server.ask("POST", "/translate", {**table, "api_key": "", "target": "zz"})
    assert (wrong.status, wrong.json) == (400, {"error": "zz is not supported"})


def test_deepl_texts(guarded: Server, expected: list[str]) -> None:
    listed = {
        kind: [each["language"] for each in guarded.ask("GET", f"/v2/languages?{query}", headers=HEADERS).json]
        for kind, query in (("source", "type=source"), ("target", "enable_beta_languages=1&type=target"))
    }
    assert listed == {"source": ["DE"], "target": ["EN-US", "EN-GB"]}
    table = {
        "text": LINES, "source_lang": "DE", "target_lang": "EN", "formality": "default", "tag_handling": "xml",
        "ignore_tags": ["x"], "context": "a letter", "model_type": "prefer_quality_optimized",
    }  # fmt: skip
    found = guarded.ask("POST", "/v2/translate", table, headers=HEADERS)
    assert found.status == 200
    assert [each["text"] for each in found.json["translations"]] == expected
    refused = guarded.ask("POST", "/v2/translate", {**table, "target_lang": "FR"}, headers=HEADERS)
    assert refused.json == {"message": "Value for 'target_lang' not supported."}
    wrong = guarded.ask("POST", "/v2/translate", table, headers={"Authorization": "DeepL-Auth-Key wrong"})
    assert (wrong.status, [*wrong.json]) == (403, ["message"])


def test_deepl_placeholders(guarded: Server) -> None:
    texts = ['a <x id="2"></x> b', '<x id="0"></x>', 'a &lt; b &amp; <x id="8"></x><x id="15"></x>']
    table = {"text": texts, "source_lang": "DE", "target_lang": "EN-US", "tag_handling": "xml", "ignore_tags": ["x"]}
    found = guarded.ask("POST", "/v2/translate", table, headers=HEADERS).json["translations"]
    for text, each in zip(texts, found, strict=True):
        assert each["text"].count("<x ") == text.count("<x ")
        for place in (0, 2, 8, 15):
            tag = f'<x id="{place}"></x>'
            assert each["text"].count(tag) == text.count(tag)


def test_deepl_glossaries(finished_run: Path) -> None:
    """Weblate names a glossary by its content, looks it up by name, and deletes the oldest one where there are many."""
    with serve([f"de-en={finished_run}"], api_keys=["secret"]) as running:

        def ask(method: str, path: str, table: object = None) -> object:
            found = running.ask(method, path, table, headers=HEADERS)
            assert found.status < 300, found.text
            return found.json if found.text else None

        pairs = running.ask("GET", "/v2/glossary-language-pairs", headers=HEADERS).json["supported_languages"]
        assert ("DE", "EN") in {(each["source_lang"].upper(), each["target_lang"].upper()) for each in pairs}
        for name, tsv in (("weblate:1:DE:EN:5", "a\th\nb\tg"), ("weblate:1:DE:EN:6", "a\tc")):
            table = {"name": name, "source_lang": "DE", "target_lang": "EN", "entries": tsv, "entries_format": "tsv"}
            ask("POST", "/v2/glossaries", table)
        listed = running.ask("GET", "/v2/glossaries", headers=HEADERS).json["glossaries"]
        by_name = {each["name"]: each["glossary_id"] for each in listed}
        assert [*sorted(by_name)] == ["weblate:1:DE:EN:5", "weblate:1:DE:EN:6"]
        table = {"text": ["a b"], "source_lang": "DE", "target_lang": "EN", "glossary_id": by_name["weblate:1:DE:EN:5"]}
        answer = running.ask("POST", "/v2/translate", {**table, "tag_handling": "xml"}, headers=HEADERS)
        assert {"h", "g"} <= {*answer.json["translations"][0]["text"].split()}
        oldest = min(listed, key=lambda each: datetime.fromisoformat(each["creation_time"]))
        assert oldest["name"] == "weblate:1:DE:EN:5"
        ask("DELETE", f"/v2/glossaries/{oldest['glossary_id']}")
        gone = running.ask("DELETE", f"/v2/glossaries/{oldest['glossary_id']}", headers=HEADERS)
        assert gone.status == 404
