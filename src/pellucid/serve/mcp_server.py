"""A server of the Model Context Protocol on standard input and output: translate, score, explain a word.

Standard output is the protocol's alone: the SDK sends all else that is printed to standard error while it runs.
"""

import math
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ParamSpec

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from pellucid.analysis.occlusion import attribute
from pellucid.errors import PellucidError, format_list, format_value
from pellucid.serve.fields import clean_text
from pellucid.serve.languages import display_code, find_code
from pellucid.serve.limits import ServerLimits
from pellucid.serve.models import Leg, ModelPool
from pellucid.tasks.translator import Translator
from pellucid.tracing.trace import Trace

P = ParamSpec("P")

MOST_ALTERNATIVES = 8
INSTRUCTIONS = """Translates by models on this machine, and shows how sure they are. `translate` gives translations,
`score` the log-probability of a given one, `explain_word` the source words on which a word of a translation depends."""

Text = Annotated[str, Field(description="the text in the source language")]
Source = Annotated[str, Field(description="code of the source language, as in de; may be empty if there is one pair")]
Target = Annotated[str, Field(description="code of the target language, as in en; may be empty if there is one pair")]


def run_mcp(
    models: Sequence[str | Path], *, pivot: str, device: str, dtype: str | None, engine: str, limits: ServerLimits
) -> None:
    """Serves translators on standard input and output until the input ends.

    Models are loaded on first use. Raises ConfigError and CheckpointError as `pellucid.serve.app` does.
    """
    pool = ModelPool(models, pivot, {"device": device, "dtype": dtype, "engine": engine})
    _make_server(pool, limits).run("stdio")


def _make_server(pool: ModelPool, limits: ServerLimits) -> MCPServer[Any]:
    """Returns the server with its three tools."""
    server: MCPServer[Any] = MCPServer(
        "pellucid", instructions=INSTRUCTIONS, version=version("pellucid"), log_level="WARNING"
    )
    tools = Tools(pool, limits)
    pairs = format_list("-".join(map(display_code, pair)) for pair in sorted(pool.by_pair))
    for name, call, description in (
        ("translate", tools.translate, f"Translates a text. Language pairs: {pairs}."),
        ("score", tools.score, "Returns the log-probability of a translation, and the mean probability of a token."),
        (
            "explain_word",
            tools.explain_word,
            "Explains a word of a translation: its probability, the source words that it depends on, and other words "
            "that the model could have written.",
        ),
    ):
        server.tool(name=name, description=description)(_report(call))
    return server


