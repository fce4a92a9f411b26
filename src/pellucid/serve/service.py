"""The work of a server: texts, fragments and documents are translated in threads, whose passes wait in one queue."""

import asyncio
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any, Literal, TypeVar

from starlette.requests import ClientDisconnect, Request

from pellucid.documents.document import Document, DocumentReport, read_document
from pellucid.documents.fragments import XmlTags, read_fragment
from pellucid.documents.spans import Answer as SegmentAnswer
from pellucid.documents.spans import TextSegment, has_letters
from pellucid.errors import PellucidError
from pellucid.serve.errors import RequestError
from pellucid.serve.languages import Detector, display_code, find_code
from pellucid.serve.limits import ServerLimits
from pellucid.serve.models import Leg, ModelPool
from pellucid.serve.queued_translator import QueuedTranslator
from pellucid.serve.work_queue import CancelledWorkError, QueueFullError, Ticket, WorkQueue
from pellucid.tasks.document_translation import TOGETHER
from pellucid.tasks.marks import Mark, MarkedText, translate_marked
from pellucid.tasks.translation import Translation
from pellucid.tasks.translator import Translator
from pellucid.terminal import log_line
from pellucid.text.protected import find_protected

R = TypeVar("R")

Kind = Literal["text", "html", "xml"]
READERS, DOCUMENT_THREADS = 4, 2
ENDING = 10
"""The source tokens that a text counts in addition to its own."""


@dataclass(frozen=True)
class TextAnswer:
    """The translation of a text of a request."""

    text: str
    source: str
    """The normalized code of the source language."""
    translation: Translation | None = None
    """The translation by the last model; None for a fragment, and for a text that is returned as it is."""
    via: str = ""
    """The language through which the text was translated; empty for none."""
    confidence: float = 1.0
    """The probability of the source language, if it was detected."""

    @property
    def alternatives(self) -> list[str]:
        """The further texts of the n-best list."""
        if self.translation is None:
            return []
        found = [_with_spaces(self.text, each.text) for each in self.translation.alternatives]
        return [each for each in dict.fromkeys(found) if each != self.text]


