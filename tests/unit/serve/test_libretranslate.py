"""LibreTranslate's interface: what its clients send and read, and the words of its errors."""

import re
from pathlib import Path
from typing import Any

import pytest

from pellucid.tasks.translator import Translator
from tests.unit.serve.serving import Server, serve

PAIR = {"source": "de", "target": "en"}


def test_a_text_has_the_translation_that_python_returns(server: Server, translator: Translator) -> None:
    lines = ["a b c", "d e", "h g f e"]
    expected = [found.text for found in translator.translate(lines)]
    assert server.translate(lines) == {"translatedText": expected}
    assert server.translate("a b c") == {"translatedText": expected[0]}


def test_json_a_form_multipart_and_the_address_mean_the_same(server: Server) -> None:
    expected = server.translate("a b\nc d")
    fields = [("q", "a b\nc d"), ("source", "de"), ("target", "en")]
    assert server.ask("POST", "/translate", form=fields).json == expected
    assert server.ask("POST", "/translate", files=dict(fields)).json == expected
    assert server.ask("POST", "/translate?q=a+b%0Ac%20d&source=de&target=en").json == expected
    typed = {"Content-Type": "Application/JSON; charset=UTF-8"}
    assert server.ask("POST", "/translate", {"q": "a b\nc d", **PAIR}, headers=typed).json == expected
    plain = {"Content-Type": "text/plain"}
    assert server.ask("POST", "/translate", {"q": "a b\nc d", **PAIR}, headers=plain).json == expected


def test_a_list_in_a_form_is_a_list(server: Server) -> None:
    fields = [("q", "a b"), ("q", ""), ("q", "c"), ("source", "de"), ("target", "en")]
    found = server.ask("POST", "/translate", form=fields).json["translatedText"]
    assert found == [server.translate("a b")["translatedText"], "", server.translate("c")["translatedText"]]


def test_line_ends_of_forms_and_odd_separators_are_line_breaks(server: Server) -> None:
    """CR LF is one break; U+2028, a lone CR and others are breaks, too, and control characters are spaces."""
    lines = server.translate(["a b", "c d"])["translatedText"]
    for between in ("\r\n", "\r", "\u2028", "\x0b"):
        assert server.translate(f"a b{between}c d")["translatedText"] == "\n".join(lines)
    assert server.translate("a\x00b")["translatedText"] == server.translate("a b")["translatedText"]


@pytest.mark.parametrize(
    "text", ["12:30", "%s", "👨‍👩‍👧", "---", "", "  ", "\n", "{0} %(name)s", "https://a.example/b"]
)
def test_a_text_without_words_comes_back_as_it_is(server: Server, text: str) -> None:
    assert server.translate(text) == {"translatedText": text}


def test_white_space_around_a_text_stays(server: Server) -> None:
    assert server.translate("  a b \n")["translatedText"] == f"  {server.translate('a b')['translatedText']} \n"


def test_a_language_into_itself_is_the_text(server: Server) -> None:
    found = server.ask("POST", "/translate", {"q": "A dog runs.", "source": "en", "target": "en"})
    assert found.json == {"translatedText": "A dog runs."}


@pytest.mark.slow
def test_auto_detects_each_text_of_a_list(server: Server) -> None:
    texts = ["Ein Hund läuft über die Wiese.", "The weather is very nice in the mountains today.", "🙂"]
    found = server.ask("POST", "/translate", {"q": texts, "source": "auto", "target": "en"}).json
    assert [each["language"] for each in found["detectedLanguage"]] == ["de", "en", "en"]
    assert [type(each["confidence"]) for each in found["detectedLanguage"]] == [int] * 3
    assert found["detectedLanguage"][2]["confidence"] == 0
    assert found["translatedText"][1:] == texts[1:], "what is English or without letters stays"
    single = server.ask("POST", "/translate", {"q": texts[0], "source": "auto", "target": "en"}).json
    assert single["detectedLanguage"] == found["detectedLanguage"][0]


def test_detect(server: Server) -> None:
    found = server.ask("POST", "/detect", form=[("q", "Ein Hund läuft über die Wiese.")])
    assert (found.status, found.json[0]["language"]) == (200, "de")
    assert 50 < found.json[0]["confidence"] <= 100
    assert ".0" not in found.text, "one client reads whole numbers alone"


