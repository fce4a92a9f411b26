"""The interface of OpenAI for programs that know nothing else: the last message of the user is translated.

A translator has no prompt: messages of the system and earlier ones are instructions, which are not translated. The
language pair is the name of the model, as in `de-en`.
"""

import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from pellucid.errors import format_value
from pellucid.serve.errors import RequestError
from pellucid.serve.fields import Fields, clean_text, read_fields
from pellucid.serve.languages import display_code, find_code
from pellucid.serve.metrics import Metrics
from pellucid.serve.service import TextAnswer, TranslationService

MOST_MESSAGES = 1_000
MOST_LISTED = 1_000
"""The pairs that are listed as models; a model between hundreds of languages has more, which can be named."""
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
NOT_OBEYED = ("tools", "functions", "tool_choice", "function_call", "logprobs", "top_logprobs", "audio", "prediction")
"""Parameters that no translator can obey, which are refused."""


class OpenAI:
    """The routes of the interface."""

    def __init__(self, service: TranslationService, metrics: Metrics) -> None:
        self._service, self._metrics = service, metrics
        self._created = int(time.time())

    async def models(self, request: Request) -> Response:
        """Lists the language pairs as models."""
        pairs = sorted(self._service.pool.by_pair)[:MOST_LISTED]
        return JSONResponse({"object": "list", "data": [self._describe("-".join(map(display_code, p))) for p in pairs]})

    async def model(self, request: Request) -> Response:
        """Returns the description of a model."""
        name = str(request.path_params["name"])
        self._find_pair(name)
        return JSONResponse(self._describe(name))

    async def complete(self, request: Request) -> Response:
        """Translates the last message of the user, at once or as a stream."""
        fields = await read_fields(request, self._service.limits)
        source, target = self._find_pair(fields.get_text("model"))
        text = _last_text(fields)
        most = _read_limit(fields)
        _check_obeyed(fields)
        streams = fields.get_switch("stream")
        with_usage = False
        if streams and (options := fields.get("stream_options")) is not None:
            if not isinstance(options, dict):
                raise RequestError(400, "stream_options must be an object", "stream_options")
            with_usage = options.get("include_usage") is True
        [answer] = await self._service.translate(request, [text], source, target)
        self._metrics.characters.inc(len(text))
        answered, reason = _truncate(answer, most)
        usage = self._count(text, answer, source, target)
        head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": fields.get_text("model"),
        }
        if streams:
            parts = _stream(head, answered, reason, usage if with_usage else None)
            return StreamingResponse(parts, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        message = {"role": "assistant", "content": answered, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        return JSONResponse({**head, "object": "chat.completion", "choices": [choice], "usage": usage})

    def _describe(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "pellucid"}

    def _find_pair(self, name: str) -> tuple[str, str]:
        pool = self._service.pool
        for place in [place for place, character in enumerate(name) if character == "-"]:
            source, target = find_code(name[:place], pool.sources), find_code(name[place + 1 :], pool.targets)
            if source and target and pool.find(source, target):
                return source, target
        shown = ", ".join("-".join(map(display_code, pair)) for pair in sorted(pool.by_pair)[:20])
        raise RequestError(404, f"The model {format_value(name)} does not exist; there are {shown}", "model")

    def _count(self, text: str, answer: TextAnswer, source: str, target: str) -> dict[str, int]:
        route = self._service.pool.find(source, target) or []
        translation = answer.translation
        written = 0 if translation is None else len(translation.tokens)
        read = 0 if translation is None else sum(each.length for each in translation.sentences)
        return {
            "prompt_tokens": read * len(route),
            "completion_tokens": written,
            "total_tokens": read * len(route) + written,
        }


def _last_text(fields: Fields) -> str:
    """Returns the text of the last message of the user. Raises RequestError for messages of another shape."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages or len(messages) > MOST_MESSAGES:
        raise RequestError(400, f"messages must be a list of 1 to {MOST_MESSAGES:,} messages", "messages")
    found: str | None = None
    for number, message in enumerate(messages):
        place = f"messages.[{number}]"
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise RequestError(400, f"{place} must be an object with a role: {', '.join(ROLES)}", "messages")
        text = _text_of(message.get("content"), place, message["role"])
        if message["role"] == "user":
            found = text
    if found is None:
        raise RequestError(400, "messages has no message of the user", "messages")
    return clean_text(found)


def _text_of(content: Any, place: str, role: str) -> str:
    if content is None and role != "user":
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise RequestError(400, f"{place}.content must be a text or a list of parts", "messages")
    texts = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise RequestError(400, f"{place}.content has a part that is not a text", "messages")
        texts.append(part["text"])
    return "".join(texts)


def _read_limit(fields: Fields) -> int | None:
    """Returns the most tokens of the answer, under either of its names; None for no limit."""
    for name in ("max_completion_tokens", "max_tokens"):
        if name in fields:
            return fields.get_whole(name, 0, 1, 2**31)
    return None


def _check_obeyed(fields: Fields) -> None:
    """Raises RequestError for parameters that would change the answer, and that a translator cannot obey."""
    if fields.get_whole("n", 1, 1, 2**31) != 1:
        raise RequestError(400, "n must be 1: a translator has one answer", "n")
    if fields.get("stop") not in (None, [], ""):
        raise RequestError(400, "stop is not supported: a translation ends by itself", "stop")
    kind = fields.get("response_format")
    if kind is not None and not (isinstance(kind, Mapping) and kind.get("type") == "text"):
        raise RequestError(400, "response_format must be text", "response_format")
    for name in NOT_OBEYED:
        if fields.get(name) not in (None, [], False, "none", "auto"):
            raise RequestError(400, f"{name} is not supported by a translator", name)


def _truncate(answer: TextAnswer, most: int | None) -> tuple[str, str]:
    """Returns the text with at most `most` tokens, and the reason of its end."""
    if most is None or answer.translation is None or len(answer.translation.tokens) <= most:
        return answer.text, "stop"
    tokens = answer.translation.tokens
    share = sum(map(len, tokens[:most])) / max(1, sum(map(len, tokens)))
    text = answer.text[: int(len(answer.text) * share)]
    return text, "length"


async def _stream(
    head: Mapping[str, Any], text: str, reason: str, usage: dict[str, int] | None
) -> AsyncIterator[bytes]:
    """Yields the events of a stream: the role, the words, the reason of the end, the usage if it was asked for."""

    def event(choices: list[Any], **more: Any) -> bytes:
        table = {**head, "object": "chat.completion.chunk", "choices": choices, **more}
        return f"data: {json.dumps(table, ensure_ascii=False)}\n\n".encode()

    def choice(delta: dict[str, Any], ended: str | None = None) -> list[Any]:
        return [{"index": 0, "delta": delta, "finish_reason": ended, "logprobs": None}]

    yield event(choice({"role": "assistant", "content": "", "refusal": None}))
    for word in _words(text):
        yield event(choice({"content": word}))
    yield event(choice({}, reason))
    if usage is not None:
        yield event([], usage=usage)
    yield b"data: [DONE]\n\n"


def _words(text: str) -> list[str]:
    found: list[str] = []
    for character in text:
        if not found or (found[-1][-1].isspace() and not character.isspace()):
            found.append("")
        found[-1] += character
    return found