class Tools:
    """The tools of the server, each called by one thread at a time.

    Args:
        pool: the models.
        limits: the limit of characters.
    """

    def __init__(self, pool: ModelPool, limits: ServerLimits) -> None:
        self._pool, self._limits = pool, limits
        self._lock = threading.Lock()

    def translate(
        self,
        text: Text,
        source: Source = "",
        target: Target = "",
        alternatives: Annotated[int, Field(description="further translations", ge=0, le=MOST_ALTERNATIVES)] = 0,
    ) -> dict[str, Any]:
        """Translates a text."""
        text, route = self._check(text), self._find_route(source, target)
        now, found = text, None
        for leg in route:
            last = leg is route[-1]
            with self._use(leg) as translator:
                more: dict[str, Any] = {"confidence": last, "n_best": alternatives + 1} if last else {}
                if last and alternatives:
                    more["beam_size"] = max(translator.decode.beam_size, alternatives + 1)
                [found] = translator.translate([now], **leg.options, **more)
            now = found.text
        assert found is not None, "a route has a model"
        table: dict[str, Any] = {"text": found.text, "score": round(found.score, 5)}
        if found.confidence is not None and found.confidence.probability is not None:
            table["probability"] = round(found.confidence.probability, 5)
        if alternatives:
            table["alternatives"] = [each.text for each in found.alternatives if each.text != found.text]
        if found.flags:
            table["flags"] = [{"flag": flag.name, "evidence": flag.evidence} for flag in found.flags]
        if len(route) > 1:
            table["via"] = display_code(route[0].pair[1])
        return table

    def score(
        self,
        text: Text,
        translation: Annotated[str, Field(description="the translation to score")],
        source: Source = "",
        target: Target = "",
    ) -> dict[str, Any]:
        """Scores a translation."""
        text, translation = self._check(text), self._check(translation)
        with self._use(self._find_leg(source, target)) as translator:
            options = self._find_leg(source, target).options
            [found] = translator.score_sequences([text], [translation], **options)
        if found.fault:
            raise ToolError(f"the translation has no score: {found.fault}")
        mean = math.exp(found.score / found.tokens)
        return {"score": round(found.score, 5), "tokens": found.tokens, "token_probability": round(mean, 5)}

    def explain_word(
        self,
        text: Text,
        word: Annotated[str, Field(description="a word of the translation, as it stands there")],
        translation: Annotated[str, Field(description="the translation; empty: the model's own")] = "",
        source: Source = "",
        target: Target = "",
    ) -> dict[str, Any]:
        """Explains a word of a translation."""
        text, translation = self._check(text), self._check(translation)
        leg = self._find_leg(source, target)
        with self._use(leg) as translator:
            trace = translator.trace(text, translation or None, **leg.options)
            rows = _find_rows(trace, word.strip())
            found = attribute(translator, trace)
        assert trace.predictions is not None, "a translator predicts"
        loss = found.values[rows].sum(axis=0)
        first = trace.predictions[rows[0]]
        chosen = trace.sequences["out"][rows[0]]
        return {
            "translation": _join(trace, range(len(trace.sequences["out"]))),
            "word": _join(trace, rows),
            "probability": round(math.exp(sum(trace.predictions[row].log_prob for row in rows)), 5),
            "depends_on": [
                {"source_word": token.text_in_word.strip(), "log_probability_lost_without_it": round(float(value), 4)}
                for token, value in sorted(zip(found.words, loss, strict=True), key=lambda pair: -pair[1])
            ],
            "instead": [
                {"begins_with": token.text.strip(), "probability": round(math.exp(value), 5)}
                for token, value in first.top
                if token.id != chosen.id
            ],
        }

    def _check(self, text: str) -> str:
        if len(text) > self._limits.characters:
            raise ToolError(f"the text has {len(text):,} characters; the limit is {self._limits.characters:,}")
        return clean_text(text).replace("\n", " ").strip()

    def _find_route(self, source: str, target: str) -> list[Leg]:
        pool = self._pool
        pairs = sorted(pool.by_pair)
        known = format_list("-".join(map(display_code, pair)) for pair in pairs)
        if not source or not target:
            fitting = [pair for pair in pairs if find_code(source, [pair[0]]) or not source]
            fitting = [pair for pair in fitting if find_code(target, [pair[1]]) or not target]
            if len(fitting) != 1:
                raise ToolError(f"name source and target; the pairs are {known}")
            found = fitting[0]
        else:
            found = find_code(source, pool.languages) or "", find_code(target, pool.languages) or ""
        route = pool.find(*found)
        if route is None:
            raise ToolError(
                f"`{format_value(source)}` to `{format_value(target)}` is not supported; the pairs are {known}"
            )
        return route

    def _find_leg(self, source: str, target: str) -> Leg:
        route = self._find_route(source, target)
        if len(route) > 1:
            raise ToolError("a pair through another language has two models: name one of its halves")
        return route[0]

    @contextmanager
    def _use(self, leg: Leg) -> Iterator[Translator]:
        with self._lock, warnings.catch_warnings(), self._pool.use(leg.model) as translator:
            warnings.simplefilter("ignore")  # what is unreliable is in the flags
            yield translator


def _find_rows(trace: Trace, word: str) -> list[int]:
    """Returns the positions of the tokens of a word. Raises ToolError if the translation does not have it."""
    by_word: dict[int, list[int]] = {}
    for row, token in enumerate(trace.sequences["out"]):
        if token.word is not None:
            by_word.setdefault(token.word, []).append(row)
    for same in (str, str.casefold):
        for rows in by_word.values():
            if same(_join(trace, rows)) == same(word):
                return rows
    known = format_list(_join(trace, rows) for rows in by_word.values())
    raise ToolError(f"the translation has no word `{format_value(word)}`; its words are {known}")


def _join(trace: Trace, rows: Sequence[int]) -> str:
    tokens = [trace.sequences["out"][row] for row in rows]
    return "".join(token.text_in_word for token in tokens if not token.special).strip()


def _report(call: Callable[P, dict[str, Any]]) -> Callable[P, dict[str, Any]]:
    """Returns a tool whose errors are answers to the client: PellucidError as ToolError."""

    @wraps(call)
    def tool(*args: P.args, **options: P.kwargs) -> dict[str, Any]:
        try:
            return call(*args, **options)
        except PellucidError as error:
            raise ToolError(str(error)) from None

    return tool
