"""DeepL's interface: what the official clients send and read."""

import time
from pathlib import Path
from typing import Any

import pytest

from pellucid.serve.store import Store
from tests.unit.serve.serving import Server, serve

KEY = {"Authorization": "DeepL-Auth-Key secret"}


def translate(server: Server, text: Any, **more: Any) -> Any:
    table = {"text": text, "target_lang": "EN-US", "source_lang": "DE", **more}
    return server.ask("POST", "/v2/translate", table).json["translations"]


def test_a_list_has_a_translation_for_each_text(server: Server) -> None:
    expected = server.translate(["a b", "c d e"])["translatedText"]
    found = translate(server, ["a b", "", "c d e"])
    assert [each["text"] for each in found] == [expected[0], "", expected[1]]
    assert [each["billed_characters"] for each in found] == [3, 0, 5], "the official client requires it"
    assert {each["detected_source_language"] for each in found} == {"DE"}


def test_forms_repeat_text_and_write_lists_with_commas(server: Server) -> None:
    form = [
        ("text", "a <k>Haus Nr. 5</k> b <m>Hund</m>."), ("text", "a b"), ("target_lang", "en-us"),
        ("source_lang", "de"), ("tag_handling", "xml"), ("ignore_tags", "k, m"), ("preserve_formatting", "1"),
    ]  # fmt: skip
    found = server.ask("POST", "/v2/translate", form=form).json["translations"]
    assert "<k>Haus Nr. 5</k>" in found[0]["text"]
    assert "<m>Hund</m>" in found[0]["text"]
    assert found[1]["text"] == server.translate("a b")["translatedText"]
    listed = translate(server, [form[0][1]], tag_handling="xml", ignore_tags=["k", "m"])
    assert listed[0]["text"] == found[0]["text"]


@pytest.mark.slow
def test_placeholders_as_weblate_sends_them(server: Server) -> None:
    [found] = translate(server, ['<x id="8"></x> a b <x id="9"></x> &amp; c'], tag_handling="xml", ignore_tags=["x"])
    assert found["text"].count('<x id="8"></x>') == found["text"].count('<x id="9"></x>') == 1
    assert "& " not in found["text"]


def test_what_is_no_element_is_left_alone(server: Server) -> None:
    text = "<!DOCTYPE a><!-- c --><a>a b</a>"
    [found] = translate(server, [text], tag_handling="xml")
    assert found["text"] == text.replace("a b", server.translate("a b")["translatedText"])


@pytest.mark.slow
def test_a_target_without_region_and_a_source_that_is_detected(server: Server) -> None:
    table = {"text": ["Ein Hund läuft über die Wiese."], "target_lang": "EN"}
    [found] = server.ask("POST", "/v2/translate", table).json["translations"]
    assert found["detected_source_language"] == "DE"
    assert found["text"] == server.translate(table["text"][0])["translatedText"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target_lang": "ZZ"}, "Value for 'target_lang' not supported."),
        ({"target_lang": None}, "Value for 'target_lang' not supported."),
        ({"source_lang": "ZZ"}, "Value for 'source_lang' not supported."),
        ({"tag_handling": "md"}, "Value for 'tag_handling' not supported: md"),
        ({"split_sentences": "2"}, "Value for 'split_sentences' not supported."),
        ({"formality": "rude"}, "Value for 'formality' not supported."),
        ({"glossary_id": "none"}, "Glossary not found."),
        ({"text": None}, "Invalid request: missing text parameter"),
        (
            {"text": ["a < b"], "tag_handling": "xml"},
            "`the text` is damaged at line 1: not well-formed (invalid token)",
        ),
        ({"ignore_tags": 7, "tag_handling": "xml"}, "Invalid request: ignore_tags must be a list of strings"),
    ],
)
def test_a_request_that_is_refused_has_a_message(server: Server, more: dict[str, Any], message: str) -> None:
    table = {"text": ["a b"], "target_lang": "EN-US", "source_lang": "DE", **more}
    found = server.ask("POST", "/v2/translate", table)
    assert found.status == (404 if "glossary_id" in more else 400)
    assert list(found.json) == ["message"]
    assert found.json["message"].removeprefix("Invalid request: ") == message.removeprefix("Invalid request: ")


