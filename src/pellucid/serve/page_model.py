"""The model behind the server's page: answers the requests that a page sends to its worker (`viewer/worker/`).

Translations wait in the queue that all clients share; all else is a call in the thread of the queue.
"""

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from pellucid.analysis.ablation import Head, disable_heads
from pellucid.analysis.contributions import attribute_logits
from pellucid.analysis.lens import logit_lens
from pellucid.analysis.occlusion import attribute
from pellucid.config.tables import to_table
from pellucid.decoding.constraints import Constraints
from pellucid.decoding.ids import add_special_ids, list_suppressed_ids
from pellucid.engines.engine import Engine, PyTorchEngine
from pellucid.errors import format_value
from pellucid.serve.errors import RequestError
from pellucid.serve.fields import clean_text
from pellucid.serve.queued_translator import EngineWrapper, QueuedEngine
from pellucid.serve.work_queue import Ticket
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.tracing import trace_pass, trace_search, trace_translation
from pellucid.tasks.translation import Translation
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizer import TokenizerBase
from pellucid.tracing.module_copy import copy_module_tree
from pellucid.tracing.tokens import make_tokens
from pellucid.tracing.trace import Trace
from pellucid.views import VIEWS
from pellucid.views.model_page import public_card
from pellucid.views.page_data import pack_trace
from pellucid.weights.card import plain_card

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pellucid.config import DecodeConfig
    from pellucid.decoding.beam import SearchFunction
    from pellucid.decoding.hypothesis import Hypothesis
    from pellucid.model.transformer import Transformer

R = TypeVar("R")

MOST_BEAM = 32
MOST_IDS = 4_096
"""The most ids of a sequence in a request, and the most places or heads in a list."""
SERVED_VIEWS = tuple(view for view in VIEWS if view not in ("step", "compare", "evolution"))
"""The views of the server's page: no views of several traces, and not the one that reads weights."""