class TranslationService:
    """Translates the texts of requests.

    Args:
        pool: the models.
        limits: the limits of requests and of the queue.
    """

    def __init__(self, pool: ModelPool, limits: ServerLimits) -> None:
        self.pool: ModelPool = pool
        self.limits: ServerLimits = limits
        self.queue: WorkQueue = WorkQueue(limits.queue_tokens)
        self.detector: Detector = Detector(pool.sources, pool.languages)
        self.in_work: int = 0
        self.is_ending: bool = False
        self._readers = ThreadPoolExecutor(READERS, "pellucid-read")
        self._threads = ThreadPoolExecutor(limits.threads, "pellucid-text")
        self._documents = ThreadPoolExecutor(DOCUMENT_THREADS, "pellucid-document")
        self._tickets: set[Ticket] = set()

    def end(self) -> None:
        """Ends the threads; work that is not done is dropped."""
        self.is_ending = True
        for ticket in list(self._tickets):
            ticket.cancel()
        self.queue.end()
        for threads in (self._readers, self._threads, self._documents):
            threads.shutdown(cancel_futures=True)

    # Requests

    def find_source(self, code: str) -> str | None:
        """Returns the normalized code of a source language, as a client writes it; None for an unknown one."""
        return find_code(code, self.pool.sources) or find_code(code, self.pool.languages)

    def find_target(self, code: str) -> str | None:
        """Returns the normalized code of a target language, as a client writes it; None for an unknown one."""
        return find_code(code, self.pool.targets) or find_code(code, self.pool.languages)

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raises RequestError for more texts or characters than the limits allow."""
        if len(texts) > self.limits.texts:
            raise RequestError(400, f"Invalid request: {len(texts):,} texts exceed the limit of {self.limits.texts:,}")
        if (count := sum(map(len, texts))) > self.limits.characters:
            raise RequestError(
                400, f"Invalid request: {count:,} characters exceed the text limit of {self.limits.characters:,}"
            )

    async def translate(
        self,
        request: Request,
        texts: Sequence[str],
        source: str | None,
        target: str,
        kind: Kind = "text",
        tags: XmlTags | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> list[TextAnswer]:
        """Returns the translation of each text.

        Args:
            request: the request; its work is dropped if the client leaves.
            source: a normalized code; None: that of each text is detected.
            target: a normalized code.
            kind: the texts are plain, or fragments of HTML or XML.
            tags: the meaning of the tags of XML.
            options: options of `Translator.translate`.

        Raises RequestError, and ClientDisconnect if the client left.
        """
        self.check_texts(texts)
        found: dict[int, TextAnswer] = {}
        groups: dict[str, list[int]] = {}
        languages = [(source, 1.0)] * len(texts) if source is not None else await self.detect(texts)
        for place, (text, (code, sure)) in enumerate(zip(texts, languages, strict=True)):
            if code == target or not has_letters(text) or (kind == "text" and is_protected(text)):
                found[place] = TextAnswer(text, code, confidence=sure)
                continue
            found[place] = TextAnswer("", code, confidence=sure)
            groups.setdefault(code, []).append(place)
        if not groups:
            return [found[place] for place in range(len(texts))]
        routes = {code: self.find_route(code, target) for code in groups}

        def count() -> int:
            return sum(
                self.count_tokens(routes[code], [texts[place] for place in places]) for code, places in groups.items()
            )

        def work(ticket: Ticket) -> dict[int, TextAnswer]:
            for code, places in groups.items():
                answers = self._translate(ticket, routes[code], [texts[place] for place in places], kind, tags, options)
                for place, (text, translation) in zip(places, answers, strict=True):
                    via = routes[code][0].pair[1] if len(routes[code]) > 1 else ""
                    found[place] = TextAnswer(text, code, translation, via, found[place].confidence)
            return found

        done = await self.run(request, count, work)
        return [done[place] for place in range(len(texts))]

    async def detect(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """Returns the normalized code of the language of each text, and its probability; computed in a thread."""
        return await self._read(lambda: [self.detector.detect(text) for text in texts])

    async def _read(self, function: Callable[[], R]) -> R:
        """Returns the result of a function that a thread for reading calls."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, function)

    def find_route(self, source: str, target: str) -> list[Leg]:
        """Returns the models of a pair of normalized codes. Raises RequestError if it is not translated."""
        route = self.pool.find(source, target)
        if route is None:
            targets = ", ".join(map(display_code, self.pool.targets_of(source)))
            known = f"; {display_code(source)} is translated into {targets}" if targets else ""
            raise RequestError(
                400, f"{display_code(source)} to {display_code(target)} is not supported{known}", "target"
            )
        return route

    async def run(self, request: Request, count: Callable[[], int], work: Callable[[Ticket], R]) -> R:
        """Returns the result of a function that a thread calls with a ticket of the queue.

        Args:
            request: the request; if its client leaves, the ticket is cancelled.
            count: returns the source tokens of the work; it may load models.
            work: does the work.

        Raises RequestError of status 503 if the queue is full or the time is over, and ClientDisconnect.
        """
        ticket = Ticket(self.queue)
        task = asyncio.ensure_future(self._run(ticket, count, work))
        watch = asyncio.ensure_future(_wait_for_disconnect(request))
        self.in_work += 1
        try:
            if self.in_work > self.limits.requests:
                raise full_error(self.queue.estimate_seconds())
            done, _ = await asyncio.wait(
                {task, watch}, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if task in done:
                return await task
            if watch in done:
                raise ClientDisconnect
            raise RequestError(503, "the request took too long", headers={"Retry-After": "60"})
        except asyncio.CancelledError:  # the server ends, and its time for accepted requests is over
            raise full_error(10) from None
        finally:
            self.in_work -= 1
            watch.cancel()
            if not task.done():
                ticket.cancel()
                task.cancel()

    async def _run(self, ticket: Ticket, count: Callable[[], int], work: Callable[[Ticket], R]) -> R:
        self._tickets.add(ticket)
        try:
            with self.queue.admit(await self._read(count), ticket):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work, ticket)
        except QueueFullError as error:
            raise full_error(error.seconds) from None
        except CancelledWorkError:
            raise full_error(10) from None
        except PellucidError as error:
            raise RequestError(400, f"Invalid request: {error}") from None
        finally:
            self._tickets.discard(ticket)

    # Work in threads

    def make_translator(self, ticket: Ticket, leg: Leg, stack: ExitStack) -> QueuedTranslator:
        """Returns the translator of a leg for one request, which stays in memory while the stack is open."""
        return QueuedTranslator(self.load(leg, stack), ticket)

    def load(self, leg: Leg, stack: ExitStack) -> Translator:
        """Returns the translator of a leg, which stays in memory while the stack is open. Raises RequestError."""
        try:
            return stack.enter_context(self.pool.use(leg.model))
        except (PellucidError, OSError, RuntimeError, MemoryError) as error:
            log_line(f"error: the model `{leg.model.name}` cannot be loaded: {error}")
            raise RequestError(500, f"the model of {'-'.join(leg.pair)} cannot be loaded") from None

    def count_tokens(self, route: Sequence[Leg], texts: Sequence[str]) -> int:
        """Returns the source tokens of texts; loads the model."""
        with ExitStack() as stack:
            tokenizer = self.load(route[0], stack).tokenizers.source
        lines = [line for text in texts for line in text.split("\n")]
        return len(route) * sum(len(ids) + 1 for ids in tokenizer.encode_lines(lines)) + ENDING * len(texts)

    def _translate(
        self,
        ticket: Ticket,
        route: Sequence[Leg],
        texts: Sequence[str],
        kind: Kind,
        tags: XmlTags | None,
        options: Mapping[str, Any] | None,
    ) -> list[tuple[str, Translation | None]]:
        with ExitStack() as stack:
            translators = [self.make_translator(ticket, leg, stack) for leg in route]
            if kind == "text":
                found: list[Translation] = []
                now = [text.strip() for text in texts]
                for leg, translator in zip(route, translators, strict=True):
                    last = _limit_n_best(options or {}, translator) if leg is route[-1] else {}
                    found = translator.translate(now, **leg.options, **last)
                    now = [each.text for each in found]
                return [(_with_spaces(text, each.text), each) for text, each in zip(texts, found, strict=True)]
            translate = partial(_translate_segments, route, translators, options or {})
            fragments = [read_fragment(text, (tags or XmlTags()) if kind == "xml" else None) for text in texts]
            return [(document.translate(translate)[0].decode(), None) for document in fragments]

    async def open_file(self, data: bytes, ending: str) -> Document:
        """Returns a document of a request, which a thread reads. Raises RequestError if it cannot be read."""
        try:
            return await self._read(lambda: read_document(data, Path(f"document{ending}")))
        except PellucidError as error:
            raise RequestError(400, f"Invalid request: {error}", "file") from None

    def translate_document(
        self, ticket: Ticket, document: Document, route: Sequence[Leg], options: Mapping[str, Any]
    ) -> tuple[bytes, DocumentReport]:
        """Returns a translated document and its report; called in a thread."""
        with ExitStack() as stack:
            translators = [self.make_translator(ticket, leg, stack) for leg in route]
            translate = partial(_translate_segments, route, translators, options)
            return document.translate(translate, display_code(route[-1].pair[1]))

    def start_document(self, work: Callable[[Ticket], None]) -> None:
        """Calls a function in a thread for documents, with a ticket that `end` cancels."""

        def run() -> None:
            ticket = Ticket(self.queue)
            self._tickets.add(ticket)
            try:
                work(ticket)
            except Exception:
                traceback.print_exc(file=sys.stderr)
            finally:
                self._tickets.discard(ticket)

        self._documents.submit(run)