def test_alternatives(server: Server, translator: Translator) -> None:
    [best] = translator.translate(["a b c d"], n_best=2)
    found = server.translate("a b c d", alternatives="2")
    assert found["translatedText"] == best.text
    assert found["alternatives"] == [one.text for one in best.alternatives if one.text != best.text][:2]
    assert server.translate(["a b c d"], alternatives=2)["alternatives"] == [found["alternatives"]]
    assert "alternatives" not in server.translate("a b c d", alternatives=0)


def test_the_sides_of_an_html_answer_are_escaped_as_the_question_was(server: Server) -> None:
    page = "<!-- a --><style>p > a {}</style><script>if (a < b && c) x('a');</script><p title=\"a &amp; b\">a b</p>"
    found = server.translate(page, format="html")["translatedText"]
    assert found == page.replace("a b</p>", f"{server.translate('a b')['translatedText']}</p>")
    assert "<" not in server.translate("a &lt;b&gt; c", format="html")["translatedText"]
    wrapped = server.translate("<p>\n\ta\n\tb\n</p>", format="html")["translatedText"]
    assert wrapped == f"<p>\n\t{server.translate('a b')['translatedText']}\n</p>"


def test_tags_are_as_often_as_before(server: Server) -> None:
    page = '<a href="#"><em><span>a b</span></em> <em><span>c d e</span></em></a>'
    found = server.translate(page, format="html")["translatedText"]
    tags = re.compile(r"<[^>]*>")
    assert sorted(tags.findall(found)) == sorted(tags.findall(page))


def test_languages_and_settings(server: Server) -> None:
    assert server.ask("GET", "/languages").json == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]
    found = server.ask("GET", "/frontend/settings").json
    assert found["language"]["source"] == {"code": "de", "name": "German"}
    assert (found["charLimit"], found["keyRequired"], ".docx" in found["supportedFilesFormat"]) == (
        100_000,
        False,
        True,
    )


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("DE", 200),
        ("de-DE", 200),
        ("de_AT", 200),
        ("deu", 200),
        ("deu_Latn", 200),
        (" de ", 200),
        ("zz", 400),
        ("d", 400),
    ],
)
def test_codes_as_clients_write_them(server: Server, code: str, status: int) -> None:
    found = server.ask("POST", "/translate", {"q": "a b", "source": code, "target": "en-US"})
    assert found.status == status
    if status == 400:
        assert found.json == {"error": f"{code} is not supported"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "Invalid request: missing q parameter"),
        ({"q": None, **PAIR}, "Invalid request: missing q parameter"),
        ({"q": "a", "target": "en"}, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "de"}, "Invalid request: missing target parameter"),
        ({"q": 7, **PAIR}, "Invalid request: q must be a string or a list, not a number"),
        ({"q": {"a": 1}, **PAIR}, "Invalid request: q must be a string or a list, not an object"),
        ({"q": ["a", None], **PAIR}, "Invalid request: q has null, not only strings"),
        ({"q": "a", "source": ["de"], "target": "en"}, "Invalid request: source must be a string, not a list"),
        ({"q": "a", "source": "en", "target": "de"}, "en to de is not supported"),
        ({"q": "a", **PAIR, "format": "pdf"}, "pdf format is not supported"),
        ({"q": "a", **PAIR, "alternatives": 10_000}, "alternatives (10000) must be a whole number from 0 to 10"),
        ({"q": "a", **PAIR, "alternatives": -1}, "alternatives (-1) must be a whole number from 0 to 10"),
        ({"q": "a", **PAIR, "alternatives": 1.5}, "alternatives (1.5) must be a whole number from 0 to 10"),
        ({"q": "a", **PAIR, "alternatives": True}, "alternatives (True) must be a whole number from 0 to 10"),
        ({"q": "a" * 100_001, **PAIR}, "100,001 characters exceed the text limit of 100,000"),
        ({"q": ["a"] * 1001, **PAIR}, "1,001 texts exceed the limit of 1,000"),
    ],
)
def test_a_request_that_is_refused_is_told_the_field_and_the_value(server: Server, table: Any, message: str) -> None:
    found = server.ask("POST", "/translate", table)
    assert found.status == 400
    assert found.json["error"].removeprefix("Invalid request: ") == message.removeprefix("Invalid request: ")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_wrong_method(server: Server, method: str) -> None:
    found = server.ask(method, "/translate")
    assert (found.status, found.headers["allow"]) == (405, "POST")
    assert found.json["error"].startswith("Method Not Allowed")


