"""Requests of any shape: each has a translation or an answer that blames the request; the server never fails."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.serve.serving import Server

PATHS = (
    "/translate", "/detect", "/translate_file", "/suggest", "/v2/translate", "/v2/document", "/v2/glossaries",
    "/v2/languages", "/v2/usage", "/v1/chat/completions", "/api/translate", "/v2/glossaries/x", "/v2/document/x/result",
    "/download_file/x", "/v1/models/x", "/languages", "/frontend/settings", "/",
)  # fmt: skip
NAMES = (
    "q", "source", "target", "format", "alternatives", "api_key", "text", "source_lang", "target_lang", "tag_handling",
    "ignore_tags", "split_sentences", "glossary_id", "name", "entries", "entries_format", "model", "messages", "stream",
    "max_tokens", "stream_options", "n", "n_best", "beam_size", "alignment", "type", "document_key", "formality",
)  # fmt: skip
WORDS = st.sampled_from(
    (
        "de", "en", "DE", "EN-US", "auto", "a b", "<a>a b</a>", "<a", "&amp;", "xml", "html", "text", "tsv", "a\tb",
        "de-en", "", "\ud800", "\x00", "1", "true", "-1", "9" * 30, "%s {0}", "../../x", "\U0001f469\u200d", "\u202e",
        "a" * 300,
    )
)  # fmt: skip
ROLES = st.sampled_from(("user", "system", "pirate"))
MESSAGES = st.lists(st.fixed_dictionaries({"role": ROLES, "content": WORDS | st.none()}), max_size=2)
VALUES = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | MESSAGES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
GOOD = {"q": "a b", "text": ["a b"], "source": "de", "target": "en", "target_lang": "EN", "source_lang": "DE",
        "model": "de-en", "messages": [{"role": "user", "content": "a b"}]}  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[*HealthCheck])
@given(
    path=st.sampled_from(PATHS),
    method=st.sampled_from(("GET", "POST", "POST", "POST", "DELETE", "PUT", "OPTIONS")),
    changed=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4),
    removed=st.sets(st.sampled_from(sorted(GOOD)), max_size=2),
    as_form=st.booleans(),
)
def test_no_request_fails_the_server(
    server: Server, path: str, method: str, changed: dict[str, Any], removed: set[str], as_form: bool
) -> None:
    table = {name: value for name, value in {**GOOD, **changed}.items() if name not in removed}
    if as_form:
        form = [(name, str(value).encode("utf-8", "replace").decode()) for name, value in table.items()]
        found = server.ask(method, path, form=form)
    else:
        body = json.dumps(table).encode("utf-8", "surrogatepass")
        found = server.ask(method, path, body=body, headers={"Content-Type": "application/json"})
    assert found.status < 500 or (found.status, path) == (503, "/v2/glossaries"), found.text
    if found.headers.get("content-type") == "application/json":
        assert found.json is not None
    assert not [word for word in ("Traceback", "/site-packages", 'File "') if word in found.text]
