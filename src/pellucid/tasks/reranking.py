"""Ranks the n best of a search again, by a model of the other direction and a language model (noisy channel)."""

import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pellucid.config import TASKS, DecodeConfig
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.errors import CheckpointError, ConfigError, DataError, argument, shown
from pellucid.evaluation.reranking import Factors, Fit, Floats, fit_factors
from pellucid.files.reading import MOST_SETTINGS_BYTES, read_text
from pellucid.files.writing import write_json
from pellucid.tasks.languages import check_languages
from pellucid.tasks.task import Scored, class_of, model_folder

TRANSLATE, GENERATE = TASKS["translate"], TASKS["generate"]
VERSION = 1
LANGUAGES = ("source_language", "target_language")
"""The names by which a file says between which languages a model of several translates."""
NEAR_TIE = 1e-4
"""A lead of ranks that rounding could turn: such lists are scored again, alone."""
MOST_N_BEST = 1000
"""The most hypotheses of a line."""


class Reverse(Protocol):
    """A Translator, as far as it is needed here."""

    def scored(self, sources: Sequence[str], targets: Sequence[str]) -> list[Scored]: ...


class Fluency(Protocol):
    """A LanguageModel, as far as it is needed here."""

    def token_scores(self, texts: Sequence[str]) -> list[list[float]]: ...


@dataclass(frozen=True)
class Candidates:
    """The n best of one text that was translated by itself."""

    source: str
    ids: list[int]
    """The ids that the translator read."""
    hypotheses: list[Hypothesis]
    texts: list[str]

    @classmethod
    def of(cls, source: str, ids: list[int], target: Any, hypotheses: Sequence[Hypothesis]) -> "Candidates":
        """Returns the first hypothesis of each text, as one line, that the tokenizer `target` makes of them."""
        of_text: dict[str, Hypothesis] = {}
        for hypothesis in hypotheses:
            of_text.setdefault(" ".join(target.decode(hypothesis.ids).splitlines()), hypothesis)
        return cls(source, ids, list(of_text.values()), list(of_text))


