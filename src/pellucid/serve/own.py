"""The interface of Pellucid itself: n best, scores, tokens, flags, alignment, and the requests of its page."""

from contextlib import ExitStack
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pellucid.serve.errors import RequestError
from pellucid.serve.fields import Fields, read_fields
from pellucid.serve.keys import Keys
from pellucid.serve.languages import display_code
from pellucid.serve.metrics import Metrics
from pellucid.serve.models import Leg
from pellucid.serve.page_model import PageModel
from pellucid.serve.service import TranslationService
from pellucid.serve.work_queue import Ticket
from pellucid.tasks.search_options import SearchOptions

MOST_BEAM = 32


class OwnInterface:
    """The routes /api/translate and /api/model."""

    def __init__(self, service: TranslationService, keys: Keys, metrics: Metrics) -> None:
        self._service, self._keys, self._metrics = service, keys, metrics

    async def translate(self, request: Request) -> Response:
        """Translates texts, with all that `pellucid translate --json` tells, and the alignment of words."""
        service = self._service
        fields = await read_fields(request, service.limits)
        self._check_key(request, fields)
        texts, is_list = fields.get_texts("text")
        service.check_texts(texts)
        route = self._find_route(fields)
        options: dict[str, Any] = {}
        if "beam_size" in fields:
            options["beam_size"] = fields.get_whole("beam_size", 1, 1, MOST_BEAM)
        n_best = fields.get_whole("n_best", 1, 1, service.limits.alternatives + 1)
        aligned = fields.get_switch("alignment")
        last = route[-1]

        def work(ticket: Ticket) -> list[dict[str, Any]]:
            now, answers = texts, list[dict[str, Any]]()
            with ExitStack() as stack:
                for leg in route:
                    translator = service.make_translator(ticket, leg, stack)
                    more: dict[str, Any] = {"n_best": n_best, "confidence": True} if leg is last else {}
                    found = translator.translate(now, **leg.options, **options, **more)
                    if leg is last:
                        answers = [each.to_json() for each in found]
                        if aligned:
                            decode, aligner = translator.configure(SearchOptions(**leg.options)), translator.aligner
                            for text, each, answer in zip(now, found, answers, strict=True):
                                parts = aligner.align(text, each, decode).parts
                                answer["alignment"] = [_describe_part(part) for part in parts]
                    now = [each.text for each in found]
            return answers

        answers = await service.run(request, lambda: service.count_tokens(route, texts), work)
        self._metrics.characters.inc(sum(map(len, texts)))
        via = [display_code(leg.pair[1]) for leg in route[:-1]]
        for answer in answers:
            answer["via"] = via
        return JSONResponse(answers if is_list else answers[0])

    async def ask_model(self, request: Request) -> Response:
        """Answers a request of the page at / to its model: `method` and `args`, as the page of a model has them."""
        service = self._service
        fields = await read_fields(request, service.limits)
        self._check_key(request, fields)
        route = self._find_route(fields)
        method, arguments = fields.get_text("method"), fields.get("args")
        if not isinstance(arguments, list):
            raise RequestError(400, "Invalid request: args must be a list", "args")
        if len(route) > 1:
            raise RequestError(400, "Invalid request: a pair through another language has two models", "target")
        leg = route[0]
        texts = [each for each in arguments[:1] if isinstance(each, str)]
        service.check_texts(texts)

        def work(ticket: Ticket) -> Any:
            with ExitStack() as stack:
                model = PageModel(service.load(leg, stack), ticket, leg.options, [*map(display_code, leg.pair)])
                return model.answer(method, arguments)

        result = await service.run(request, lambda: service.count_tokens(route, texts), work)
        if method == "translate":
            self._metrics.characters.inc(sum(map(len, texts)))
        return JSONResponse({"result": result})

    def _find_route(self, fields: Fields) -> list[Leg]:
        """Returns the models of the pair of a request. Raises RequestError."""
        service = self._service
        codes = fields.get_text("source"), fields.get_text("target")
        source, target = service.find_source(codes[0]), service.find_target(codes[1])
        for name, code, found in zip(("source", "target"), codes, (source, target), strict=True):
            if found is None:
                raise RequestError(400, f"{code[:40]} is not supported", name)
        assert source is not None
        assert target is not None
        return service.find_route(source, target)

    def _check_key(self, request: Request, fields: Fields) -> None:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        given = key.strip() if scheme.lower() == "bearer" else fields.get_text("api_key", "")
        if self._keys and not self._keys.has(given):
            raise RequestError(403, "Invalid API key: send the header `Authorization: Bearer KEY`")


def _describe_part(part: Any) -> dict[str, Any]:
    """Returns the words of a part, as ranges of characters, with the attention of target words to source words."""
    return {
        "source": [list(span) for span in part.sources],
        "target": [list(span) for span in part.targets],
        "weights": [[round(float(weight), 4) for weight in row] for row in part.weights],
        "known": part.known,
    }
