"""The clients of others, unmodified, against the server: what their interfaces promise, and their own errors."""

import io
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.parity.clients.conftest import LINES
from tests.unit.serve.serving import Server

pytestmark = [pytest.mark.foreign, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def test_libretranslatepy(server: Server, expected: list[str], tmp_path: Path) -> None:
    from libretranslatepy import LibreTranslateAPI

    client = LibreTranslateAPI(f"{server.url}/", "secret")
    assert [client.translate(line, "de", "en") for line in LINES] == expected
    assert {each["code"] for each in client.languages()} == {"de", "en"}
    assert client.detect("Ein Hund läuft über die Wiese.")[0]["language"] == "de"
    with pytest.raises(Exception, match="403"):
        LibreTranslateAPI(f"{server.url}/", "wrong").translate("a", "de", "en")
    with pytest.raises(Exception, match="400"):
        client.translate("a", "zz", "en")


def deepl_client(server: Server, key: str = "secret") -> Any:
    import deepl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return deepl.DeepLClient(key, server_url=server.url, send_platform_info=False)


def test_deepl_texts(server: Server, expected: list[str]) -> None:
    client = deepl_client(server)
    found = client.translate_text(LINES, source_lang="DE", target_lang="EN-US")
    assert [each.text for each in found] == expected
    assert [(each.detected_source_lang, each.billed_characters) for each in found] == [("DE", len(x)) for x in LINES]
    options: Any = {"formality": "prefer_less", "context": "c", "split_sentences": "nonewlines", "ignore_tags": ["x"]}
    single = client.translate_text(
        "a <x>q &amp; r</x> b", target_lang="EN-GB", source_lang="DE", tag_handling="xml", **options
    )
    assert "<x>q &amp; r</x>" in single.text
    html = client.translate_text("<p>a <b>b</b> c</p>", target_lang="EN-GB", source_lang="DE", tag_handling="html")
    assert html.text.startswith("<p>")
    assert html.text.count("<b>") == html.text.count("</b>") == 1
    assert [(each.code, each.name) for each in client.get_source_languages()] == [("DE", "German")]
    assert [each.code for each in client.get_target_languages()] == ["EN-US", "EN-GB"]
    assert not client.get_usage().any_limit_reached


def test_deepl_glossaries(server: Server) -> None:
    client = deepl_client(server)
    entries = {"a": "h", "b": "g"}
    glossary = client.create_glossary("mine", "DE", "EN", entries)
    assert (glossary.entry_count, glossary.ready) == (2, True)
    assert client.get_glossary_entries(glossary) == entries
    assert glossary.glossary_id in [each.glossary_id for each in client.list_glossaries()]
    found = client.translate_text("a b", source_lang="DE", target_lang="EN-US", glossary=glossary)
    assert {"h", "g"} <= set(found.text.split())
    assert [(each.source_lang, each.target_lang) for each in client.get_glossary_languages()] == [("de", "en")]
    client.delete_glossary(glossary)


def test_deepl_documents(server: Server, expected: list[str], tmp_path: Path) -> None:
    client = deepl_client(server)
    (tmp_path / "in.txt").write_text("\n\n".join(LINES), encoding="utf-8")
    status = client.translate_document_from_filepath(
        tmp_path / "in.txt", tmp_path / "out.txt", source_lang="DE", target_lang="EN-US"
    )
    assert status.done
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n\n") == expected
    out = io.BytesIO()
    client.translate_document(b"<p>a b c</p>", out, filename="x.html", source_lang="DE", target_lang="EN-US")
    assert out.getvalue().decode() == f"<p>{expected[0]}</p>"


def test_deepl_errors(server: Server) -> None:
    import deepl

    client = deepl_client(server)
    with pytest.raises(deepl.AuthorizationException):
        deepl_client(server, "wrong").translate_text("a", target_lang="EN-US")
    with pytest.raises(deepl.DeepLException, match="Value for 'target_lang' not supported"):
        client.translate_text("a", target_lang="FR")
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary("0" * 32)
    with pytest.raises(deepl.DeepLException, match="file format not supported"):
        client.translate_document(b"MZ", io.BytesIO(), filename="x.exe", source_lang="DE", target_lang="EN-US")


def test_openai(server: Server, expected: list[str]) -> None:
    import openai

    client = openai.OpenAI(api_key="secret", base_url=f"{server.url}/v1", max_retries=0)
    messages: Any = [{"role": "system", "content": "Translate."}, {"role": "user", "content": LINES[0]}]
    whole = client.chat.completions.create(model="de-en", messages=messages)
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == (expected[0], "stop")
    stream = client.chat.completions.create(
        model="de-en", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    parts = list(stream)
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == expected[0]
    assert parts[-1].usage == whole.usage
    assert [model.id for model in client.models.list()] == ["de-en"]
    with pytest.raises(openai.NotFoundError, match="does not exist; there are de-en"):
        client.chat.completions.create(model="gpt-4", messages=messages)
    with pytest.raises(openai.BadRequestError, match="stop is not supported"):
        client.chat.completions.create(model="de-en", messages=messages, stop=["."])
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(api_key="wrong", base_url=f"{server.url}/v1", max_retries=0).models.list()
    client.close()