def _limit_n_best(options: Mapping[str, Any], translator: Translator) -> dict[str, Any]:
    """Returns options with at most as many translations as the model's beam has hypotheses.

    A wider beam could find another translation than the one without alternatives.
    """
    most = translator.decode.beam_size
    return {**options, "n_best": min(options["n_best"], most)} if "n_best" in options else dict(options)


def is_protected(text: str) -> bool:
    """Returns True if a text has no letters outside of placeholders, addresses and the like."""
    rest, end = "", 0
    for span in find_protected(text):
        rest += text[end : span.start]
        end = span.end
    return not has_letters(rest + text[end:])


def full_error(seconds: float) -> RequestError:
    """Returns the error for a server that has no room, which names the time until it has some."""
    return RequestError(
        503, "the server has too much work; try again later", headers={"Retry-After": str(max(1, round(seconds)))}
    )


def _translate_segments(
    route: Sequence[Leg],
    translators: Sequence[QueuedTranslator],
    options: Mapping[str, Any],
    segments: Sequence[TextSegment],
) -> list[SegmentAnswer]:
    """Translates the segments of a document or a fragment by one model after the other."""
    answers: list[SegmentAnswer] = []
    for start in range(0, len(segments), TOGETHER):
        found = [MarkedText(each.text, tuple(starmap(Mark, each.marks))) for each in segments[start : start + TOGETHER]]
        flags: list[tuple[str, ...]] = [()] * len(found)
        for leg, translator in zip(route, translators, strict=True):
            last = options if leg is route[-1] else {}
            translated = translate_marked(translator, found, **leg.options, **last)
            found = [MarkedText(each.text, each.marks) for each in translated]
            flags = [(*before, *each.flags) for before, each in zip(flags, translated, strict=True)]
        for each, own in zip(found, flags, strict=True):
            answers.append(SegmentAnswer(each.text, tuple((mark.start, mark.end) for mark in each.marks), own))
    return answers


def _with_spaces(source: str, text: str) -> str:
    """Returns a text with the white space around another."""
    lead = source[: len(source) - len(source.lstrip())]
    tail = source[len(source.rstrip()) :] if source.strip() else ""
    return f"{lead}{text.strip()}{tail}" if lead or tail else text


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
