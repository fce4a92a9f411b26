"""OpenAI's interface: messages in, the translation of the last one out, plain and streamed."""

import json
from typing import Any

import pytest

from tests.unit.serve.serving import Server


def complete(server: Server, content: Any = "a b c", **more: Any) -> Any:
    table = {"model": "de-en", "messages": [{"role": "user", "content": content}], **more}
    return server.ask("POST", "/v1/chat/completions", table)


def events(text: str) -> list[Any]:
    assert text.endswith("data: [DONE]\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n")[:-2]]


def test_the_last_message_of_the_user_is_translated_alone(server: Server) -> None:
    expected = server.translate("a b c")["translatedText"]
    found = complete(server).json
    assert found["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": expected, "refusal": None},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ]
    usage = found["usage"]
    assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"] > 0
    messages = [
        {"role": "system", "content": "Translate."}, {"role": "developer", "content": [{"type": "text", "text": "x"}]},
        {"role": "user", "content": "d"}, {"role": "assistant", "content": None},
        {"role": "user", "content": [{"type": "text", "text": "a "}, {"type": "text", "text": "b c"}]},
    ]  # fmt: skip
    assert complete(server, messages=messages).json["choices"] == found["choices"]


def test_a_stream_has_a_role_words_a_reason_and_an_end(server: Server) -> None:
    whole = complete(server).json["choices"][0]["message"]["content"]
    answer = complete(server, stream=True, stream_options={})
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = events(answer.text)
    deltas = [each["choices"][0]["delta"] for each in found]
    assert deltas[0] == {"role": "assistant", "content": "", "refusal": None}
    assert "".join(delta.get("content", "") for delta in deltas) == whole
    assert [each["choices"][0]["finish_reason"] for each in found] == [None] * (len(found) - 1) + ["stop"]
    assert not any("usage" in each for each in found)
    assert len({each["id"] for each in found}) == 1


def test_the_usage_of_a_stream_comes_once_and_last(server: Server) -> None:
    found = events(complete(server, stream=True, stream_options={"include_usage": True}).text)
    assert [("usage" in each, each["choices"] == []) for each in found] == [(False, False)] * (len(found) - 1) + [
        (True, True)
    ]
    assert found[-1]["usage"] == complete(server).json["usage"]


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_limit_of_tokens(server: Server, name: str) -> None:
    found = complete(server, **{name: 1}).json["choices"][0]
    whole = complete(server).json["choices"][0]["message"]["content"]
    assert found["finish_reason"] == "length"
    assert whole.startswith(found["message"]["content"])
    assert len(found["message"]["content"]) < len(whole)
    assert complete(server, **{name: 1000}).json["choices"][0]["finish_reason"] == "stop"


def test_an_empty_message(server: Server) -> None:
    [found] = complete(server, "").json["choices"]
    assert (found["message"]["content"], found["finish_reason"]) == ("", "stop")


@pytest.mark.parametrize(
    ("more", "status", "param"),
    [
        ({"model": "none"}, 404, "model"),
        ({"model": None}, 400, "model"),
        ({"messages": []}, 400, "messages"),
        ({"messages": ["a"]}, 400, "messages"),
        ({"messages": [{"role": "pirate", "content": "a"}]}, 400, "messages"),
        ({"messages": [{"role": "user"}]}, 400, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages"),
        ({"messages": [{"role": "system", "content": "a"}]}, 400, "messages"),
        ({"n": 2}, 400, "n"),
        ({"stop": ["."]}, 400, "stop"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format"),
        ({"tools": [{"type": "function"}]}, 400, "tools"),
        ({"stream_options": 7, "stream": True}, 400, "stream_options"),
    ],
)
def test_a_refusal_is_a_plain_answer_with_the_parameter(
    server: Server, more: dict[str, Any], status: int, param: str
) -> None:
    for stream in (False, True):
        found = complete(server, **{"stream": stream, **more})
        assert found.status == status
        assert found.headers["content-type"] == "application/json"
        assert set(found.json["error"]) == {"message", "type", "param", "code"}
        assert found.json["error"]["param"] == param


def test_models(server: Server) -> None:
    [found] = server.ask("GET", "/v1/models").json["data"]
    assert (found["id"], found["object"], found["owned_by"]) == ("de-en", "model", "pellucid")
    assert server.ask("GET", "/v1/models/de-en").json == found
    missing = server.ask("GET", "/v1/models/gpt-4").json["error"]
    assert missing == {
        "message": "The model gpt-4 does not exist; there are de-en", "type": "not_found_error", "param": "model",
        "code": "model_not_found",
    }  # fmt: skip


def test_keys(guarded: Server) -> None:
    for headers, status in (
        ({}, 401),
        ({"Authorization": "Bearer no"}, 401),
        ({"Authorization": "bearer secret"}, 200),
    ):
        assert guarded.ask("GET", "/v1/models", headers=headers).status == status
    assert guarded.ask("GET", "/v1/nothing").json["error"]["type"] == "authentication_error"