class Reranker:
    """Chooses among the n best by more than the model that wrote them.

    reranker = pellucid.Reranker(reverse=Translator.load("en-de"), lm=LanguageModel.load("lm-en"))
    reranker.fit(translator, sources, references)
    translator.translate(lines, rerank=reranker)
    """

    def __init__(
        self,
        reverse: Reverse | None = None,
        lm: Fluency | None = None,
        factors: Factors | None = None,
        n_best: int = 10,
    ) -> None:
        """Takes the models, either of which may be missing.

        Args:
            reverse: a translator from the target language to the source's, with a tokenizer of its own.
            lm: a language model of the target language, with a tokenizer of its own.
            factors: what their log-probabilities count; None: nothing, until `fit` finds them.
            n_best: the hypotheses among which it chooses.

        Raises ConfigError where neither model is given, one is for something else, or for another number.
        """
        if reverse is None and lm is None:
            raise ConfigError("neither `reverse=` nor `lm=` is given: there is nothing to rank by", "give one of them")
        for name, given, wanted in (("reverse", reverse, TRANSLATE), ("lm", lm, GENERATE)):
            if given is not None and not isinstance(given, class_of(wanted)):
                raise ConfigError(f"`{name}=` is a {type(given).__name__}, and must be a {wanted.class_name}")
        if isinstance(n_best, bool) or not isinstance(n_best, int) or not 2 <= n_best <= MOST_N_BEST:
            raise ConfigError(
                f"{argument('n_best', n_best)} must be from 2 to {MOST_N_BEST:,} to choose among", "10 to 50 are usual"
            )
        self.reverse = reverse
        self.lm = lm
        self.factors: Factors = factors or Factors()
        self.n_best = n_best

    def best_first(
        self, translator: Any, candidates: Sequence[Candidates], decode: DecodeConfig
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each list in their new order; of equal ones the search's own first."""
        found = []
        for one, features in zip(candidates, self.features(candidates), strict=True):
            totals = self.factors.totals(features)
            ordered = np.sort(totals)
            if len(totals) > 1 and len(candidates) > 1 and (np.diff(ordered) < NEAR_TIE).any():
                totals = self._alone(translator, one, decode)
            order = np.argsort(-totals, kind="stable")
            found.append([one.hypotheses[i] for i in order])
        return found

    def _alone(self, translator: Any, one: Candidates, decode: DecodeConfig) -> Floats:
        """Returns the totals of one list by what depends on nothing beside it."""
        written = [h.ids for h in one.hypotheses]
        scores = translator._scores([one.ids] * len(written), written, decode)
        (features,) = self.features([one])
        features[:, 0] = [score / h.length for score, h in zip(scores, one.hypotheses, strict=True)]
        return self.factors.totals(features)

    def features(self, candidates: Sequence[Candidates]) -> list[Floats]:
        """Returns of each list (n, 4), as FEATURES names the columns; 0 where there is no such model.

        What a model cannot score, since it is too long for it, is as bad as the worst of its list.
        """
        texts = [text for one in candidates for text in one.texts]
        sources = [one.source for one in candidates for _ in one.texts]
        nothing = [0.0] * len(texts)
        reverse = lm = nothing
        if self.reverse is not None:
            reverse = [scored.score / scored.tokens for scored in self.reverse.scored(texts, sources)]
        if self.lm is not None:
            lm = [sum(values) / max(1, len(values)) for values in self.lm.token_scores(texts)]
        found, place = [], 0
        for one in candidates:
            count = len(one.texts)
            rows = np.array(
                [
                    [h.score / h.length for h in one.hypotheses],
                    reverse[place : place + count],
                    lm[place : place + count],
                    [h.length / (len(one.ids) + 1) for h in one.hypotheses],
                ]
            )  # (4, n)
            worst = np.nanmin(np.where(np.isnan(rows).all(axis=1, keepdims=True), 0.0, rows), axis=1, keepdims=True)
            found.append(np.where(np.isnan(rows), worst, rows).T)
            place += count
        return found

    def fit(self, translator: Any, sources: Sequence[str], references: Sequence[str]) -> Fit:
        """Finds the factors with the highest BLEU on held-out text, keeps and returns them.

        Raises DataError where the lists differ in length or hold too little.
        """
        if len(sources) != len(references):
            raise DataError(f"{len(sources)} sources and {len(references)} references: each source needs one")
        pairs = [pair for pair in zip(sources, references, strict=True) if all(text.strip() for text in pair)]
        config = translator._config(None, n_best=self.n_best, beam_size=max(self.n_best, translator.decode.beam_size))
        lines = translator._segments([source for source, _ in pairs], config)
        candidates, kept = [], []
        for line, (_, reference) in zip(lines, pairs, strict=True):
            # Of a line of several sentences there is no list of its own, nor of one without tokens.
            if line and len(line) == len(line[0].pieces) == 1:
                candidates.append((line[0].source, line[0].pieces[0]))
                kept.append(reference)
        found = translator._searched([ids for _, ids in candidates], config, None, None)
        target = translator.tokenizers.target
        lists = [Candidates.of(*read, target, hypotheses) for read, hypotheses in zip(candidates, found, strict=True)]
        parts = [*(["reverse"] if self.reverse else []), *(["lm"] if self.lm else []), "length"]
        fit = fit_factors(self.features(lists), [one.texts for one in lists], kept, parts)
        self.factors = fit.factors
        return fit


def open_for(
    folder: str, device: Any, dtype: str | None, source_language: str | None, target_language: str | None
) -> Any:
    """Returns the translator of a folder; one of several languages is to translate between these two.

    Raises what `Translator.load` raises, and ConfigError where it is not told enough.
    """
    translators: Any = class_of(TRANSLATE)
    opened = translators.load(folder, device, dtype)
    if not opened.languages:
        return opened
    opened = translators.load(folder, device, dtype, source_language, target_language)
    check_languages(opened.decode, opened.config, opened.tokenizers, opened.languages)
    return opened


def save_reranking(
    path: Path,
    reranker: Reranker,
    reverse: str | None,
    lm: str | None,
    fit: Fit,
    languages: tuple[str | None, str | None] = (None, None),
) -> None:
    """Writes what `load_reranker` opens: where the models are, which weights they have, the factors, what they gave.

    `languages` are those that the model of the other direction reads and writes; one without codes has no use for them.
    """
    models = {"reverse": (reverse, reranker.reverse), "lm": (lm, reranker.lm)}
    table: dict[str, Any] = {"rerank": VERSION, "n_best": reranker.n_best}
    for name, (folder, model) in models.items():
        if model is not None and folder is not None:
            table[name] = {"model": _beside(folder, path), "weights": _digest(model), "dtype": _dtype(model)}
    if any(languages) and "reverse" in table:
        table["reverse"] |= dict(zip(LANGUAGES, languages, strict=True))
    table["factors"] = asdict(fit.factors)
    table["fit"] = {name: value for name, value in fit.to_json().items() if name not in table["factors"]}
    write_json(path, table)


def load_reranker(path: str | Path, device: Any = "auto") -> Reranker:
    """Opens the models and the factors of a file that `save_reranking` wrote.

    Raises DataError where there is no file, CheckpointError for one of something else, and for models that are not
    there or have other weights.
    """
    file = Path(path)
    if not file.exists():
        raise DataError(f"no file `{shown(path)}`", "check the path; it is relative to the folder you are in")
    return _loaded(str(file.absolute()), reranking_in(file), str(device))


def reranking_in(path: str | Path) -> str:
    """Returns what a file of factors says, checked. Raises CheckpointError where it is none."""
    text = read_text(Path(path), MOST_SETTINGS_BYTES)
    fault = CheckpointError(f"`{path}` is no file of factors for reranking", "fit them again, which writes one")
    try:
        table = json.loads(text)
        if table["rerank"] != VERSION:
            raise CheckpointError(
                f"`{path}` is of version {shown(table['rerank'])}, and this is {VERSION}", "write it again"
            )
        if not all(map(math.isfinite, asdict(_factors(table)).values())):
            raise fault
        if not any(isinstance(table.get(name), dict) for name in ("reverse", "lm")) or not int(table["n_best"]) >= 2:
            raise fault
        for name in ("reverse", "lm"):
            if name in table and not all(isinstance(table[name][key], str) for key in ("model", "weights")):
                raise fault
        if not all(isinstance(table.get("reverse", {}).get(name, ""), str | None) for name in LANGUAGES):
            raise fault
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise fault from error
    return text


@lru_cache(maxsize=2)
def _loaded(path: str, text: str, device: str) -> Reranker:
    table: dict[str, Any] = json.loads(text)
    models: dict[str, Any] = {}
    for name, kind in (("reverse", TRANSLATE), ("lm", GENERATE)):
        if name not in table:
            continue
        folder = Path(path).resolve().parent / table[name]["model"]
        dtype = table[name].get("dtype")
        if kind is TRANSLATE:
            model = open_for(str(folder), device, dtype, *(table[name].get(each) for each in LANGUAGES))
        else:
            model = class_of(kind).load(folder, device, dtype)
        if _digest(model) != table[name]["weights"]:
            raise CheckpointError(
                f"`{folder}` has other weights than those that `{path}` was fitted with", "fit the factors again"
            )
        models[name] = model
    return Reranker(**models, factors=_factors(table), n_best=table["n_best"])


def _digest(model: Any) -> str:
    digest = hashlib.sha256()
    model.add_weights(digest)
    return digest.hexdigest()


def _factors(table: dict[str, Any]) -> Factors:
    return Factors(**{name: float(value) for name, value in table["factors"].items()})


def _dtype(model: Any) -> str:
    """Returns the precision of a model's weights, by which `load` opens them."""
    return str(next(model.model.parameters()).dtype).removeprefix("torch.")


def _beside(model: str, path: Path) -> str:
    """Returns where a model's folder is as seen from the folder of a file, so that both may move together.

    Of a name on the hub that is the folder in the cache: nothing is fetched when the file is opened.
    """
    folder, beside = model_folder(model).resolve(), path.resolve().parent
    try:
        return Path(os.path.relpath(folder, beside)).as_posix()
    except ValueError:  # on another drive of Windows
        return str(folder)
