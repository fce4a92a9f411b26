"""Judges greedy and beam search over models whose next-word logits are a function of the prefix.

The models answer in every usual form: as a function of a prefix, as `model(src, tgt)`, and as `model.encode`,
`model.decode`, `model.generator`.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.judge.calling import CallError, Names, bind, find_role, list_parameters, run
from pellucid.judge.conventions import Conventions
from pellucid.judge.failures import Failures
from pellucid.judge.findings import Finding
from pellucid.judge.properties import Violation, choose_way
from pellucid.judge.variants import Axes, Choices, list_variants

V, PAD, RARE = 8, 0, 7
"""The words of the models; the last one is the least likely everywhere."""
LONGEST, BEAM = 8, 3
SEEDS = (165, 130, 99, 121, 1, 3, 18)
"""Models whose best translation all right searches find, and in which the mistakes differ."""
CALLS = 600
"""The most steps of one search; more are a search without an end."""

GREEDY_AXES: Axes = {
    "choice": {"least": "greedy-least-likely", "second": "greedy-second-best"},
    "place": {"first": "greedy-first-position", "before": "greedy-position-before"},
    "prefix": {"last": "greedy-forgets-prefix", "no start": "greedy-without-start"},
    "end": {"ignored": "greedy-ignores-end", "dropped": "greedy-stops-before-last"},
}
BEAM_AXES: Axes = {
    "score": {"last": "beam-last-score", "probabilities": "beam-sums-probabilities", "logits": "beam-raw-logits"},
    "order": {"kept": "beam-not-reordered", "worst": "beam-keeps-worst"},
    "expand": {"one": "beam-one-each"},
    "end": {"continued": "beam-ended-continue", "forgotten": "beam-forgets-ended"},
    "result": {"last": "beam-returns-last"},
}
STYLES = "stay", "leave", "shrink"
"""An ended hypothesis stays in the beam, leaves its place to others, or leaves and the beam gets smaller."""
NORMS = ("none", "length", "words", "gnmt")
"""Divisors of a score: none, the length with the end token, without it, and that of Wu et al. 2016."""

NAMES: Names = {
    "model": ("model", "net", "transformer", "step", "stepfn", "nextlogits", "logits", "f", "fn", "predict",
              "decoder", "steps",
              "logprobs", "nextlogprobs", "score", "scores", "nexttoken", "next", "decodestep", "lm", "stepfunction",
              "logitsfn"),
    "src": ("src", "source", "srcids", "input", "inputids", "x", "memory", "inputs", "encinput", "prompt", "idx",
            "ids"),
    "src_mask": ("srcmask", "mask", "memorymask"),
    "max_length": ("maxlen", "maxlength", "maxsteps", "maxnewtokens", "steps", "longest", "length", "limit",
                   "maxtgtlen", "n"),
    "bos": ("bos", "bosid", "startsymbol", "sos", "sosid", "start", "startid", "starttoken", "bosidx",
            "startsymbolid", "sosidx",
            "bostoken", "bostokenid", "begin"),
    "eos": ("eos", "eosid", "endsymbol", "end", "endid", "endtoken", "eosidx", "eostoken", "eostokenid", "stop",
            "endsymbolid"),
    "pad": ("pad", "padid", "padidx"),
    "beam": ("beam", "beamsize", "beamwidth", "k", "numbeams", "width", "b", "nbeams", "beams"),
    "penalty": ("lengthpenalty", "alpha", "penalty", "lenpenalty", "lp"),
    "vocabulary": ("vocabsize", "v", "vocab"),
    "device": ("device",),
}  # fmt: skip


class TooManySteps(Exception):
    """Is raised by the judge's model if a search asks for more steps than any search needs."""


@dataclass(frozen=True)
class BoundaryIds:
    """The ids of start and end, as the learner's code knows them."""

    bos: int
    eos: int


