"""The interface of DeepL, version 2: texts with tags, documents, glossaries, languages and usage."""

import csv
import io
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeGuard

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pellucid.documents.fragments import XmlTags
from pellucid.errors import format_value
from pellucid.serve.errors import RequestError
from pellucid.serve.fields import Fields, clean_text, read_fields
from pellucid.serve.languages import display_code, find_code, language_name
from pellucid.serve.libretranslate import file_response, find_ending
from pellucid.serve.metrics import Metrics
from pellucid.serve.service import Kind, TranslationService
from pellucid.serve.store import Store, has_key
from pellucid.serve.work_queue import Ticket

UNLIMITED = 10**12
"""The characters that DeepL's clients see as their limit."""
REGIONS = {"en": ("en-us", "en-gb"), "pt": ("pt-br", "pt-pt")}
"""The targets that DeepL's clients know with a region alone."""
FORMALITY = ("default", "more", "less", "prefer_more", "prefer_less")
SPLITTING = ("0", "1", "nonewlines")


@dataclass(frozen=True)
class _Wanted:
    """The options of a translation that texts and documents share."""

    source: str | None
    target: str
    options: dict[str, Any]


class DeepL:
    """The routes of the interface.

    Args:
        documents: the documents, translated and in work.
        glossaries: the glossaries.
    """

    def __init__(self, service: TranslationService, documents: Store, glossaries: Store, metrics: Metrics) -> None:
        self._service, self._documents, self._glossaries, self._metrics = service, documents, glossaries, metrics
        self._characters = 0

    async def translate(self, request: Request) -> Response:
        """Translates a list of texts, plain or with tags."""
        fields = await read_fields(request, self._service.limits)
        texts, _ = fields.get_texts("text")
        wanted = self._read_wanted(fields)
        splitting = str(fields.get("split_sentences") if "split_sentences" in fields else "1").lower()
        splitting = {"true": "1", "false": "0"}.get(splitting, splitting)
        if splitting not in SPLITTING:
            raise RequestError(400, "Value for 'split_sentences' not supported.", "split_sentences")
        options = wanted.options
        if splitting == "0":
            options["segment"] = "off"
        kind, tags = self._read_tags(fields)
        sent = [text.replace("\n", " ") for text in texts] if splitting == "nonewlines" and kind == "text" else texts
        answers = await self._service.translate(request, sent, wanted.source, wanted.target, kind, tags, options)
        self._count(sum(map(len, texts)))
        found = [
            {
                "detected_source_language": display_code(each.source).upper(),
                "text": each.text,
                "billed_characters": len(text),
            }
            for text, each in zip(texts, answers, strict=True)
        ]
        via = ", ".join(dict.fromkeys(display_code(each.via) for each in answers if each.via))
        return JSONResponse({"translations": found}, headers={"Pellucid-Via": via} if via else None)

    async def languages(self, request: Request) -> Response:
        """Lists the source or target languages; the official client asks by a body of a GET."""
        fields = await read_fields(request, self._service.limits)
        kind = fields.get_text("type", "source")
        if kind not in ("source", "target"):
            raise RequestError(400, "Value for 'type' not supported.", "type")
        pool = self._service.pool
        codes = pool.sources if kind == "source" else [
            each for code in pool.targets for each in REGIONS.get(code, (code,))
        ]  # fmt: skip
        more = {"supports_formality": False} if kind == "target" else {}
        return JSONResponse(
            [{"language": display_code(code).upper(), "name": language_name(code), **more} for code in codes]
        )

    async def usage(self, request: Request) -> Response:
        """Returns the characters that this process has translated, and a limit that is never reached."""
        return JSONResponse({"character_count": self._characters, "character_limit": UNLIMITED})

    # Documents

    async def add_document(self, request: Request) -> Response:
        """Takes a document, and returns its id and key at once."""
        fields = await read_fields(request, self._service.limits)
        if fields.file is None:
            raise RequestError(400, "Parameter 'file' not specified.", "file")
        wanted = self._read_wanted(fields)
        ending = find_ending(fields.get_text("filename", "") or fields.file.name)
        if (into := fields.get_text("output_format", "")) and f".{into.lower().lstrip('.')}" != ending:
            raise RequestError(400, f"Value for 'output_format' not supported: a {ending} stays one.", "output_format")
        document = await self._service.open_file(fields.file.data, ending)
        texts = [unit.text for unit in document.units]
        source = wanted.source
        if source is None:
            [(source, _)] = await self._service.detect(["\n".join(texts[:100])])
        if source == wanted.target:
            raise RequestError(400, "Source and target language are equal.", "target_lang")
        route = self._service.find_route(source, wanted.target)
        count, key = sum(map(len, texts)), secrets.token_hex(32)
        table = {
            "status": "queued", "key": key, "ending": ending, "characters": count, "worker": self._documents.worker,
        }  # fmt: skip
        name = self._documents.add(table)
        table["created"] = (self._documents.get(name) or {}).get("created")

        def work(ticket: Ticket) -> None:
            self._documents.put(name, {**table, "status": "translating"})
            try:
                data, _ = self._service.translate_document(ticket, document, route, wanted.options)
            except BaseException as error:
                said = str(error) if isinstance(error, RequestError) else "the document could not be translated"
                self._documents.put(name, {**table, "status": "error", "message": said})
                raise
            self._documents.put_result(name, data)
            self._documents.put(name, {**table, "status": "done"})

        self._service.start_document(work)
        self._count(count)
        return JSONResponse({"document_id": name, "document_key": key})

    async def document_status(self, request: Request) -> Response:
        """Returns the state of a document: queued, translating, done or error."""
        name, table = await self._find_document(request)
        found: dict[str, Any] = {"document_id": name, "status": table["status"]}
        if _is_in_work(table):
            found["seconds_remaining"] = round(self._service.queue.estimate_seconds())
        if table["status"] == "done":
            found["billed_characters"] = table["characters"]
        if table["status"] == "error":
            found["error_message"] = found["message"] = table["message"]
        return JSONResponse(found)

    async def document_result(self, request: Request) -> Response:
        """Returns a translated document."""
        name, table = await self._find_document(request)
        data = self._documents.get_result(name)
        if table["status"] != "done" or data is None:
            raise RequestError(503, "Document is not ready.", headers={"Retry-After": "5"})
        return file_response(data, table["ending"])

    async def _find_document(self, request: Request) -> tuple[str, dict[str, Any]]:
        fields = await read_fields(request, self._service.limits)
        name = str(request.path_params["name"])
        table = self._documents.get(name)
        if _is_in_work(table) and self._documents.has_ended(table["worker"]):
            table = self._documents.get(name)  # its process may have finished it before it ended
            if _is_in_work(table):
                table |= {
                    "status": "error",
                    "message": "the server was stopped before it was translated; send it again",
                }
        if table is None or not has_key(table, fields.get_text("document_key", "")):
            raise RequestError(404, "Document not found.")
        return name, table

    # Glossaries

    async def glossaries(self, request: Request) -> Response:
        """Lists the glossaries, or adds one."""
        if request.method == "GET":
            known = [(name, self._glossaries.get(name)) for name in sorted(self._glossaries.names())]
            return JSONResponse({"glossaries": [_describe(name, table) for name, table in known if table]})
        fields = await read_fields(request, self._service.limits)
        name = clean_text(fields.get_text("name")).strip()
        if not name or len(name) > 1024:
            raise RequestError(400, "Parameter 'name' must have from 1 to 1,024 characters.", "name")
        pool = self._service.pool
        source, target = (
            find_code(fields.get_text("source_lang"), pool.sources),
            find_code(fields.get_text("target_lang"), pool.targets),
        )
        if source is None or target is None:
            wrong = "source_lang" if source is None else "target_lang"
            raise RequestError(400, f"Value for '{wrong}' not supported.", wrong)
        if (source, target) not in pool.by_pair:
            raise RequestError(400, "Unsupported language pair of a glossary.", "target_lang")
        entries = self._read_entries(fields)
        table = {"name": name, "source": source, "target": target, "entries": entries}
        added = self._glossaries.add(table)
        return JSONResponse(_describe(added, self._glossaries.get(added) or table), status_code=201)

    async def glossary(self, request: Request) -> Response:
        """Returns the description of a glossary, or deletes it."""
        name, table = self._find_glossary(str(request.path_params["name"]))
        if request.method == "DELETE":
            self._glossaries.remove(name)
            return Response(status_code=204)
        return JSONResponse(_describe(name, table))

    async def glossary_entries(self, request: Request) -> Response:
        """Returns the entries of a glossary as tab-separated values."""
        _, table = self._find_glossary(str(request.path_params["name"]))
        lines = "\n".join("\t".join(pair) for pair in table["entries"])
        return Response(lines, media_type="text/tab-separated-values")

    async def glossary_pairs(self, request: Request) -> Response:
        """Lists the language pairs of glossaries."""
        pairs = sorted(self._service.pool.by_pair)
        return JSONResponse(
            {"supported_languages": [
                {"source_lang": display_code(a), "target_lang": display_code(b)} for a, b in pairs
            ]}
        )  # fmt: skip

    def _find_glossary(self, name: str) -> tuple[str, dict[str, Any]]:
        table = self._glossaries.get(name)
        if table is None:
            raise RequestError(404, "Glossary not found.", "glossary_id")
        return name, table

    def _read_entries(self, fields: Fields) -> list[list[str]]:
        kind, text = fields.get_text("entries_format", "tsv").lower(), fields.get_text("entries")
        if kind not in ("tsv", "csv"):
            raise RequestError(400, "Value for 'entries_format' not supported.", "entries_format")
        try:
            if kind == "csv":
                rows = [row[:2] for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
            else:
                rows = [line.rstrip("\r").split("\t")[:2] for line in text.split("\n") if line.strip()]
        except csv.Error:
            raise RequestError(400, "Invalid glossary entries: the CSV is damaged.", "entries") from None
        found: dict[str, str] = {}
        for number, row in enumerate(rows, start=1):
            pair = [clean_text(part).replace("\n", " ").strip() for part in row]
            if len(pair) < 2 or not all(pair):
                raise RequestError(400, f"Invalid glossary entries: line {number} has no source and target.", "entries")
            if pair[0] in found:
                raise RequestError(400, f"Invalid glossary entries: line {number} has a source again.", "entries")
            found[pair[0]] = pair[1]
        if not 0 < len(found) <= self._service.limits.glossary_entries:
            raise RequestError(
                400, f"A glossary has from 1 to {self._service.limits.glossary_entries:,} entries.", "entries"
            )
        return [[source, target] for source, target in found.items()]

    # Fields

    def _read_wanted(self, fields: Fields) -> _Wanted:
        given = fields.get_text("source_lang", "").strip()
        is_auto = given.lower() in ("", "auto")
        source = None if is_auto else self._service.find_source(given)
        if source is None and not is_auto:
            raise RequestError(400, "Value for 'source_lang' not supported.", "source_lang")
        if "target_lang" not in fields:
            raise RequestError(400, "Value for 'target_lang' not supported.", "target_lang")
        target = self._service.find_target(fields.get_text("target_lang"))
        if target is None:
            raise RequestError(400, "Value for 'target_lang' not supported.", "target_lang")
        if fields.get_text("formality", "default").lower() not in FORMALITY:
            raise RequestError(400, "Value for 'formality' not supported.", "formality")
        options: dict[str, Any] = {}
        if name := fields.get_text("glossary_id", ""):
            _, table = self._find_glossary(name)
            if source is None:
                raise RequestError(
                    400, "Use of a glossary requires the source_lang parameter to be specified", "glossary_id"
                )
            if (table["source"], table["target"]) != (source, target):
                raise RequestError(
                    400,
                    f"The glossary is for {table['source']} to {table['target']}, not for this pair.",
                    "glossary_id",
                )
            options["terms"] = [(a, b) for a, b in table["entries"]]
        return _Wanted(source, target, options)

    def _read_tags(self, fields: Fields) -> tuple[Kind, XmlTags | None]:
        kind = fields.get_text("tag_handling", "").lower()
        if kind not in ("", "xml", "html"):
            raise RequestError(400, f"Value for 'tag_handling' not supported: {format_value(kind)}", "tag_handling")
        if kind != "xml":
            return ("html", None) if kind else ("text", None)
        copied, splitting = fields.get_names("ignore_tags"), fields.get_names("splitting_tags")
        inline = fields.get_names("non_splitting_tags")
        return "xml", XmlTags(frozenset(copied), frozenset(splitting) - frozenset(inline))

    def _count(self, characters: int) -> None:
        self._characters += characters
        self._metrics.characters.inc(characters)


def _is_in_work(table: dict[str, Any] | None) -> TypeGuard[dict[str, Any]]:
    return table is not None and table["status"] in ("queued", "translating")


def _describe(name: str, table: dict[str, Any]) -> dict[str, Any]:
    created = datetime.fromtimestamp(float(table["created"]), UTC)
    return {
        "glossary_id": name, "name": table["name"], "ready": True, "source_lang": display_code(table["source"]),
        "target_lang": display_code(table["target"]), "creation_time": created.isoformat(),
        "entry_count": len(table["entries"]),
    }  # fmt: skip
