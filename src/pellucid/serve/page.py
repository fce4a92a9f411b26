"""The page at `/`: the page that holds a model, with the server in the model's place."""

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pellucid.documents.kinds import ENDINGS
from pellucid.serve.errors import RequestError
from pellucid.serve.keys import Keys
from pellucid.serve.languages import display_code, language_name
from pellucid.serve.models import Pair
from pellucid.serve.page_model import SERVED_VIEWS
from pellucid.serve.service import TranslationService
from pellucid.views.page import SERVER, page
from pellucid.views.page_data import view_extras

MOST_PAGES = 64
"""The pages that are kept, each of about 150 KB; a model between hundreds of languages has more pairs."""
HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page has a policy of its own
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-cache",
}  # fmt: skip


class ServerPage:
    """The pages of the pairs of a server."""

    def __init__(self, service: TranslationService, keys: Keys) -> None:
        self._service, self._keys = service, keys
        self._pages: dict[Pair, str] = {}

    async def show(self, request: Request) -> Response:
        """Shows a page to translate, look inside of the model, and translate documents."""
        pair = self._find_pair(request.query_params.get("source", ""), request.query_params.get("target", ""))
        if pair not in self._pages:
            if len(self._pages) >= MOST_PAGES:
                self._pages.pop(next(iter(self._pages)))
            self._pages[pair] = self._make(pair)
        return HTMLResponse(self._pages[pair], headers=HEADERS)

    def _find_pair(self, source: str, target: str) -> Pair:
        pool = self._service.pool
        pairs = sorted(pool.by_pair)
        if not source and not target:
            return pairs[0]
        pair = self._service.find_source(source) or "", self._service.find_target(target) or ""
        if pair not in pool.by_pair:
            raise RequestError(404, f"{source[:40]} to {target[:40]} is not supported", "target")
        return pair

    def _make(self, pair: Pair) -> str:
        pairs: dict[str, list[str]] = {}
        for source, target in sorted(self._service.pool.by_pair):
            pairs.setdefault(display_code(source), []).append(display_code(target))
        served: dict[str, Any] = {
            "source": display_code(pair[0]), "target": display_code(pair[1]), "pairs": pairs,
            "key_required": bool(self._keys), "endings": sorted(ENDINGS),
        }  # fmt: skip
        island = json.dumps(served, separators=(",", ":")).encode("ascii")
        title = f"{language_name(pair[0])} to {language_name(pair[1])}"
        extras = view_extras((), SERVED_VIEWS)
        return page((), view="translate", views=SERVED_VIEWS, model={SERVER: island}, extras=extras, title=title)
