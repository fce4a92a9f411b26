"""Noisy-channel reranking: reranks n-best lists with a reverse translation model and a language model."""

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pellucid.config import TASKS, DecodeConfig
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.engines.engine import Engine
from pellucid.errors import CheckpointError, ConfigError, DataError, format_argument, format_value
from pellucid.evaluation.reranking import Fit, Floats, RerankingWeights, fit_factors
from pellucid.files.budget import MOST_SETTINGS_BYTES
from pellucid.files.reading import parse_json, read_text
from pellucid.files.writing import write_json
from pellucid.tasks.languages import check_languages
from pellucid.tasks.task import SequenceScore, get_task_class, resolve_model

TRANSLATE, GENERATE = TASKS["translate"], TASKS["generate"]
VERSION = 1
LANGUAGES = ("source_language", "target_language")
"""The keys of a reranking file for the languages of a multilingual model."""
NEAR_TIE = 1e-4
"""The rank difference below which rounding could change the order: such lists are scored again, alone."""
MOST_N_BEST = 1000
"""The most hypotheses of a line."""


class ReverseModel(Protocol):
    """The methods of Translator that reranking requires."""

    def score_sequences(self, sources: Sequence[str], targets: Sequence[str]) -> list[SequenceScore]: ...


class FluencyModel(Protocol):
    """The methods of LanguageModel that reranking requires."""

    def token_scores(self, texts: Sequence[str]) -> list[list[float]]: ...


@dataclass(frozen=True)
class Candidates:
    """The n-best list of one text that was translated separately."""

    source: str
    ids: list[int]
    """The source ids."""
    hypotheses: list[Hypothesis]
    texts: list[str]

    @classmethod
    def from_hypotheses(
        cls, source: str, ids: list[int], target: Any, hypotheses: Sequence[Hypothesis]
    ) -> "Candidates":
        """Returns the candidates whose texts, decoded to one line by the tokenizer `target`, are distinct."""
        of_text: dict[str, Hypothesis] = {}
        for hypothesis in hypotheses:
            of_text.setdefault(" ".join(target.decode(hypothesis.ids).splitlines()), hypothesis)
        return cls(source, ids, list(of_text.values()), list(of_text))