def test_languages_by_a_body_of_a_get(server: Server) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    found = server.ask("GET", "/v2/languages", body=b"type=target", headers=form).json
    assert [(each["language"], each["supports_formality"]) for each in found] == [("EN-US", False), ("EN-GB", False)]
    assert found == server.ask("GET", "/v2/languages?type=target").json
    assert server.ask("GET", "/v2/languages").json == [{"language": "DE", "name": "German"}]
    assert server.ask("GET", "/v2/languages?type=x").json == {"message": "Value for 'type' not supported."}


def test_usage_counts_characters(server: Server) -> None:
    before = server.ask("GET", "/v2/usage").json
    translate(server, ["a b c"])
    after = server.ask("POST", "/v2/usage").json
    assert after["character_count"] == before["character_count"] + 5
    assert after["character_limit"] == before["character_limit"] > after["character_count"]


def test_a_glossary_is_used_and_deleted(server: Server) -> None:
    table = {"name": "g", "source_lang": "de", "target_lang": "en-us", "entries": "a\th\nb\tg", "entries_format": "tsv"}
    made = server.ask("POST", "/v2/glossaries", table)
    assert (made.status, made.json["entry_count"], made.json["ready"]) == (201, 2, True)
    name = made.json["glossary_id"]
    assert server.ask("GET", f"/v2/glossaries/{name}").json == made.json
    assert made.json in server.ask("GET", "/v2/glossaries").json["glossaries"]
    assert server.ask("GET", f"/v2/glossaries/{name}/entries").text == "a\th\nb\tg"
    [found] = translate(server, ["a b"], glossary_id=name)
    assert {"h", "g"} <= set(found["text"].split())
    refused = server.ask("POST", "/v2/translate", {"text": ["a"], "target_lang": "EN", "glossary_id": name})
    assert "requires the source_lang parameter" in refused.json["message"]
    assert server.ask("DELETE", f"/v2/glossaries/{name}").status == 204
    for method in ("GET", "DELETE"):
        assert server.ask(method, f"/v2/glossaries/{name}").json == {"message": "Glossary not found."}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"entries": "a"}, "line 1 has no source and target"),
        ({"entries": "a\tb\na\tc"}, "line 2 has a source again"),
        ({"entries": ""}, "from 1 to 10,000 entries"),
        ({"entries": '"a', "entries_format": "csv"}, "the CSV is damaged"),
        ({"entries_format": "xml"}, "Value for 'entries_format' not supported."),
        ({"source_lang": "zz"}, "Value for 'source_lang' not supported."),
        ({"name": " "}, "Parameter 'name' must have from 1 to 1,024 characters."),
    ],
)
def test_a_glossary_that_is_refused(server: Server, more: dict[str, Any], message: str) -> None:
    table = {"name": "g", "source_lang": "de", "target_lang": "en", "entries": "a\tb", "entries_format": "tsv", **more}
    found = server.ask("POST", "/v2/glossaries", table)
    assert found.status == 400
    assert message in found.json["message"]


def test_entries_of_csv_and_pairs_of_glossaries(server: Server) -> None:
    entries = '"a, b",c\r\nd,"e ""f"""\r\n'
    table = {"name": "g", "source_lang": "DE", "target_lang": "EN", "entries": entries, "entries_format": "csv"}
    name = server.ask("POST", "/v2/glossaries", table).json["glossary_id"]
    assert server.ask("GET", f"/v2/glossaries/{name}/entries").text == 'a, b\tc\nd\te "f"'
    pairs = server.ask("GET", "/v2/glossary-language-pairs").json
    assert pairs == {"supported_languages": [{"source_lang": "de", "target_lang": "en"}]}


def test_a_document_has_its_id_at_once_and_its_result_later(server: Server) -> None:
    files = {"target_lang": "EN-US", "source_lang": "DE", "file": ("letters.txt", b"a b\n\nc d\n")}
    made = server.ask("POST", "/v2/document", files=files).json
    place, key = f"/v2/document/{made['document_id']}", {"document_key": made["document_key"]}
    for _ in range(300):
        state = server.ask("POST", place, key).json
        if state["status"] == "done":
            break
        assert state["status"] in ("queued", "translating")
        time.sleep(0.1)
    assert state == {"document_id": made["document_id"], "status": "done", "billed_characters": 6}
    expected = "\n".join(f"{server.translate(line)['translatedText']}\n" for line in ("a b", "c d"))
    assert server.ask("POST", f"{place}/result", key).text == expected
    for wrong in ({"document_key": "0" * 64}, {"document_key": "ü"}, {}):
        assert server.ask("POST", place, wrong).json == {"message": "Document not found."}
        assert server.ask("POST", f"{place}/result", wrong).status == 404
    assert server.ask("POST", f"/v2/document/{'0' * 32}", key).status == 404