class TableModel(nn.Module):
    """A model whose logits are a function of the whole prefix: (B, T) -> (B, T, V).

    Args:
        form: the answer to ids: "rows" for all positions, "last" for the last one alone, (B, V).
        ends: False for a model in which the end token is never likely.
    """

    def __init__(self, seed: int, words: BoundaryIds, form: str = "rows", ends: bool = True) -> None:
        super().__init__()
        self.words: BoundaryIds = words
        self.form: str = form
        self.ends: bool = ends
        self.calls: int = 0
        self.asked: set[tuple[int, ...]] = set()
        self._seed = seed
        self._known: dict[tuple[int, ...], Tensor] = {}
        self._ranked: dict[tuple[int | str, ...], list[tuple[float, int]]] = {}

    def logits(self, prefix: Sequence[int]) -> Tensor:
        """Returns the logits of the word after `prefix`, (V,), a function of all its ids."""
        key = tuple(prefix)
        if key not in self._known:
            number = self._seed
            for id in key:
                number = (number * 31 + id + 7) % 1_000_003
            generator = torch.Generator().manual_seed(number)
            values = torch.randn(V, generator=generator, dtype=torch.float64) * 1.5
            values[PAD], values[self.words.bos], values[RARE] = -6.0, -7.0, -9.0
            # An end is unlikely at first and likely later.
            values[self.words.eos] += 2.0 * len(key) - 7.0 if self.ends else -50.0
            self._known[key] = values + 2.0 * math.sin(number)
        return self._known[key]

    def rank(self, prefix: Sequence[int], score: str) -> list[tuple[float, int]]:
        """Returns the words after `prefix`, the best first, with scores: "", "probabilities" or "logits"."""
        key: tuple[int | str, ...] = (*prefix, score)
        if key not in self._ranked:
            logits = self.logits(prefix)
            values = {"probabilities": logits.softmax(-1), "logits": logits}.get(score, logits.log_softmax(-1))
            self._ranked[key] = sorted(((value, id) for id, value in enumerate(values.tolist())), reverse=True)
        return self._ranked[key]

    def forward(self, *given: Any, **named: Any) -> Tensor:
        """Returns the logits after the target's ids, which are found among the arguments."""
        self.calls += 1
        if self.calls > CALLS:
            raise TooManySteps
        ids = [each for each in (*given, *named.values()) if _is_ids(each)]
        starting = [each for each in ids if _first(each) == self.words.bos]
        tgt = named["tgt"] if _is_ids(named.get("tgt")) else (starting or ids or [[self.words.bos]])[-1]
        rows = tgt.tolist() if isinstance(tgt, Tensor) else [*tgt]
        if not rows or not isinstance(rows[0], list | tuple):
            self.asked.add(tuple(rows))
            return self.logits(rows)
        self.asked.update(map(tuple, rows))
        if self.form == "last":
            return torch.stack([self.logits(row) for row in rows])
        return torch.stack([torch.stack([self.logits(row[: end + 1]) for end in range(len(row))]) for row in rows])

    def encode(self, *given: Any, **named: Any) -> Tensor:
        """Returns a memory without meaning, (1, 3, V)."""
        return torch.zeros(1, 3, V)

    def decode(self, *given: Any, **named: Any) -> Tensor:
        """Returns the logits after the target's ids, which are found among the arguments."""
        output: Tensor = self(*given, **named)
        return output

    def generator(self, x: Tensor) -> Tensor:
        """Returns log-probabilities of logits."""
        return x.log_softmax(-1)

    def project(self, x: Tensor) -> Tensor:
        """Returns logits as they are."""
        return x


