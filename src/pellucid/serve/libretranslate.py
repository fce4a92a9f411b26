"""The interface of LibreTranslate: /translate, /languages, /detect, /translate_file, /suggest and its settings."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pellucid.documents.kinds import ENDINGS, kind_by_name
from pellucid.serve.errors import RequestError
from pellucid.serve.fields import Fields, read_fields
from pellucid.serve.keys import Keys
from pellucid.serve.languages import display_code, language_name
from pellucid.serve.metrics import Metrics
from pellucid.serve.service import Kind, TextAnswer, TranslationService
from pellucid.serve.store import Store

Handler = Callable[[Request], Awaitable[Response]]
FORMATS: dict[str, Kind] = {"text": "text", "html": "html"}


class LibreTranslate:
    """The routes of the interface.

    Args:
        files: the translated files.
    """

    def __init__(self, service: TranslationService, keys: Keys, files: Store, metrics: Metrics) -> None:
        self._service, self._keys, self._files, self._metrics = service, keys, files, metrics
        self._languages = [
            {
                "code": display_code(code),
                "name": language_name(code),
                "targets": [display_code(target) for target in service.pool.targets_of(code)],
            }
            for code in service.pool.languages
        ]

    async def translate(self, request: Request) -> Response:
        """Translates a text or a list of texts."""
        fields = await self._read(request)
        texts, is_list = fields.get_texts("q")
        source, target = self._find_pair(fields)
        kind = fields.get_text("format", "text") or "text"
        if kind not in FORMATS:
            raise RequestError(400, f"{kind[:20]} format is not supported", "format")
        wanted = fields.get_whole("alternatives", 0, 0, self._service.limits.alternatives)
        options: dict[str, Any] = {"n_best": wanted + 1} if wanted and kind == "text" else {}
        answers = await self._service.translate(request, texts, source, target, FORMATS[kind], options=options)
        self._metrics.characters.inc(sum(map(len, texts)))
        table: dict[str, Any] = {"translatedText": _one_or_all([each.text for each in answers], is_list)}
        if source is None:
            table["detectedLanguage"] = _one_or_all([_detected(each) for each in answers], is_list)
        if wanted:
            table["alternatives"] = _one_or_all([each.alternatives[:wanted] for each in answers], is_list)
        return _json(table, answers)

    async def languages(self, request: Request) -> Response:
        """Lists the languages, each with those into which it is translated."""
        return _json(self._languages)

    async def detect(self, request: Request) -> Response:
        """Detects the language of a text."""
        fields = await self._read(request)
        texts, _ = fields.get_texts("q")
        self._service.check_texts(texts)
        [(code, probability)] = await self._service.detect(["\n".join(texts)])
        return _json([{"confidence": round(100 * probability), "language": display_code(code)}])

    async def translate_file(self, request: Request) -> Response:
        """Translates a document, and returns the address of the translated one, which expires."""
        fields = await self._read(request)
        if fields.file is None or not fields.file.name:
            raise RequestError(400, "Invalid request: missing file parameter", "file")
        source, target = self._find_pair(fields)
        ending = find_ending(fields.file.name)
        document = await self._service.open_file(fields.file.data, ending)
        if source is None:
            [(source, _)] = await self._service.detect(["\n".join(unit.text for unit in document.units[:100])])
        route = self._service.find_route(source, target)
        data, _ = await self._service.run(
            request,
            lambda: self._service.count_tokens(route, [unit.text for unit in document.units]),
            lambda ticket: self._service.translate_document(ticket, document, route, {}),
        )
        name = self._files.add({"ending": ending, "key": secrets.token_hex(16)})
        self._files.put_result(name, data)
        address = request.url_for("download_file", name=f"{name}{ending}")
        return _json({"translatedFileUrl": str(address)})

    async def download_file(self, request: Request) -> Response:
        """Returns a translated document by its address, which cannot be guessed."""
        name, dot, ending = str(request.path_params["name"]).partition(".")
        table = self._files.get(name)
        data = self._files.get_result(name)
        if table is None or data is None or table.get("ending") != f"{dot}{ending}":
            raise RequestError(404, "Invalid filename")
        return file_response(data, str(table["ending"]))

    async def suggest(self, request: Request) -> Response:
        """Refuses suggestions, since the server stores no text."""
        await self._read(request)
        raise RequestError(403, "Suggestions are disabled on this server.")

    async def settings(self, request: Request) -> Response:
        """Returns the settings that LibreTranslate's page reads first."""
        pool = self._service.pool
        source, target = min(pool.by_pair)
        return _json(
            {
                "apiKeys": bool(self._keys), "charLimit": self._service.limits.characters, "filesTranslation": True,
                "frontendTimeout": 500, "keyRequired": bool(self._keys), "suggestions": False,
                "supportedFilesFormat": sorted(ENDINGS),
                "language": {
                    "source": {"code": display_code(source), "name": language_name(source)},
                    "target": {"code": display_code(target), "name": language_name(target)},
                },
            }
        )  # fmt: skip

    async def _read(self, request: Request) -> Fields:
        """Returns the fields of a request with an API key, if the server has keys."""
        fields = await read_fields(request, self._service.limits)
        if self._keys:
            scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
            key = fields.get_text("api_key", "") or (bearer.strip() if scheme.lower() == "bearer" else "")
            if not key:
                raise RequestError(400, "This server requires an API key: send it as api_key", "api_key")
            if not self._keys.has(key):
                raise RequestError(403, "Invalid API key", "api_key")
        return fields

    def _find_pair(self, fields: Fields) -> tuple[str | None, str]:
        """Returns the normalized codes of source and target; None for the source `auto`."""
        given, wanted = fields.get_text("source"), fields.get_text("target")
        source = None if given.strip().lower() == "auto" else self._service.find_source(given)
        if source is None and given.strip().lower() != "auto":
            raise RequestError(400, f"{given[:40]} is not supported", "source")
        target = self._service.find_target(wanted)
        if target is None:
            raise RequestError(400, f"{wanted[:40]} is not supported", "target")
        return source, target


def find_ending(name: str) -> str:
    """Returns the ending of a document's name, the only part of a client's name that is used.

    Raises RequestError if it is not the ending of a document.
    """
    ending = next((each for each in sorted(ENDINGS) if name.lower().endswith(each)), "")
    if not ending or not kind_by_name(f"document{ending}"):
        raise RequestError(
            400, f"Invalid request: file format not supported; documents end in {', '.join(ENDINGS)}", "file"
        )
    return ending


def file_response(data: bytes, ending: str) -> Response:
    """Returns a translated document as a file to save."""
    headers = {"Content-Disposition": f'attachment; filename="translated{ending}"', "Cache-Control": "no-store"}
    return Response(data, media_type="application/octet-stream", headers=headers)


def _detected(answer: TextAnswer) -> dict[str, Any]:
    return {"confidence": round(100 * answer.confidence), "language": display_code(answer.source)}


def _one_or_all(values: Sequence[Any], is_list: bool) -> Any:
    return list(values) if is_list else values[0]


def _json(table: Any, answers: Sequence[TextAnswer] = ()) -> Response:
    via = ", ".join(dict.fromkeys(display_code(each.via) for each in answers if each.via))
    return JSONResponse(table, headers={"Pellucid-Via": via} if via else None)