@pytest.mark.slow
def test_processes_of_one_server_share_documents_and_glossaries(finished_run: Path, tmp_path: Path) -> None:
    models = [f"de-en={finished_run}"]
    with serve(models, store=tmp_path) as one, serve(models, store=tmp_path) as other:
        table = {"name": "g", "source_lang": "de", "target_lang": "en", "entries": "a\th", "entries_format": "tsv"}
        name = one.ask("POST", "/v2/glossaries", table).json["glossary_id"]
        [found] = translate(other, ["a b"], glossary_id=name)
        assert "h" in found["text"].split()
        files = {"target_lang": "EN-US", "source_lang": "DE", "file": ("letters.txt", b"a b")}
        made = one.ask("POST", "/v2/document", files=files).json
        place, key = f"/v2/document/{made['document_id']}", {"document_key": made["document_key"]}
        deadline = time.monotonic() + 60
        while other.ask("POST", place, key).json["status"] != "done":
            assert time.monotonic() < deadline
        assert other.ask("POST", f"{place}/result", key).text == one.translate("a b")["translatedText"]
    with serve(models, store=tmp_path) as again:
        assert again.ask("GET", f"/v2/glossaries/{name}").json["entry_count"] == 1


def test_a_document_of_a_process_that_was_killed_has_an_error(finished_run: Path, tmp_path: Path) -> None:
    store = Store(tmp_path, "documents", 2, 60.0)
    table = {"status": "translating", "key": "k", "ending": ".txt", "characters": 1}
    lost, kept = (store.add({**table, "worker": worker}) for worker in ("0" * 32, store.worker))
    with serve([f"de-en={finished_run}"], store=tmp_path) as running:
        found = running.ask("POST", f"/v2/document/{lost}", {"document_key": "k"}).json
        message = "the server was stopped before it was translated; send it again"
        assert found == {"document_id": lost, "status": "error", "message": message, "error_message": message}
        assert running.ask("POST", f"/v2/document/{kept}", {"document_key": "k"}).json["status"] == "translating"
    store.close()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"file": ("x.exe", b"MZ")}, "file format not supported"),
        ({"file": ("x.docx", b"PK\x03\x04")}, "document.docx"),
        ({}, "Parameter 'file' not specified."),
        (
            {"file": ("x.txt", b"a"), "output_format": "pdf"},
            "Value for 'output_format' not supported: a .txt stays one.",
        ),
    ],
)
def test_a_document_that_cannot_be_read_is_refused_at_once(server: Server, files: Any, message: str) -> None:
    found = server.ask("POST", "/v2/document", files={"target_lang": "EN", "source_lang": "DE", **files})
    assert found.status == 400
    assert message in found.json["message"]


@pytest.mark.slow
def test_keys_are_in_the_header_alone(guarded: Server) -> None:
    table = {"text": ["a b"], "target_lang": "EN-US"}
    assert guarded.ask("POST", "/v2/translate", table, headers=KEY).status == 200
    lower = {"Authorization": "deepl-auth-key secret"}
    assert guarded.ask("GET", "/v2/usage", headers=lower).status == 200
    form = [("auth_key", "secret"), ("text", "a"), ("target_lang", "EN-US")]
    for answer in (
        guarded.ask("POST", "/v2/translate", form=form),
        guarded.ask("POST", "/v2/translate?auth_key=secret", table),
        guarded.ask("POST", "/v2/translate", table, headers={"Authorization": "DeepL-Auth-Key wrong"}),
        guarded.ask("POST", "/v2/translate", table, headers={"Authorization": "Bearer secret"}),
        guarded.ask("GET", "/v2/usage", headers={"Authorization": "DeepL-Auth-Key \xfc"}),
    ):
        assert (answer.status, list(answer.json)) == (403, ["message"])


def test_the_rest_of_its_interface_is_not_found_in_its_shape(server: Server) -> None:
    for method, path in (("GET", "/v3/glossaries"), ("POST", "/v2/write/rephrase"), ("PATCH", "/v2/glossaries/x")):
        found = server.ask(method, path, {"a": 1})
        assert (found.status in (404, 405), list(found.json)) == (True, ["message"])