class PageModel:
    """A model for one request of a page.

    Args:
        inner: the translator, in memory.
        ticket: the place of the request in the queue.
        languages: the language options of `Translator.translate`.
        pair: source and target, as a page shows them.
    """

    def __init__(self, inner: Translator, ticket: Ticket, languages: Mapping[str, Any], pair: Sequence[str]) -> None:
        self._inner, self._ticket, self._languages, self._pair = inner, ticket, dict(languages), list(pair)
        self._decode: DecodeConfig = inner.configure(SearchOptions(**languages))

    def answer(self, method: str, arguments: Sequence[Any]) -> Any:
        """Returns the result of a request: JSON, with the names of numbers and tokens as `viewer/worker/` has them.

        Raises RequestError for an unknown method or an invalid argument, and PellucidError as the translator does.
        """
        methods: dict[str, Callable[..., Any]] = {
            "about": self._describe, "translate": self._translate, "score": self._score, "trace": self._trace,
            "lens": self._lens, "contributions": self._contribute, "occlusion": self._occlude,
            "encode": self._encode, "decode": self._decode_ids, "label": self._label,
        }  # fmt: skip
        if method not in methods:
            raise RequestError(
                400,
                f"Invalid request: unknown method `{format_value(method)}`; there are {', '.join(methods)}",
                "method",
            )
        try:
            return methods[method](*arguments)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # raised by the call itself
                raise RequestError(400, f"Invalid request: {method} does not take these arguments", "args") from None
            raise

    @property
    def _model(self) -> "Transformer":
        model: Transformer = self._inner.model
        return model

    # Requests

    def _describe(self, asked: Any = None) -> dict[str, Any]:
        inner, model = self._inner, self._model
        head = inner.aligning_head
        sides = {"source": inner.tokenizers.source, "target": inner.tokenizers.target}
        return {
            "task": "translate", "model": to_table(model.config), "decode": to_table(self._decode),
            "labels": [], "languages": list(inner.languages), "served": self._pair,
            "text": None if inner.text is None else to_table(inner.text),
            "tokenizers": {name: {"kind": side.kind, "size": side.size} for name, side in sides.items()},
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "card": public_card(inner.card or plain_card(inner.task, model.config, inner.languages)),
            "examples": [], "title": "", "note": "", "weights": "", "bytes": 0, "proof": None,
            "aligning": None if head is None else head.to_trace_facts(),
            "version": version("pellucid"),
        }  # fmt: skip

    def _translate(self, text: Any, asked: Any = None) -> dict[str, Any]:
        line, asked = _check_text(text), _check_options(asked)
        options = self._read_search(asked)
        prefixes = _check_prefixes(asked.get("prefix"))
        self._check_prefix([i for ids in prefixes for i in ids])
        sampled = any(asked.get(name) is not None for name in ("topK", "topP", "seed")) or asked.get("temperature")
        more: dict[str, Any] = {}
        if sampled:
            more = {"temperature": _number(asked, "temperature", 0.01, 100.0), "seed": _whole(asked, "seed", 0, 2**32)}
            more |= {"top_k": _whole(asked, "topK", 0, 10**6), "top_p": _number(asked, "topP", 1e-6, 1.0)}
            options = {}

        def search(engine: Engine) -> Translation:
            inner = self._inner
            on = _PrefixedEngine(engine, prefixes) if any(prefixes) else engine
            translator = Translator(on, inner.tokenizers, inner.decode, inner.languages, inner.text)
            if sampled:
                given = {name: value for name, value in more.items() if value is not None}
                return translator.sample([line], protect="off", **given, **self._languages)[0]
            return translator.translate([line], protect="off", repair="off", **options, **self._languages)[0]

        altered = self._alter(asked)
        if altered.is_altered or sampled:
            found = self._call(lambda: search(PyTorchEngine(altered.model)), altered)
        else:
            found = search(QueuedEngine(self._inner.engine, self._ticket))
        pieces = [piece for sentence in found.sentences for piece in sentence.pieces]
        top = _whole(asked, "top", 1, 20) or 5
        parts = self._call(lambda: [self._describe_piece(altered.model, *piece, top) for piece in pieces], altered)
        penalty = options.get("length_penalty", self._decode.length_penalty)
        alternatives = [self._describe_alternative(each, penalty) for each in found.alternatives or [found]]
        return {
            **alternatives[0], "text": found.text, "alternatives": alternatives, "parts": parts,
            **{name: [each for part in parts for each in part[name]]
               for name in ("probabilities", "top", "labels", "source")},
        }  # fmt: skip

    def _score(self, text: Any, ids: Any, asked: Any = None) -> dict[str, Any]:
        asked, source, target = _check_options(asked), self._encode(_check_text(text)), _check_ids(ids)
        self._check_lengths(source, target)
        altered, top = self._alter(asked), _whole(asked, "top", 1, 20) or 5
        return self._call(lambda: self._describe_piece(altered.model, source, target, top), altered)

    def _trace(self, text: Any, ids: Any = None, asked: Any = None) -> dict[str, Any]:
        trace = self._call(lambda: self._record(text, ids, _check_options(asked)))
        described, islands = pack_trace(trace, "live", set(SERVED_VIEWS))
        packed = {
            name: base64.b64encode(zlib.compress(content, 1)).decode("ascii") for name, content in islands.items()
        }
        return {"trace": described, "bytes": packed}

    def _lens(self, text: Any, ids: Any = None, asked: Any = None) -> dict[str, Any]:
        asked = _check_options(asked)
        top = _whole(asked, "top", 1, 20) or 5
        return self._call(lambda: logit_lens(self._inner, self._record(text, ids, asked), top=top)).to_json()

    def _contribute(self, text: Any, ids: Any = None, asked: Any = None) -> dict[str, Any]:
        asked = _check_options(asked)
        row, foil = _whole(asked, "row", 0, MOST_IDS), _whole(asked, "against", 0, 10**7)
        found = self._call(lambda: attribute_logits(self._inner, self._record(text, ids, asked), row=row, foil=foil))
        return found.to_json()

    def _occlude(self, text: Any, ids: Any = None, asked: Any = None) -> dict[str, Any]:
        asked = _check_options(asked)
        row = _whole(asked, "row", 0, MOST_IDS)
        return self._call(lambda: attribute(self._inner, self._record(text, ids, asked))).to_json(row)

    def _encode(self, text: Any, side: Any = "source", asked: Any = None) -> list[int]:
        return self._side(side).encode(_check_text(text))

    def _decode_ids(self, ids: Any, side: Any = "target", asked: Any = None) -> str:
        tokenizer = self._side(side)
        return tokenizer.decode(_check_below(_check_ids(ids), tokenizer.size))

    def _label(self, ids: Any, side: Any = "target", asked: Any = None) -> list[dict[str, Any]]:
        tokenizer = self._side(side)
        return self._label_ids(tokenizer, _check_below(_check_ids(ids), tokenizer.size))

    # The model

    def _call(self, function: Callable[[], R], altered: "_AlteredModel | None" = None) -> R:
        """Returns the result of a function that the thread of the queue calls, with the heads of a request off."""
        if altered is None or not altered.heads:
            return self._ticket.call(function)

        def run() -> R:  # the context is that of a thread
            with disable_heads(altered.model, *altered.heads):
                return function()

        return self._ticket.call(run)

    def _alter(self, asked: Mapping[str, Any]) -> "_AlteredModel":
        """Returns the model without the heads, layers and source positions that a request names."""
        heads = tuple(_parse_head(name) for name in _check_names(asked, "off"))
        layers, hidden = _check_names(asked, "layersOff"), _check_ids(asked.get("hidden") or [])
        model = self._model
        if not (heads or layers or hidden):
            return _AlteredModel(model)
        altered = copy_module_tree(model).eval()
        for name in layers:
            stack, _, number = name.partition(".")
            found = {"encoder": altered.encoder.layers, "decoder": altered.decoder.layers}.get(stack)
            if found is None or not number.isdecimal() or int(number[:6]) >= len(found):
                raise RequestError(400, f"Invalid request: the model has no layer `{format_value(name)}`", "layersOff")
            found[int(number)].register_forward_hook(_skip)
        if hidden:
            altered.encoder.register_forward_pre_hook(_hide(hidden, 1))
            altered.decoder.register_forward_pre_hook(_hide(hidden, 3))
        return _AlteredModel(altered, heads, is_altered=True)

    def _describe_piece(
        self, model: "Transformer", source: Sequence[int], target: Sequence[int], top: int
    ) -> dict[str, Any]:
        """Returns the probability of each token of a translation, its end included, and the most probable tokens."""
        decode, config, tokenizers = self._decode, model.config, self._inner.tokenizers
        src = add_special_ids(source, config, decode)
        written = [*decode.target_prefix, *target, config.eos_id]
        log_probs = _log_probs(model, src, [config.bos_id, *written[:-1]])[len(decode.target_prefix) :]  # (T, V)
        after = written[len(decode.target_prefix) :]
        values = log_probs.gather(1, torch.tensor(after, device=log_probs.device)[:, None])[:, 0].tolist()
        never = [i for i in list_suppressed_ids(config, decode.suppress_tokens) if i < log_probs.size(1)]
        allowed = log_probs.clone()
        allowed[:, never] = -torch.inf
        best = allowed.topk(min(top, log_probs.size(1) - len(never)))
        return {
            "ids": list(target), "sourceIds": list(source), "ended": True, "score": sum(values), "margin": None,
            "text": " ".join(tokenizers.target.decode(list(target)).splitlines()),
            "logProbs": values, "probabilities": [float(value) for value in torch.tensor(values).exp()],
            "top": [
                {"ids": ids, "tokens": tokenizers.target.tokens(ids), "probabilities": row}
                for ids, row in zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
            ],
            "source": self._label_ids(tokenizers.source, src), "labels": self._label_ids(tokenizers.target, after),
        }  # fmt: skip

    def _describe_alternative(self, found: Translation, penalty: float) -> dict[str, Any]:
        ids = [i for sentence in found.sentences for _, target in sentence.pieces for i in target]
        ranks = [
            sentence.score / (sum(len(target) + 1 for _, target in sentence.pieces) or 1) ** penalty
            for sentence in found.sentences
        ]
        return {
            "text": found.text, "score": found.score, "ids": ids, "tokens": found.tokens,
            "rank": sum(ranks) / (len(ranks) or 1),
        }  # fmt: skip

    def _record(self, text: Any, ids: Any, asked: Mapping[str, Any]) -> Trace:
        """Returns the trace of a text and its translation; of a given one, or of the best one."""
        for name in ("off", "layersOff", "hidden"):
            if asked.get(name):
                raise RequestError(400, f"Invalid request: {name} has no effect here", name)
        if isinstance(text, Mapping):
            src, tgt, out = (_check_ids(text.get(name) or []) for name in ("src", "tgt", "out"))
            self._check_pass(src, tgt, out)
            return self._mark_head(trace_pass(self._model, src, tgt, out, tokenizers=self._inner.tokenizers))
        source = self._encode(_check_text(text))
        if not source:
            raise RequestError(400, "Invalid request: the text is empty, so there is nothing to look at", "args")
        given = SearchOptions(**(self._read_search(asked) | {"n_best": 1}), **self._languages)
        decode = self._inner.configure(given)
        target = None if ids is None else _check_ids(ids)
        self._check_lengths(source, target or [])
        if target is None:
            return self._mark_head(trace_search(self._model, self._inner.tokenizers, decode, source))
        return self._mark_head(trace_translation(self._model, self._inner.tokenizers, decode, source, target))

    def _mark_head(self, trace: Trace) -> Trace:
        head = self._inner.aligning_head
        return trace if head is None else replace(trace, model={**trace.model, **head.to_trace_facts()})

    def _check_pass(self, src: Sequence[int], tgt: Sequence[int], out: Sequence[int]) -> None:
        config = self._model.config
        if not src or not tgt or len(tgt) != len(out) or max(len(src), len(tgt)) > config.max_positions:
            raise RequestError(400, "Invalid request: a pass has src, tgt and out, the last two of one length", "args")
        _check_below(src, config.src_vocab_size)
        _check_below([*tgt, *out], config.tgt_vocab_size)

    def _check_lengths(self, source: Sequence[int], target: Sequence[int]) -> None:
        config = self._model.config
        _check_below(target, config.tgt_vocab_size)
        self._inner.segmenter.check_lengths([source], [target], self._decode)

    def _check_prefix(self, ids: Sequence[int]) -> None:
        config = self._model.config
        _check_below(ids, config.tgt_vocab_size)
        if wrong := {*list_suppressed_ids(config, self._decode.suppress_tokens), config.eos_id}.intersection(ids):
            raise RequestError(400, f"Invalid request: a text cannot begin with the id {min(wrong)}", "prefix")

    def _read_search(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the options of a search; as the page does, a beam is at least as wide as the n-best list."""
        found = {
            "beam_size": _whole(asked, "beamSize", 1, MOST_BEAM),
            "n_best": _whole(asked, "nBest", 1, MOST_BEAM),
            "length_penalty": _number(asked, "lengthPenalty", -10.0, 10.0),
        }
        if found["n_best"] is not None and found["beam_size"] is None:
            found["beam_size"] = max(found["n_best"], self._decode.beam_size)
        return {name: value for name, value in found.items() if value is not None}

    def _side(self, side: Any) -> TokenizerBase:
        if side not in ("source", "target"):
            raise RequestError(400, "Invalid request: the side must be source or target", "args")
        found: TokenizerBase = getattr(self._inner.tokenizers, side)
        return found

    def _label_ids(self, tokenizer: TokenizerBase, ids: Sequence[int]) -> list[dict[str, Any]]:
        tokens = make_tokens(tokenizer, ids, self._model.config.special_ids)
        return [
            {
                **token.to_json(), "word": token.word, "special": token.special, "segment": 0, "adds": token.adds,
                "continues": place > 0 and token.word is not None and token.word == tokens[place - 1].word,
            }
            for place, token in enumerate(tokens)
        ]  # fmt: skip


@dataclass(frozen=True)
class _AlteredModel:
    model: "Transformer"
    heads: tuple[Head, ...] = ()
    is_altered: bool = False


class _PrefixedEngine(EngineWrapper):
    """An engine whose outputs begin with given ids, a list for each piece of the line."""

    def __init__(self, inner: Engine, prefixes: Sequence[Sequence[int]]) -> None:
        super().__init__(inner)
        self.prefixes: tuple[tuple[int, ...], ...] = tuple(map(tuple, prefixes))

    def search(
        self,
        sources: list[list[int]],
        config: "DecodeConfig",
        by: "SearchFunction | None",
        constraints: Constraints | None,
    ) -> "Iterable[tuple[int, list[Hypothesis]]]":
        self.require("constraints")
        prefixes = (*self.prefixes, *((),) * len(sources))[: len(sources)]
        return super().search(sources, config, by, replace(constraints or Constraints(), prefixes=prefixes))


@torch.inference_mode()
def _log_probs(model: "Transformer", src: Sequence[int], read: Sequence[int]) -> Tensor:
    """Returns the log-probabilities of what follows each id of a target that is read, (T, V)."""
    device = next(model.parameters()).device
    logits = model(torch.tensor([list(src)], device=device), torch.tensor([list(read)], device=device))
    return logits[0].float().log_softmax(dim=-1)  # (T, V)


def _skip(module: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
    """Replaces the output of a layer by its input."""
    passed: Tensor = given[0]
    return passed


def _hide(places: Sequence[int], argument: int) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    """Returns a hook that removes source positions from the mask that is an argument of a stack."""

    def hide(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        source = given[0] if argument == 1 else given[1]
        mask = given[argument]
        if source is None:  # a step: the memory is in the cache, and its mask is broadcastable to (B, H, T, S)
            S = mask.size(-1)
        else:
            S = source.size(1)
        visible = torch.ones(S, dtype=torch.bool, device=given[0].device)
        visible[[place for place in places if place < S]] = False
        seen = visible[None, None, None] if mask is None else mask & visible  # (B, 1, 1, S)
        return (*given[:argument], seen, *given[argument + 1 :])

    return hide


# Arguments of requests


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise RequestError(400, "Invalid request: args begin with a text", "args")
    return clean_text(value)


def _check_options(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RequestError(400, "Invalid request: the last of args must be an object", "args")
    return value


def _check_ids(value: Any) -> list[int]:
    is_list = isinstance(value, list) and len(value) <= MOST_IDS
    if not is_list or not all(type(each) is int and 0 <= each < 2**31 for each in value):
        raise RequestError(400, f"Invalid request: ids must be a list of at most {MOST_IDS:,} whole numbers", "args")
    return list(value)


def _check_below(ids: Sequence[int], size: int) -> list[int]:
    """Returns ids. Raises RequestError for one that is not below `size`."""
    if wrong := [i for i in ids if i >= size]:
        raise RequestError(400, f"Invalid request: the id {wrong[0]} does not exist; there are {size:,} ids", "args")
    return list(ids)


def _check_prefixes(value: Any) -> list[list[int]]:
    """Returns the forced beginning of each piece: from a list of ids for the first, or a list of lists."""
    if not value:
        return []
    nested = value if isinstance(value, list) and isinstance(value[0], list) else [value]
    if len(nested) > MOST_IDS:
        raise RequestError(400, "Invalid request: prefix has too many lists", "prefix")
    return [_check_ids(each) for each in nested]


def _check_names(asked: Mapping[str, Any], name: str) -> list[str]:
    value = asked.get(name) or []
    is_list = isinstance(value, list) and len(value) <= MOST_IDS
    if not is_list or not all(isinstance(each, str) for each in value):
        raise RequestError(400, f"Invalid request: {name} must be a list of strings", name)
    return list(value)


def _parse_head(name: str) -> Head:
    """Returns the head of a name like "cross.1.3": attention, layer, head."""
    attention, layer, head = ([""] * 2 + name.rsplit(".", 2))[-3:]
    if not (layer.isdecimal() and head.isdecimal() and len(layer + head) < 12):
        raise RequestError(400, f"Invalid request: the model has no head `{format_value(name)}`", "off")
    return Head(attention, int(layer), int(head))


def _whole(asked: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    value = asked.get(name)
    if value is None:
        return None
    if type(value) is not int or not least <= value <= most:
        raise RequestError(
            400, f"Invalid request: {name} ({format_value(value)}) must be a whole number from {least} to {most}", name
        )
    return value


def _number(asked: Mapping[str, Any], name: str, least: float, most: float) -> float | None:
    value = asked.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise RequestError(
            400, f"Invalid request: {name} ({format_value(value)}) must be a number from {least:g} to {most:g}", name
        )
    return float(value)
