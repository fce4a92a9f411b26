"""The proof of a conversion: both sides are given the same sentences, and what they say is compared."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pellucid.config import DecodeConfig
from pellucid.conversion.counterparts import LIBRARIES, Counterpart, Kind, has_tokenizer, library, open_counterpart
from pellucid.decoding.engine import search
from pellucid.decoding.ids import suppressed_ids
from pellucid.errors import ConfigError, DataError, install
from pellucid.evaluation.scores import score_corpus
from pellucid.files.writing import write_json
from pellucid.model.families import DecoderOnly
from pellucid.model.transformer import Transformer
from pellucid.tasks.languages import speaking
from pellucid.text.language_codes import codes_are_special
from pellucid.text.tokenizers import GivenTokenizers, Tokenizers
from pellucid.weights.folder import CONVERSION, SavedModel
from pellucid.weights.opening import open_folder

Languages = tuple[str | None, str | None]
"""The codes of source and target; None: not given."""


def with_languages(saved: SavedModel, languages: Languages = (None, None)) -> tuple[SavedModel, str]:
    """Returns `saved` as it translates between two languages, and which ones, as in "de to fr"; "" where it knows none.

    A language that is not given is the folder's default; where it has none, the first of its codes that the other side
    does not have. Raises ConfigError for a language that is unknown, or means nothing to the model.
    """
    if not isinstance(saved.model, Transformer) or saved.tokenizers is None or not saved.languages:
        if languages != (None, None):
            named = "` and `".join(filter(None, languages))
            raise ConfigError(f"languages are given (`{named}`), but the model knows none", "leave them out")
        return saved, ""
    model = saved.model.config, saved.tokenizers, saved.languages
    pairs = () if saved.text is None else saved.text.pairs
    decode = speaking(saved.decode, *model, *languages, pairs)
    source: str | None = None
    if codes_are_special(saved.tokenizers, saved.languages):
        source = _code(saved.languages, (*decode.source_prefix, *decode.source_suffix))
        target = _code(saved.languages, (saved.model.config.bos_id, *decode.target_prefix))
        first_source = source or next((code for code in saved.languages if code != target), None)
    else:  # OPUS-MT's stand before the source and name the target
        target, first_source = _code(saved.languages, decode.source_prefix), None
    first_target = target or next((code for code in saved.languages if code != first_source), None)
    chosen = None if source else first_source, None if target else first_target
    said = " ".join(filter(None, (first_source, "to", first_target)))
    if chosen != (None, None):
        decode, said = speaking(decode, *model, *chosen), f"{said} (the first that it knows)"
    return replace(saved, decode=decode), said


def _code(languages: Mapping[str, int], ids: Sequence[int]) -> str | None:
    """Returns the language whose code is among ids."""
    return next((code for code, number in languages.items() if number in ids), None)


WEIGHTS = ("*.safetensors", "model.bin", "pytorch_model*.bin", "onnx/*.onnx")
"""The files that the weights of each side lie in."""
TOLERANCE = 1e-4
EXTRAS: dict[Kind, str] = {"hf": "verify", "ct2": "ct2", "onnx": "onnx"}
NEW_TOKENS = 20
"""The tokens by which a language model's text is continued."""
BLEU_SENTENCES = 2
"""From how many sentences on BLEU is worth printing."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The findings of a comparison of two sides."""

    compared: bool
    """False: the other library is not installed, or there is none; `reason` says so."""
    reason: str = ""
    engine: str = ""
    """The other side's library, with its version."""
    tolerance: float = TOLERANCE
    sentences: int = 0
    languages: str = ""
    """The languages that a multilingual model translated between, as in "de to fr"."""
    measure: str = "logits"
    """logits; states, of an encoder alone; or log-probabilities, where the other library gives no logits."""
    largest_difference: float = 0.0
    """The largest difference of any number of that measure, relative to the largest."""
    greedy_equal: int | None = None
    """Sentences whose greedy outputs are equal, token by token; None: the model writes nothing."""
    greedy_near_ties: int = 0
    """Sentences whose outputs part where two tokens are as likely as each other, within the tolerance."""
    beam_difference: float | None = None
    """The largest difference of the log-probabilities of our best hypotheses, relative to them."""
    tokenized_equal: int | None = None
    """Sentences that both sides cut into the same tokens; None: ours has no tokenizer, or nothing reads the other's."""
    lacks_tokenizer: bool = False
    """Ours has a tokenizer and the other folder has none: it cannot read text then."""
    blank_tokens: int = 0
    """The tokens that the other side writes for an empty source, about which Pellucid does not ask the model."""
    rounded_to: str = ""
    """The type that the other side's matrices were rounded to; then only a tolerance that was given decides."""
    decides: bool = True
    """The tolerance decides if both sides are equal."""
    megabytes: list[float] | None = None
    """The files of both sides' weights, ours first; of a page all that it holds."""
    is_page: bool = False
    """The other side is a page, with the tokenizer and views in it."""
    bleu: tuple[float, float] | None = None
    """The BLEU of both sides' greedy outputs, ours first."""
    bleu_signature: str = ""

    @property
    def passed(self) -> bool:
        """Tells whether nothing that was compared differs by more than the tolerance."""
        written = self.greedy_equal is None or self.greedy_equal + self.greedy_near_ties == self.sentences
        if not self.decides:
            return not self.lacks_tokenizer and self.tokenized_equal in (None, self.sentences)
        # A comparison with NaN must not pass: so `<=`, not `not >`.
        return not self.compared or (
            self.largest_difference <= self.tolerance
            and written
            and (self.beam_difference is None or self.beam_difference <= self.tolerance)
            and self.tokenized_equal in (None, self.sentences)
            and not self.lacks_tokenizer
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields and `passed`, as JSON takes them; without the ones that do not apply."""
        if not self.compared:
            return {"compared": False, "reason": self.reason}
        plain = {"lacks_tokenizer": False, "blank_tokens": 0, "decides": True, "is_page": False}
        told = asdict(self).items()
        fields = {name: value for name, value in told if value not in (None, "") and plain.get(name) is not value}
        numbers = ("largest_difference", "beam_difference")
        return {"passed": self.passed} | {
            name: float(f"{value:.3g}") if name in numbers and np.isfinite(value) else
            str(value) if name in numbers else value
            for name, value in fields.items()
        }  # fmt: skip

    def save(self, folder: Path) -> None:
        """Writes conversion.json, which holds no time, path or host."""
        write_json(folder / CONVERSION, self.to_dict())

    def __str__(self) -> str:
        if not self.compared:
            return f"not compared: {self.reason}"
        spoken = f", {self.languages}" if self.languages else ""
        lines = [
            f"compared with {self.engine} on {self.sentences:,} sentences{spoken}",
            f"  {self.measure:<16} differ by at most {self.largest_difference:.1e} of the largest",
        ]
        if self.greedy_equal is not None:
            ties = f", {self.greedy_near_ties:,} part at a near tie" if self.greedy_near_ties else ""
            lines.append(f"  greedy outputs   {self.greedy_equal:,} of {self.sentences:,} equal token by token{ties}")
        if self.beam_difference is not None:
            lines.append(f"  beam scores      differ by at most {self.beam_difference:.1e} of the score")
        if self.tokenized_equal is not None:
            lines.append(f"  tokens           {self.tokenized_equal:,} of {self.sentences:,} sentences cut alike")
        if self.lacks_tokenizer:
            lines.append("  tokens           the other folder has no tokenizer: it can read ids alone")
        if self.blank_tokens:
            lines.append(
                f"  blank lines      {self.blank_tokens:,} tokens for one, where Pellucid writes none: leave them out"
            )
        if self.bleu is not None:
            ours, theirs = self.bleu
            lines.append(f"  BLEU (greedy)    ours {ours:.2f}, theirs {theirs:.2f}  {self.bleu_signature}")
        if self.megabytes is not None:
            ours_size, size = self.megabytes
            what, whose = ("page   ", "our weights") if self.is_page else ("weights", "ours")
            lines.append(f"  {what}          {size:,.1f} MB, {whose} {ours_size:,.1f} MB")
        if not self.decides:
            rounded = f"rounded to {self.rounded_to}: how far that is from ours stands above; "
            return "\n".join([*lines, f"{rounded}a tolerance that is given would decide"])
        verdict = "equal" if self.passed else "NOT equal"
        return "\n".join([*lines, f"{verdict} within a tolerance of {self.tolerance:g}"])


def prove(
    model_folder: Path,
    other: Path,
    kind: Kind,
    sentences: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    tolerance: float | None = None,
    languages: Languages = (None, None),
    rounded_to: str = "",
    tokenizer: GivenTokenizers | None = None,
) -> Proof:
    """Compares our model in `model_folder` with the one in `other`, in the library that `kind` names.

    Args:
        sentences: None: twenty that come with the project, in several languages.
        references: a translation of each sentence: then BLEU of both sides is measured.
        tolerance: of the largest difference, relative to the largest number; None: 0.0001, which decides nothing where
            the other side is `rounded_to` a smaller type.
        tokenizer: that of one's own which our model was saved with.
        languages: codes of source and target, for a multilingual model; None: its default, else the first it knows.

    Raises DataError where sentences and references differ in number or there are none, ConfigError for a tolerance
    that is not positive, or a language that is unknown or of no use.
    """
    sentences = own_sentences() if sentences is None else [text for text in sentences if text.strip()]
    if not sentences:
        raise DataError("there are no sentences to compare on", "give some, or leave them out for our own twenty")
    if references is not None and len(references) != len(sentences):
        raise DataError(f"{len(sentences)} sentences and {len(references)} references: each sentence needs one")
    decides, tolerance = tolerance is not None or not rounded_to, TOLERANCE if tolerance is None else tolerance
    if not tolerance > 0:
        raise ConfigError(f"`tolerance` ({tolerance}) must be above 0", f"the default is {TOLERANCE:g}")
    opened = open_folder(model_folder, torch.device("cpu"), torch.float32, tokenizer=tokenizer)
    saved, spoken = with_languages(opened, languages)
    try:
        name, theirs = library(kind), open_counterpart(kind, other, saved.model.config)
    except ImportError:
        return not_compared(f"{LIBRARIES[kind]} is not installed; {_comes_with(kind)}")
    ids = _ids_of(saved, sentences)
    compare = _compare_translations if isinstance(saved.model, Transformer) else (
        _compare_continuations if isinstance(saved.model, DecoderOnly) else _compare_outputs
    )  # fmt: skip
    with torch.inference_mode():
        found = compare(saved, theirs, ids, tolerance)
        cut_alike = _cut_alike(saved, theirs, sentences)
        # A page reads text as Pellucid does, so it is not asked for a blank line either.
        blank_tokens = 0 if kind == "page" else _written_for_nothing(saved, theirs)
    proof = Proof(
        compared=True, engine=name, tolerance=tolerance, sentences=len(sentences),
        languages=spoken, tokenized_equal=cut_alike, **found.results,
        lacks_tokenizer=saved.tokenizers is not None and not has_tokenizer(other),
        blank_tokens=blank_tokens, rounded_to=rounded_to, decides=decides, is_page=kind == "page",
        megabytes=[_megabytes(model_folder), _megabytes(other)],
    )  # fmt: skip
    if references is not None and saved.tokenizers and found.written and len(sentences) >= BLEU_SENTENCES:
        ours, others = (_bleu(side, saved.tokenizers, references) for side in zip(*found.written, strict=True))
        proof = replace(proof, bleu=(ours[0], others[0]), bleu_signature=ours[1])
    return proof


def _written_for_nothing(saved: SavedModel, theirs: Counterpart) -> int:
    """Returns how many tokens the other side writes for an empty source."""
    if not isinstance(saved.model, Transformer):
        return 0
    config, decode = saved.model.config, saved.decode
    src, start = decode.whole_source([], config.eos_id), [config.bos_id, *decode.target_prefix]
    return len(theirs.greedy(src, start, suppressed_ids(config, decode.suppress), _limit(saved, 0))) if src else 0


def _comes_with(kind: Kind) -> str:
    """Says where the library of the other side comes from."""
    if kind == "page":
        return "it runs the page's script here: nodejs.org, or the package `nodejs` of a Linux distribution"
    return f"it comes with the extra `{EXTRAS[kind]}`: {install(EXTRAS[kind])}"


def _megabytes(folder: Path) -> float:
    """Returns the size of a folder's weights, or of a page."""
    if folder.is_file():
        return round(folder.stat().st_size / 1e6, 1)
    files = (path for pattern in WEIGHTS for path in folder.glob(pattern))
    return round(sum(path.stat().st_size for path in files) / 1e6, 1)


def not_compared(reason: str) -> Proof:
    """Returns the proof of a conversion whose other side cannot be run here."""
    return Proof(compared=False, reason=reason)


def own_sentences() -> list[str]:
    """Returns the twenty sentences that come with the project."""
    return files("pellucid.conversion").joinpath("proof_sentences.txt").read_text(encoding="utf-8").splitlines()


@dataclass
class _Found:
    """The result of a comparison: fields of Proof, and what both sides wrote, for BLEU."""

    results: dict[str, Any]
    written: list[tuple[list[int], list[int]]]


class _Largest:
    """The largest difference and the largest number so far; NaN and a different shape count as infinitely different."""

    def __init__(self) -> None:
        self.difference = self.number = 0.0

    def add(self, ours: Any, theirs: Any) -> None:
        a, b = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
        if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
            self.difference = np.inf
            return
        self.difference = max(self.difference, float(np.abs(a - b).max(initial=0.0)))
        self.number = max(self.number, float(np.abs(a).max(initial=0.0)))

    @property
    def relative(self) -> float:
        return self.difference / max(self.number, 1e-30)


def _ids_of(saved: SavedModel, sentences: Sequence[str]) -> list[list[int]]:
    """Returns the tokens of each sentence, without start and end; of a model without tokenizer as many random ids."""
    config = saved.model.config
    limit = max(1, min(saved.decode.max_source_length, config.max_positions // 2 - 1))
    if saved.tokenizers is not None:
        source = saved.tokenizers.source if config.family != "decoder" else saved.tokenizers.target
        return [ids[:limit] or [source.unk_id] for ids in source.encode_lines(list(sentences))]
    random = np.random.default_rng(0)
    size = config.tgt_vocab_size if config.family == "decoder" else config.src_vocab_size
    words = [i for i in range(size) if i not in config.special_ids]
    return [random.choice(words, size=min(limit, 1 + len(text.split()))).tolist() for text in sentences]


def _cut_alike(saved: SavedModel, theirs: Counterpart, sentences: Sequence[str]) -> int | None:
    """Returns sentences that both sides cut into the same tokens; None where one side has no tokenizer."""
    other = theirs.token_ids(sentences) if saved.tokenizers is not None else None
    if saved.tokenizers is None or other is None:
        return None
    ours = saved.tokenizers.source.encode_lines(list(sentences))
    return sum(a == b for a, b in zip(ours, other, strict=True))


def _compare_translations(saved: SavedModel, theirs: Counterpart, sources: list[list[int]], tolerance: float) -> _Found:
    model, config, decode = saved.model, saved.model.config, saved.decode
    assert isinstance(model, Transformer)
    greedy, beam = (
        [found[0] for found in search(model, sources, replace(decode, beam_size=width, n_best=1))]
        for width in (1, decode.beam_size)
    )
    prefix = list(decode.target_prefix)
    suppressed = suppressed_ids(config, decode.suppress)
    numbers, chances, scores, writing = _Largest(), _Largest(), _Largest(), _Writing(tolerance)
    tells_logits = False
    for source, own, best in zip(sources, greedy, beam, strict=True):
        src = decode.whole_source(source, config.eos_id)
        tgt_in = [config.bos_id, *prefix, *own.ids]
        logits = model(torch.tensor([src]), torch.tensor([tgt_in]))[0]
        other = theirs.outputs(src, tgt_in)
        if other is not None:
            tells_logits = True
            numbers.add(logits, other)
        else:
            tgt_out = [*tgt_in[1:], config.eos_id]
            chosen = logits.log_softmax(dim=-1).gather(1, torch.tensor(tgt_out)[:, None])[:, 0]
            chances.add(chosen, theirs.log_probs(src, tgt_in, tgt_out))
        best_in = [config.bos_id, *prefix, *best.ids]
        total = sum(theirs.log_probs(src, best_in, [*best_in[1:], config.eos_id])[len(prefix) :])
        scores.add(1.0, total / best.score if best.score else 1.0 + total)
        start, limit = [config.bos_id, *prefix], _limit(saved, len(source))
        writing.add(own.ids, theirs.greedy(src, start, suppressed, limit), logits[len(prefix) :])
    measured = numbers if tells_logits else chances
    results = {
        "measure": "logits" if tells_logits else "log-probabilities",
        "largest_difference": measured.relative, "beam_difference": scores.difference, **writing.results(),
    }  # fmt: skip
    return _Found(results, writing.written)


def _limit(saved: SavedModel, source_tokens: int) -> int:
    """Returns the most tokens of an output, as our own search has it."""
    room = saved.model.config.max_positions - 1 - len(saved.decode.target_prefix)
    return min(saved.decode.limit(source_tokens), room)


def _compare_continuations(saved: SavedModel, theirs: Counterpart, texts: list[list[int]], tolerance: float) -> _Found:
    model, config = saved.model, saved.model.config
    assert isinstance(model, DecoderOnly)
    numbers, writing = _Largest(), _Writing(tolerance)
    suppressed = suppressed_ids(config, saved.decode.suppress)
    for ids in texts:
        numbers.add(model(torch.tensor([ids]))[0], theirs.outputs([], ids))
        prompt = ids[: max(1, len(ids) // 2)]
        count = min(NEW_TOKENS, config.max_positions - len(prompt))
        greedy = DecodeConfig(beam_size=1, max_length=count or 1, suppress=tuple(suppressed))
        own = search(model, [prompt], greedy)[0][0].ids[:count]
        logits = model(torch.tensor([[*prompt, *own]]))[0, len(prompt) - 1 :]
        writing.add(own, theirs.greedy([], prompt, suppressed, count), logits)
    return _Found({"largest_difference": numbers.relative, **writing.results()}, [])


def _compare_outputs(saved: SavedModel, theirs: Counterpart, texts: list[list[int]], tolerance: float) -> _Found:
    config, numbers = saved.model.config, _Largest()
    for ids in texts:
        given = [config.bos_id, *ids, config.eos_id]
        numbers.add(saved.model(torch.tensor([given]))[0], theirs.outputs(given, []))
    measure = "logits" if config.num_classes else "states"
    return _Found({"measure": measure, "largest_difference": numbers.relative}, [])


class _Writing:
    """Greedy outputs of both sides: how many are equal, and how many part at a near tie."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance, self.equal, self.near_ties = tolerance, 0, 0
        self.written: list[tuple[list[int], list[int]]] = []

    def add(self, ours: list[int], theirs: list[int], logits: torch.Tensor) -> None:
        """Takes `logits` (T + 1, V), ours, before each token of ours and before the end."""
        self.written.append((ours, theirs))
        self.equal += ours == theirs
        place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
        if place is not None:  # one that only goes on for longer is told apart by its length alone
            gap = float(logits[place, ours[place]] - logits[place, theirs[place]])
            self.near_ties += abs(gap) <= 2 * self.tolerance * float(logits[place].abs().max())

    def results(self) -> dict[str, Any]:
        return {"greedy_equal": self.equal, "greedy_near_ties": self.near_ties}


def _bleu(side: Sequence[list[int]], tokenizers: Tokenizers, references: Sequence[str]) -> tuple[float, str]:
    scores = score_corpus([" ".join(tokenizers.target.decode(ids).splitlines()) for ids in side], references)
    return round(scores.bleu, 2), scores.signature
