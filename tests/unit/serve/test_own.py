"""Pellucid's own interface: what `translate --json` tells, and the alignment of words."""

from pathlib import Path
from typing import Any

import pytest

from pellucid.tasks.translator import Translator
from tests.unit.serve.serving import Server, serve


def ask(server: Server, **table: Any) -> Any:
    return server.ask("POST", "/api/translate", {"source": "de", "target": "en", **table})


def test_the_answer_is_that_of_python(server: Server, translator: Translator) -> None:
    lines = ["a b c", "", "d e"]
    expected = [found.to_json() for found in translator.translate(lines, n_best=2, confidence=True)]
    found = ask(server, text=lines, n_best=2).json
    for one, other in zip(found, expected, strict=True):
        assert one.pop("via") == []
        assert one.pop("score") == pytest.approx(other.pop("score"), abs=1e-4)
        assert one.keys() == other.keys()
        assert (one["text"], one["tokens"], one["flags"]) == (other["text"], other["tokens"], other["flags"])
    [greedy] = translator.translate(["a b c"], beam_size=1)
    assert ask(server, text="a b c", beam_size=1, n_best="1").json["text"] == greedy.text


def test_the_alignment_has_a_row_for_each_word(server: Server) -> None:
    found = ask(server, text="a b c", alignment=True).json
    [part] = found["alignment"]
    assert [("a b c"[a:b]) for a, b in part["source"]] == ["a", "b", "c"]
    assert [found["text"][a:b] for a, b in part["target"]] == found["text"].split()
    assert [len(row) for row in part["weights"]] == [3] * len(part["target"])


def test_it_names_the_pivot(finished_run: Path) -> None:
    with serve([f"de-en={finished_run}", f"en-fr={finished_run}"], pivot="en") as running:
        found = running.ask("POST", "/api/translate", {"text": "a b", "source": "de", "target": "fr"}).json
        assert found["via"] == ["en"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "zz"}, "zz is not supported"),
        ({"text": None}, "Invalid request: missing text parameter"),
        ({"n_best": 9, "beam_size": 2}, "`n_best` (9) cannot exceed `beam_size` (2)"),
        ({"beam_size": 1000}, "beam_size (1000) must be a whole number from 1 to 32"),
        ({"alignment": "perhaps"}, "alignment (perhaps) must be true or false"),
    ],
)
def test_a_request_that_is_refused(server: Server, more: dict[str, Any], message: str) -> None:
    found = ask(server, **{"text": "a b", **more})
    assert found.status == 400
    assert found.json["error"].removeprefix("Invalid request: ") == message.removeprefix("Invalid request: ")


def test_a_key(guarded: Server) -> None:
    assert ask(guarded, text="a").status == 403
    assert ask(guarded, text="a", api_key="secret").status == 200
