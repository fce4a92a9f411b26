"""The ASGI application of a server: its routes, its errors, and what begins and ends with it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pellucid.serve.deepl import DeepL
from pellucid.serve.errors import RequestError, error_body, find_interface, find_path
from pellucid.serve.gate import Application, Gate
from pellucid.serve.keys import Keys
from pellucid.serve.languages import display_code
from pellucid.serve.libretranslate import LibreTranslate
from pellucid.serve.limits import ServerLimits
from pellucid.serve.metrics import Metrics
from pellucid.serve.models import ModelPool
from pellucid.serve.openai import OpenAI
from pellucid.serve.own import OwnInterface
from pellucid.serve.page import ServerPage
from pellucid.serve.service import TranslationService
from pellucid.serve.specification import make_specification
from pellucid.serve.store import Store

ADDRESSES = {
    "libretranslate": "LibreTranslate's interface has /translate, /detect, /languages, /translate_file",
    "deepl": "DeepL's interface has /v2/translate, /v2/document, /v2/glossaries, /v2/languages, /v2/usage",
    "openai": "OpenAI's interface has /v1/chat/completions and /v1/models",
}


def make_application(
    models: Sequence[str | Path],
    *,
    api_keys: Sequence[str],
    hosts: Sequence[str] | None,
    origins: Sequence[str],
    pivot: str,
    device: str,
    dtype: str | None,
    engine: str,
    store: str | Path | None,
    limits: ServerLimits | None,
) -> Application:
    """Returns the application, as `pellucid.serve.app` describes it."""
    limits, metrics, keys = limits or ServerLimits(), Metrics(), Keys(api_keys)
    pool = ModelPool(models, pivot, {"device": device, "dtype": dtype, "engine": engine})
    service = TranslationService(pool, limits)
    folder = None if store is None else Path(store)
    documents = Store(folder, "documents", limits.documents, limits.document_seconds)
    files = Store(folder, "files", limits.documents, limits.document_seconds)
    glossaries = Store(folder, "glossaries", limits.glossaries, None)
    metrics.add_gauge("waiting_tokens", "Source tokens that wait", lambda: service.queue.waiting_tokens)
    metrics.add_gauge("loaded_models", "Models in memory", lambda: sum(bool(m.translator) for m in pool.models))

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        return JSONResponse({"status": "ready"} if not service.is_ending else {"status": "ending"},
                            status_code=503 if service.is_ending else 200)  # fmt: skip

    async def write_metrics(request: Request) -> Response:
        return Response(metrics.write(), media_type="text/plain; version=0.0.4; charset=utf-8")

    libre, deepl = LibreTranslate(service, keys, files, metrics), DeepL(service, documents, glossaries, metrics)
    openai, own = OpenAI(service, metrics), OwnInterface(service, keys, metrics)
    server_page = ServerPage(service, keys)
    routes = [
        Route("/", server_page.show, methods=["GET"]),
        Route("/health", health, methods=["GET"]),
        Route("/ready", ready, methods=["GET"]),
        Route("/metrics", write_metrics, methods=["GET"]),
        Route("/translate", libre.translate, methods=["POST"]),
        Route("/languages", libre.languages, methods=["GET"]),
        Route("/detect", libre.detect, methods=["POST"]),
        Route("/translate_file", libre.translate_file, methods=["POST"]),
        Route("/download_file/{name}", libre.download_file, methods=["GET"], name="download_file"),
        Route("/suggest", libre.suggest, methods=["POST"]),
        Route("/frontend/settings", libre.settings, methods=["GET"]),
        Route("/v2/translate", deepl.translate, methods=["POST"]),
        Route("/v2/languages", deepl.languages, methods=["GET", "POST"]),
        Route("/v2/usage", deepl.usage, methods=["GET", "POST"]),
        Route("/v2/document", deepl.add_document, methods=["POST"]),
        Route("/v2/document/{name}", deepl.document_status, methods=["GET", "POST"]),
        Route("/v2/document/{name}/result", deepl.document_result, methods=["GET", "POST"]),
        Route("/v2/glossaries", deepl.glossaries, methods=["GET", "POST"]),
        Route("/v2/glossaries/{name}", deepl.glossary, methods=["GET", "DELETE"]),
        Route("/v2/glossaries/{name}/entries", deepl.glossary_entries, methods=["GET"]),
        Route("/v2/glossary-language-pairs", deepl.glossary_pairs, methods=["GET"]),
        Route("/v1/models", openai.models, methods=["GET"]),
        Route("/v1/models/{name}", openai.model, methods=["GET"]),
        Route("/v1/chat/completions", openai.complete, methods=["POST"]),
        Route("/api/translate", own.translate, methods=["POST"]),
        Route("/api/model", own.ask_model, methods=["POST"]),
    ]
    source, target = (display_code(code) for code in min(pool.by_pair))
    examples = {
        "source": [source], "target": [target], "source_lang": [source], "target_lang": [target],
        "model": [f"{source}-{target}"], "method": ["translate"], "entries_format": ["tsv"],
    }  # fmt: skip
    specification = make_specification(routes, examples)

    async def spec(request: Request) -> Response:
        return JSONResponse(specification)

    routes.append(Route("/spec", spec, methods=["GET"]))

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            service.end()
            for each in (documents, files, glossaries):
                each.close()

    handlers: dict[Any, Any] = {
        RequestError: _answer_error, HTTPException: _answer_http_error, ClientDisconnect: _answer_nobody,
        Exception: _answer_failure,
    }  # fmt: skip
    starlette = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    starlette.router.redirect_slashes = False
    templates = {route.endpoint: route.path for route in routes}
    return Gate(starlette, templates, metrics, limits, keys, hosts, origins)


async def _answer_error(request: Request, error: RequestError) -> Response:
    return JSONResponse(error_body(find_path(request.scope), error), status_code=error.status, headers=error.headers)


async def _answer_http_error(request: Request, error: HTTPException) -> Response:
    path = find_path(request.scope)
    addresses = ADDRESSES[find_interface(path)]
    said = {404: f"There is nothing at this address: {addresses}", 405: f"Method Not Allowed: {addresses}"}
    refused = RequestError(error.status_code, said.get(error.status_code, str(error.detail)))
    return JSONResponse(error_body(path, refused), status_code=error.status_code, headers=error.headers)


async def _answer_nobody(request: Request, error: ClientDisconnect) -> Response:
    return Response(status_code=499)


async def _answer_failure(request: Request, error: Exception) -> Response:
    failed = RequestError(500, "the server failed; its log says why")
    return JSONResponse(error_body(find_path(request.scope), failed), status_code=500)