def _is_ids(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.dtype in (torch.long, torch.int) and value.dim() in (1, 2) and value.numel() > 0
    if isinstance(value, list | tuple):
        return len(value) > 0 and all(isinstance(each, int) or _is_ids(each) for each in value)
    return False


def _first(ids: Any) -> int:
    while not isinstance(ids, int):
        ids = ids.tolist() if isinstance(ids, Tensor) else ids[0]
    return ids


def search_greedily(model: TableModel, choices: Choices, longest: int = LONGEST) -> list[int]:
    """Returns the ids of a greedy search after the start token, its end included, with wrong choices."""
    ids = [model.words.bos]
    place, prefix = choices.get("place", ""), choices.get("prefix", "")
    for _ in range(longest):
        seen = ids[-1:] if prefix == "last" else [PAD, *ids[1:]] if prefix == "no start" else ids
        seen = seen[: {"first": 1, "before": max(1, len(seen) - 1)}.get(place, len(seen))]
        ranked = [id for _, id in model.rank(seen, "")]
        id = {"least": ranked[-1], "second": ranked[1]}.get(choices.get("choice", ""), ranked[0])
        if id == model.words.eos and choices.get("end") == "dropped":
            return ids[1:-1]
        ids.append(id)
        if id == model.words.eos and choices.get("end") != "ignored":
            break
    return ids[1:]


def search_beam(
    model: TableModel, choices: Choices, style: str = "stay", norm: str = "none", longest: int = LONGEST
) -> list[int]:
    """Returns the ids of a beam search after the start token, its end included, with wrong choices.

    Args:
        style: one of STYLES.
        norm: one of NORMS.
        longest: the most tokens after the start token.
    """
    score, order, end = choices.get("score", ""), choices.get("order", ""), choices.get("end", "")
    descending = order != "worst"
    beams: list[tuple[float, list[int]]] = [(0.0, [model.words.bos])]
    ended: list[tuple[float, list[int]]] = []
    for _ in range(longest):
        found: list[tuple[float, list[int]]] = []
        for total, ids in beams:
            if ids[-1] == model.words.eos and end != "continued":
                found.append((total, ids))
                continue
            ranked = model.rank(ids, score)[:: 1 if descending else -1]
            ranked = ranked[:1] if choices.get("expand") == "one" and len(beams) > 1 else ranked
            found += [(value + (0.0 if score == "last" else total), [*ids, id]) for value, id in ranked]
        found.sort(key=lambda each: each[0], reverse=descending)
        if order == "kept":  # the words of the best hypotheses after the prefixes in their old order
            old = [ids for _, ids in beams]
            found = [
                (total, [*old[min(number, len(old) - 1)], ids[-1]]) if len(ids) > 1 else (total, ids)
                for number, (total, ids) in enumerate(found[:BEAM])
            ]
        size = BEAM - len(ended) if style == "shrink" else BEAM
        beams = []
        for total, ids in found:
            if len(beams) >= size:
                break
            is_end = ids[-1] == model.words.eos and end != "continued"
            if is_end and end == "forgotten":
                continue
            if is_end and style != "stay":
                ended.append((total, ids))
                size -= style == "shrink"
                continue
            beams.append((total, ids))
        is_done = all(ids[-1] == model.words.eos for _, ids in beams) and end != "continued"
        if not beams or (style == "stay" and is_done) or (style == "leave" and len(ended) >= BEAM):
            break
    complete = ended + [each for each in beams if each[1][-1] == model.words.eos]
    pool = beams if end == "continued" or not complete else complete
    ranked_pool = sorted(pool, key=lambda each: each[0] / _divisor(len(each[1]) - 1, norm), reverse=descending)
    return ranked_pool[-1 if choices.get("result") == "last" else 0][1][1:] if ranked_pool else []


def _divisor(length: int, norm: str) -> float:
    return {"none": 1.0, "length": length, "words": max(1, length - 1), "gnmt": (5 + length) / 6}[norm]


def judge_greedy(given: Any, conventions: Conventions) -> Finding:
    """Judges a function of greedy search, as `greedy(step, bos, eos, max_length)` or `greedy(model, src, ...)`.

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    return _judge_properties(_judge("greedy", given, [("greedy", "", "")], GREEDY_AXES), given)


def judge_beam(given: Any, conventions: Conventions) -> Finding:
    """Judges a function of beam search, as `beam(step, bos, eos, beam_size, max_length)` or `beam(model, src, ...)`.

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    norms = NORMS[1:] if _takes(given, "penalty") else NORMS
    finding = _judge("beam", given, [("beam", *each) for each in itertools.product(STYLES, norms)], BEAM_AXES)
    if finding.is_unknown and _takes(given, "penalty"):
        without = _judge("beam", given, [("beam", style, "none") for style in STYLES], {})
        if without.right:
            return Finding("beam", False, ("beam-length-ignored",))
    return _judge_properties(finding, given)


def _judge(name: str, given: Any, searches: Sequence[tuple[str, str, str]], axes: Axes) -> Finding:
    """Compares the results for all models with those of every variant of every right style."""
    failures = Failures(name)
    words = _find_words(given)
    results: list[list[list[int]]] = []
    for form in ("rows", "last"):
        try:
            results.append([_search(given, TableModel(seed, words, form)) for seed in SEEDS])
        except TooManySteps:
            return _judge_properties(Finding(name, False, (f"{name}-never-ends",)), given)
        except CallError as error:
            failures.fail(error)
    takes_end = _takes(given, "eos")
    for choices in list_variants(axes):
        # A greatest length may count the start token. It cuts only what a mistake has made long, and pairs take long.
        for search, longest in itertools.product(searches, (LONGEST, LONGEST - 1)[: 1 + (len(choices) == 1)]):
            variant = search_all(words, *search, tuple(choices.items()), longest)
            if any(variant) and any(is_same_search(found, variant, words, takes_end) for found in results):
                ids = tuple(axes[axis][value] for axis, value in choices.items())
                return Finding(name, not ids, ids)
    if results:
        right = search_all(words, *searches[0])
        failures.note("; ".join(f"{a} != {b}" for a, b in zip(results[0], right, strict=True) if a != b))
    return failures.make_finding()


def _judge_properties(finding: Finding, given: Any) -> Finding:
    """Returns the finding by the properties of a search whose variant is unknown, or that asks for too many steps.

    A search that is right on all models, which end, must also end on one that does not.
    """
    words = _find_words(given)
    if finding.right:
        unlimited = [_find_length(given, words, form) for form in ("rows", "last")]
        if all(unlimited):
            return Finding(finding.name, False, ("property-search-length",), (unlimited[0],))
    if not finding.is_unknown and finding.mistakes != (f"{finding.name}-never-ends",):
        return finding
    ways = [partial(_find_violations, finding.name, given, words, form) for form in ("rows", "last")]
    return choose_way(finding, ways)


def _find_violations(name: str, given: Any, words: BoundaryIds, form: str) -> list[Violation] | None:
    """Returns the properties that a search lacks, each with the ids that differ.

    None for code that this form of the model does not suit, none for one whose results are not known to be ids, or
    whose prefixes do not begin with the start token: they may lie in another layout.
    """
    models = [TableModel(seed, words, form) for seed in SEEDS]
    try:
        results = [_search(given, model) for model in models]
    except TooManySteps:
        wide = _find_width(models) if _takes(given, "beam") else ""
        return [("property-beam-size", wide)] if wide else []
    except CallError:
        return None
    asked = set().union(*(model.asked for model in models))
    if not asked or not all(results) or any(prefix[0] != words.bos for prefix in asked):
        return []
    found: list[Violation] = []
    again = [_search(given, TableModel(seed, words, form)) for seed in SEEDS]
    if different := [f"{two} != {one}" for one, two in zip(results, again, strict=True) if one != two]:
        return [("property-repeatable", different[0])]
    takes_end = _takes(given, "eos")
    if takes_end:
        behind = [ids for ids in results if words.eos in ids and set(ids[ids.index(words.eos) :]) - {words.eos, PAD}]
        found += [("property-search-end", str(ids)) for ids in behind[:1]]
    if name == "beam" and _takes(given, "beam") and (wide := _find_width(models)):
        found.append(("property-beam-size", wide))
    elif long := _find_length(given, words, form):
        found.append(("property-search-length", long))
    for ids, model in zip(results, models, strict=True):
        ids = _trim(ids, words, takes_end=False)
        if name == "greedy":
            place = _find_unlikely(ids, model, takes_end)
        else:
            place = _find_worse(ids, model) if takes_end else ""
        if place:
            return [*found, (f"property-{name}-choice", place)]
    return found


def _find_width(models: Sequence[TableModel]) -> str:
    """Returns the greatest number of prefixes of one length that a search kept, where it is more than BEAM."""
    counts = (Counter(map(len, model.asked)).values() for model in models)
    most = max((count for each in counts for count in each), default=0)
    return f"{most} > {BEAM}" if most > BEAM else ""


def _find_length(given: Any, words: BoundaryIds, form: str) -> str:
    """Returns the length of a search in a model that never ends, where it exceeds the greatest one; empty elsewhere."""
    if not _takes(given, "max_length"):
        return ""
    try:
        longest = len(_search(given, TableModel(SEEDS[0], words, form, ends=False)))
    except TooManySteps:
        longest = CALLS
    except CallError:
        return ""
    return f"{longest} > {LONGEST}" if longest > LONGEST + 2 else ""  # the start and the end may count, or not


def _find_unlikely(ids: Sequence[int], model: TableModel, takes_end: bool) -> str:
    """Returns the first place where ids, without start and end, leave the most likely ones; empty if they do not.

    Code that takes no end token may know another one, and end sooner.
    """
    expected = [id for id in search_greedily(model, {}) if id != model.words.eos]
    for place, (id, likely) in enumerate(itertools.zip_longest(ids, expected)):
        if id != likely and not (id is None and (not takes_end or place >= LONGEST - 2)):
            ended = model.words.eos
            return f"[{place}]: {ended if id is None else id} != {ended if likely is None else likely}"
    return ""


def _find_worse(ids: Sequence[int], model: TableModel) -> str:
    """Returns the score of ids where it is below that of a greedy search by each of NORMS; empty elsewhere."""
    greedy = [id for id in search_greedily(model, {}) if id != model.words.eos]
    if max(len(ids), len(greedy)) >= LONGEST - 1 or not all(0 <= id < V for id in ids):
        return ""  # the greatest length may have cut one of them
    (own, length), (theirs, other) = (_score(each, model) for each in (ids, greedy))
    is_worse = all(own / _divisor(length, norm) < theirs / _divisor(other, norm) - 1e-6 for norm in NORMS)
    return f"{own:.4g} < {theirs:.4g}" if is_worse else ""


def _score(ids: Sequence[int], model: TableModel) -> tuple[float, int]:
    """Returns the sum of the log-probabilities of ids with their end, and their number."""
    whole = [model.words.bos, *ids, model.words.eos]
    logs = [model.logits(whole[:end]).log_softmax(-1)[whole[end]].item() for end in range(1, len(whole))]
    return sum(logs), len(logs)


@cache
def make_models(words: BoundaryIds) -> list[TableModel]:
    """Returns the models of the reference, which keep the logits that they have computed."""
    return [TableModel(seed, words) for seed in SEEDS]


@cache
def search_all(
    words: BoundaryIds, kind: str, style: str, norm: str, choices: tuple[tuple[str, str], ...] = (),
    longest: int = LONGEST,
) -> list[list[int]]:  # fmt: skip
    """Returns the ids that the reference finds in each of the models; they are the same in each check."""
    if kind == "greedy":
        return [search_greedily(model, dict(choices), longest) for model in make_models(words)]
    return [search_beam(model, dict(choices), style, norm, longest) for model in make_models(words)]


def is_same_search(found: list[list[int]], variant: list[list[int]], words: BoundaryIds, takes_end: bool) -> bool:
    """Returns True if the ids are the same but for a start or an end token that is not part of the result."""
    return all(_trim(a, words, takes_end) == _trim(b, words, takes_end) for a, b in zip(found, variant, strict=True))


def _trim(ids: list[int], words: BoundaryIds, takes_end: bool) -> list[int]:
    if not takes_end and words.eos in ids:  # a search that does not know the end goes on until the greatest length
        ids = ids[: ids.index(words.eos)]
    while ids and ids[0] == words.bos:
        ids = ids[1:]
    while ids and ids[-1] == PAD:
        ids = ids[:-1]
    return ids[:-1] if ids and ids[-1] == words.eos else ids


def _search(given: Any, model: TableModel) -> list[int]:
    src = torch.tensor([[4, 3, 4]])
    values: dict[str, Any] = {
        "model": model, "src": src, "src_mask": torch.ones(1, 1, 3, dtype=torch.bool), "max_length": LONGEST,
        "bos": model.words.bos, "eos": model.words.eos, "pad": PAD, "beam": BEAM, "penalty": 1.0, "vocabulary": V,
        "device": "cpu",
    }  # fmt: skip
    args, kwargs = bind(given, values, NAMES, ("model", "bos", "eos", "max_length"))
    try:
        with torch.no_grad():
            output = run(given, *args, **kwargs)
    except CallError as error:
        if isinstance(error.__cause__, TooManySteps):
            raise TooManySteps from None
        raise
    return next(_list_ids(output), [])


def _list_ids(output: Any) -> Iterator[list[int]]:
    """Yields the lists of ids in an output: of a tensor its rows, of hypotheses with scores their ids."""
    if hasattr(output, "tolist"):
        output = output.tolist()
    if isinstance(output, list | tuple) and output and all(isinstance(each, int) for each in output):
        yield [*output]
    elif (
        isinstance(output, list | tuple)
        and output
        and all(isinstance(each, Tensor) and each.numel() == 1 for each in output)
    ):
        yield [int(each.item()) for each in output]
    elif isinstance(output, list | tuple):
        for each in output:
            yield from _list_ids(each)
    elif isinstance(output, dict):
        yield from _list_ids([*output.values()])


def _takes(function: Any, role: str) -> bool:
    return any(find_role(each.name, NAMES) == role for each in list_parameters(function) or [])


def _find_words(given: Any) -> BoundaryIds:
    """Returns the ids of start and end: the judge's where they are parameters, else those of the code's constants."""
    known = {"bos": 5, "eos": 6}
    usual = {"bos": 1, "eos": 2}
    for role in known:
        if not _takes(given, role):
            constants = [
                value for name, value in getattr(given, "__globals__", {}).items()
                if isinstance(value, int) and find_role(name, NAMES) == role and 0 <= value < V
            ]  # fmt: skip
            known[role] = constants[0] if constants else usual[role]
    return BoundaryIds(**known)