@pytest.mark.parametrize(
    "path", ["/", "/translate/", "/v2/translate/v2/translate", "/nothing", "/v1", "/%00", "/../etc"]
)
def test_a_wrong_address_is_told_the_right_one(server: Server, path: str) -> None:
    found = server.ask("POST", path, {"q": "a", **PAIR})
    assert found.status in (404, 405)
    said = found.json.get("error", found.json.get("message"))
    said = said["message"] if isinstance(said, dict) else said
    assert "translate" in said or "/v1/chat/completions" in said
    assert "location" not in found.headers


def test_a_file_is_translated_and_fetched_by_its_address(server: Server) -> None:
    files = {**PAIR, "file": ("../../letters.TXT", b"a b\n\nc d\n")}
    found = server.ask("POST", "/translate_file", files=files)
    address = found.json["translatedFileUrl"]
    assert re.fullmatch(rf"{server.url}/download_file/[0-9a-f]{{32}}\.txt", address)
    fetched = server.ask("GET", address.removeprefix(server.url))
    assert fetched.text == "\n".join(f"{server.translate(line)['translatedText']}\n" for line in ("a b", "c d"))
    assert "letters" not in str(fetched.headers)
    secure = server.ask("POST", "/translate_file", files=files, headers={"X-Forwarded-Proto": "https"})
    assert secure.json["translatedFileUrl"].startswith("https://")
    for wrong in ("0" * 32 + ".txt", address[-36:-4], address[-36:-4] + ".html", "..%2f..%2fx", "a" * 3000):
        assert server.ask("GET", f"/download_file/{wrong}").status == 404


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.exe", b"MZ", "file format not supported; documents end in .docx"),
        ("x.docx", b"MZ", "is not a zip archive, but its name is that of a Word document"),
        ("x.txt", b"\xff\xfe\xfd", "is not"),
        ("", b"a", "missing file parameter"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(server: Server, name: str, content: bytes, message: str) -> None:
    found = server.ask("POST", "/translate_file", files={**PAIR, "file": (name, content)})
    assert found.status == 400
    assert message in found.json["error"]
    assert "/tmp" not in found.json["error"]


@pytest.mark.slow
def test_keys(guarded: Server) -> None:
    asked = {"q": "a b", **PAIR}
    assert guarded.ask("POST", "/translate", asked).status == 400
    for wrong in ("", "secre", "secret2", "schlussel", "\ud800", "ключ"):
        found = guarded.ask("POST", "/translate", {**asked, "api_key": wrong})
        assert (found.status, list(found.json)) == (403 if wrong else 400, ["error"])
    assert guarded.ask("POST", "/translate", {**asked, "api_key": "wrong"}).json == {"error": "Invalid API key"}
    for key in ("secret", "schlüssel"):
        assert guarded.ask("POST", "/translate", {**asked, "api_key": key}).status == 200
        assert guarded.ask("POST", "/detect", form=[("q", "a"), ("api_key", key)]).status == 200
    bearer = {"Authorization": "bearer secret"}
    assert guarded.ask("POST", "/translate", asked, headers=bearer).status == 200
    for path in ("/detect", "/translate_file", "/suggest", "/api/translate"):
        assert guarded.ask("POST", path, {"q": "a"}).status in (400, 403)
    assert guarded.ask("GET", "/health").json == {"status": "ok"}


def test_suggestions_are_off(server: Server) -> None:
    found = server.ask("POST", "/suggest", {"q": "a", "s": "b", **PAIR})
    assert (found.status, found.json) == (403, {"error": "Suggestions are disabled on this server."})


def test_a_missing_pair_goes_through_the_pivot_and_says_so(finished_run: Path) -> None:
    models = [f"de-en={finished_run}", f"en-fr={finished_run}"]
    with serve(models, pivot="en") as running:
        found = running.ask("POST", "/translate", {"q": "a b c", "source": "de", "target": "fr"})
        assert (found.status, found.headers["pellucid-via"]) == (200, "en")
        through = running.translate("a b c")["translatedText"]
        direct = running.ask("POST", "/translate", {"q": through, "source": "en", "target": "fr"})
        assert found.json["translatedText"] == direct.json["translatedText"]
        assert "pellucid-via" not in direct.headers
        assert running.ask("GET", "/languages").json[0]["targets"] == ["en", "fr"]
    with serve(models) as running:
        found = running.ask("POST", "/translate", {"q": "a b c", "source": "de", "target": "fr"})
        assert found.json == {"error": "de to fr is not supported; de is translated into en"}