class Reranker:
    """Reranks n-best lists by further models in addition to the translator.

    reranker = pellucid.Reranker(reverse=Translator.load("en-de"), lm=LanguageModel.load("lm-en"))
    reranker.fit(translator, sources, references)
    translator.translate(lines, rerank=reranker)
    """

    def __init__(
        self,
        reverse: ReverseModel | None = None,
        lm: FluencyModel | None = None,
        factors: RerankingWeights | None = None,
        n_best: int = 10,
    ) -> None:
        """Takes the models, of which at least one is required.

        Args:
            reverse: a translator from the target language to the source language, with its own tokenizer.
            lm: a language model of the target language, with its own tokenizer.
            factors: the weights of their log-probabilities; None: 0, until `fit` sets them.
            n_best: the size of the n-best list.

        Raises ConfigError if neither model is given, one is for another task, or `n_best` is out of range.
        """
        if reverse is None and lm is None:
            raise ConfigError(
                "neither `reverse=` nor `lm=` is given: reranking requires at least one", "give one of them"
            )
        for name, given, wanted in (("reverse", reverse, TRANSLATE), ("lm", lm, GENERATE)):
            if given is not None and not isinstance(given, get_task_class(wanted)):
                raise ConfigError(f"`{name}=` is a {type(given).__name__}, and must be a {wanted.class_name}")
        if isinstance(n_best, bool) or not isinstance(n_best, int) or not 2 <= n_best <= MOST_N_BEST:
            raise ConfigError(
                f"{format_argument('n_best', n_best)} must be from 2 to {MOST_N_BEST:,}",
                "10 to 50 are usual",
            )
        self.reverse = reverse
        self.lm = lm
        self.factors: RerankingWeights = factors or RerankingWeights()
        self.n_best = n_best

    def best_first(
        self, engine: Engine, candidates: Sequence[Candidates], decode: DecodeConfig
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each list in their new order; ties keep the order of the search.

        `engine` is the translator's, which scores near ties again.
        """
        found = []
        for one, features in zip(candidates, self.features(candidates), strict=True):
            totals = self.factors.totals(features)
            ordered = np.sort(totals)
            if len(totals) > 1 and len(candidates) > 1 and (np.diff(ordered) < NEAR_TIE).any():
                totals = self._rerank_alone(engine, one, decode)
            order = np.argsort(-totals, kind="stable")
            found.append([one.hypotheses[i] for i in order])
        return found

    def _rerank_alone(self, engine: Engine, one: Candidates, decode: DecodeConfig) -> Floats:
        """Returns the totals of one list, computed alone, so that they do not depend on other lists."""
        written = [h.ids for h in one.hypotheses]
        scores = engine.scores([one.ids] * len(written), written, decode)
        (features,) = self.features([one])
        features[:, 0] = [score / h.length for score, h in zip(scores, one.hypotheses, strict=True)]
        return self.factors.totals(features)

    def features(self, candidates: Sequence[Candidates]) -> list[Floats]:
        """Returns the features of each list, (n, 4), with the columns FEATURES; 0 for a model that is missing.

        A text that is too long for a model gets the worst score of its list.
        """
        texts = [text for one in candidates for text in one.texts]
        sources = [one.source for one in candidates for _ in one.texts]
        nothing = [0.0] * len(texts)
        reverse = lm = nothing
        if self.reverse is not None:
            reverse = [scored.score / scored.tokens for scored in self.reverse.score_sequences(texts, sources)]
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
        """Finds the factors with the highest BLEU on held-out text, stores and returns them.

        Raises DataError if the lists differ in length or are too short.
        """
        if len(sources) != len(references):
            raise DataError(f"{len(sources)} sources and {len(references)} references: each source needs one")
        pairs = [pair for pair in zip(sources, references, strict=True) if all(text.strip() for text in pair)]
        beam_size = max(self.n_best, translator.decode.beam_size)
        config = replace(translator.configure(), n_best=self.n_best, beam_size=beam_size)
        lines = translator.segmenter.segment([source for source, _ in pairs], config).lines
        candidates, kept = [], []
        for line, (_, reference) in zip(lines, pairs, strict=True):
            # A line of several sentences, or without tokens, has no n-best list.
            if line and len(line) == len(line[0].pieces) == 1:
                candidates.append((line[0].source, line[0].pieces[0]))
                kept.append(reference)
        found = translator.engine.search_all([ids for _, ids in candidates], config, None, None)
        target = translator.tokenizers.target
        lists = [
            Candidates.from_hypotheses(*read, target, hypotheses)
            for read, hypotheses in zip(candidates, found, strict=True)
        ]
        parts = [*(["reverse"] if self.reverse else []), *(["lm"] if self.lm else []), "length"]
        fit = fit_factors(self.features(lists), [one.texts for one in lists], kept, parts)
        self.factors = fit.factors
        return fit


def open_for(
    folder: str, device: Any, dtype: str | None, source_language: str | None, target_language: str | None
) -> Any:
    """Returns the translator of a folder; a multilingual one translates between the two languages.

    Raises the errors of `Translator.load`, and ConfigError if a required language is missing.
    """
    translators: Any = get_task_class(TRANSLATE)
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
    """Writes a file for `load_reranker`: the paths and weight digests of the models, the factors and their fit.

    `languages` are the source and target language of the reverse model, if it is multilingual.
    """
    models = {"reverse": (reverse, reranker.reverse), "lm": (lm, reranker.lm)}
    table: dict[str, Any] = {"rerank": VERSION, "n_best": reranker.n_best}
    for name, (folder, model) in models.items():
        if model is not None and folder is not None:
            table[name] = {"model": _relative_path(folder, path), "weights": _digest(model), "dtype": _dtype(model)}
    if any(languages) and "reverse" in table:
        table["reverse"] |= dict(zip(LANGUAGES, languages, strict=True))
    table["factors"] = asdict(fit.factors)
    table["fit"] = {name: value for name, value in fit.to_json().items() if name not in table["factors"]}
    write_json(path, table)


def open_reranker(rerank: str | Path | Reranker, translator: Any) -> Reranker:
    """Returns a reranker; if `rerank` is a file, opens it on the device of a translator.

    Raises the errors of `load_reranker`, and ConfigError for a value of another type.
    """
    if isinstance(rerank, str | Path):
        return load_reranker(rerank, translator.device)
    if not isinstance(rerank, Reranker):
        raise ConfigError(f"`rerank=` is a {type(rerank).__name__}", "pass a pellucid.Reranker, or its file")
    return rerank


def load_reranker(path: str | Path, device: Any = "auto") -> Reranker:
    """Opens the models and the factors of a file that `save_reranking` wrote.

    Raises DataError if the file does not exist, CheckpointError if it is no reranking file, and for models that are
    missing or have other weights.
    """
    file = Path(path)
    if not file.exists():
        raise DataError(f"no file `{format_value(path)}`", "check the path; it is relative to the folder you are in")
    return _load(str(file.absolute()), read_reranking(file), str(device))


def read_reranking(path: str | Path) -> str:
    """Returns the text of a reranking file after validation. Raises CheckpointError if it is invalid."""
    text = read_text(Path(path).resolve(), MOST_SETTINGS_BYTES)
    fault = CheckpointError(f"`{path}` is not a file of reranking factors", "fit the factors again to write one")
    try:
        table = parse_json(text)
        if table["rerank"] != VERSION:
            raise CheckpointError(
                f"`{path}` is of version {format_value(table['rerank'])}, and this is {VERSION}", "write it again"
            )
        if not all(map(math.isfinite, asdict(_factors(table)).values())):
            raise fault
        if not any(isinstance(table.get(name), dict) for name in ("reverse", "lm")) or not (
            type(table["n_best"]) is int and 2 <= table["n_best"] <= MOST_N_BEST
        ):
            raise fault
        for name in ("reverse", "lm"):
            if name in table and not all(isinstance(table[name][key], str) for key in ("model", "weights")):
                raise fault
        if not all(isinstance(table.get("reverse", {}).get(name, ""), str | None) for name in LANGUAGES):
            raise fault
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise fault from error
    return text


@lru_cache(maxsize=2)
def _load(path: str, text: str, device: str) -> Reranker:
    table: dict[str, Any] = parse_json(text)
    models: dict[str, Any] = {}
    for name, kind in (("reverse", TRANSLATE), ("lm", GENERATE)):
        if name not in table:
            continue
        folder = Path(path).resolve().parent / table[name]["model"]
        dtype = table[name].get("dtype")
        if kind is TRANSLATE:
            model = open_for(str(folder), device, dtype, *(table[name].get(each) for each in LANGUAGES))
        else:
            model = get_task_class(kind).load(folder, device, dtype)
        if _digest(model) != table[name]["weights"]:
            raise CheckpointError(
                f"`{folder}` has different weights from the model that `{path}` was fitted with",
                "fit the factors again",
            )
        models[name] = model
    return Reranker(**models, factors=_factors(table), n_best=table["n_best"])


def _digest(model: Any) -> str:
    digest = hashlib.sha256()
    model.add_weights(digest)
    return digest.hexdigest()


def _factors(table: dict[str, Any]) -> RerankingWeights:
    return RerankingWeights(**{name: float(value) for name, value in table["factors"].items()})


def _dtype(model: Any) -> str:
    """Returns the precision of a model's weights, for `load`."""
    return str(next(model.model.parameters()).dtype).removeprefix("torch.")


def _relative_path(model: str, path: Path) -> str:
    """Returns the path of a model's folder relative to the folder of a file, so that both can be moved together.

    For a name on the hub it is the folder in the cache: opening the file downloads nothing.
    """
    folder, parent = resolve_model(model).resolve(), path.resolve().parent
    try:
        return Path(os.path.relpath(folder, parent)).as_posix()
    except ValueError:  # on another drive of Windows
        return str(folder)
