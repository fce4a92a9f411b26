"""Verifies a conversion: runs both models on the same sentences and compares their outputs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from pellucid.config import DecodeConfig
from pellucid.conversion.counterparts import LIBRARIES, Counterpart, Kind, has_tokenizer, library, open_counterpart
from pellucid.conversion.pages import NEW_TOKENS, Page
from pellucid.conversion.texts import compare_texts
from pellucid.decoding.batched_search import search
from pellucid.decoding.ids import list_suppressed_ids
from pellucid.errors import ConfigError, DataError, format_install_command
from pellucid.evaluation.scores import score_corpus
from pellucid.files.writing import write_json
from pellucid.model.families import DecoderOnly
from pellucid.model.transformer import Transformer
from pellucid.tasks.languages import set_languages
from pellucid.text.language_codes import codes_are_special
from pellucid.text.tokenizers import GivenTokenizers, TokenizerPair
from pellucid.weights.export.calls import ExportedCall
from pellucid.weights.folder import CONVERSION, SavedModel
from pellucid.weights.opening import open_folder

Languages = tuple[str | None, str | None]
"""The codes of source and target; None: not given."""


def set_translation_direction(saved: SavedModel, languages: Languages = (None, None)) -> tuple[SavedModel, str]:
    """Returns `saved` for translation between two languages, and their names, as in "de to fr" ("" if it has none).

    The default of a language is the folder's default; if it has none, the first of its codes that differs from the
    other side's. Raises ConfigError for a language that is unknown, or has no effect on the model.
    """
    if not isinstance(saved.model, Transformer) or saved.tokenizers is None or not saved.languages:
        if languages != (None, None):
            named = "` and `".join(filter(None, languages))
            raise ConfigError(f"languages are given (`{named}`), but the model has none", "leave them out")
        return saved, ""
    model = saved.model.config, saved.tokenizers, saved.languages
    pairs = () if saved.text is None else saved.text.pairs
    decode = set_languages(saved.decode, *model, *languages, pairs)
    source: str | None = None
    if codes_are_special(saved.tokenizers, saved.languages):
        source = _code(saved.languages, (*decode.source_prefix, *decode.source_suffix))
        target = _code(saved.languages, (saved.model.config.bos_id, *decode.target_prefix))
        first_source = source or next((code for code in saved.languages if code != target), None)
    else:  # OPUS-MT's codes precede the source and name the target
        target, first_source = _code(saved.languages, decode.source_prefix), None
    first_target = target or next((code for code in saved.languages if code != first_source), None)
    chosen = None if source else first_source, None if target else first_target
    said = " ".join(filter(None, (first_source, "to", first_target)))
    if chosen != (None, None):
        decode, said = set_languages(decode, *model, *chosen), f"{said} (the first one of the model)"
    return replace(saved, decode=decode), said


def _code(languages: Mapping[str, int], ids: Sequence[int]) -> str | None:
    """Returns the language whose code is among ids."""
    return next((code for code, number in languages.items() if number in ids), None)


WEIGHTS = ("*.safetensors", "model.bin", "pytorch_model*.bin", "onnx/*.onnx")
"""The weight files of each side."""
TOLERANCE = 1e-4
GOOD_SHARE = 0.75
"""The share of sentences that a good page with rounded weights must write as the model does."""
LARGEST_ROUNDING = 0.05
"""The largest difference, relative to the largest number, of a good page whose model writes no text."""
EXTRAS: dict[Kind, str] = {"hf": "verify", "ct2": "ct2", "onnx": "onnx"}
BLEU_SENTENCES = 2
"""The fewest sentences for which BLEU is reported."""


@dataclass(frozen=True, kw_only=True)
class ConversionReport:
    """The result of comparing two sides."""

    compared: bool
    """False if the other library is not installed, or there is none; `reason` names the cause."""
    reason: str = ""
    engine: str = ""
    """The other side's library, with its version."""
    tolerance: float = TOLERANCE
    sentences: int = 0
    languages: str = ""
    """The languages that a multilingual model translated between, as in "de to fr"."""
    measure: str = "logits"
    """logits; states, of an encoder alone; or log-probabilities, if the other library returns no logits."""
    largest_difference: float = 0.0
    """The largest difference of any number of that measure, relative to the largest number."""
    greedy_equal: int | None = None
    """Sentences whose greedy outputs are equal, token by token; None if the model writes no text."""
    greedy_near_ties: int = 0
    """Sentences whose outputs diverge at two tokens of equal probability, within the tolerance."""
    beam_difference: float | None = None
    """The largest difference of Pellucid's best hypotheses' scores, relative to the score, or to 1 if that is smaller.
    """
    tokenized_equal: int | None = None
    """Sentences that both sides tokenize alike; None if one side has no readable tokenizer."""
    texts: int = 0
    """The number of texts passed to the call in README.md, or to the page: text in, text out."""
    texts_equal: int = 0
    """The sentences whose translation equals Pellucid's greedy output, each as one text."""
    texts_near_ties: int = 0
    """The sentences whose translation diverges at two tokens of equal probability, within the tolerance."""
    texts_of_bytes: int = 0
    """Texts of equal outputs with bytes of invalid UTF-8, for which tokenizer.json shows another number of U+FFFD."""
    beams: int = 0
    """The default beam size of the call; 0 if it has none."""
    beams_equal: int = 0
    """The texts with the same output as Pellucid's at that beam size; the other library's search ends differently."""
    texts_other: str = ""
    """The first text with another output, with both outputs."""
    texts_error: str = ""
    """The error that the call raises."""
    lacks_tokenizer: bool = False
    """True if Pellucid's side has a tokenizer and the other folder has none, so that it takes only ids."""
    no_tokenizer_json: str = ""
    """The reason why the other folder has no tokenizer.json."""
    blank_tokens: int = 0
    """The tokens that the other side writes for an empty source, for which Pellucid does not run the model."""
    rounded_to: str = ""
    """The type that the other side's matrices were rounded to; then only a given tolerance decides."""
    decides: bool = True
    """True if the tolerance decides whether both sides are equal."""
    megabytes: list[float] | None = None
    """The sizes of both sides' weight files, Pellucid's first; of a page the whole file."""
    is_page: bool = False
    """True if the other side is a page, which includes the tokenizer and views."""
    bleu: tuple[float, float] | None = None
    """The BLEU of both sides' greedy outputs, Pellucid's first."""
    bleu_signature: str = ""
    nonsense: str = ""
    """The reason why the model itself makes no sense, whatever the comparison found; then it has not passed."""
    origin: str = ""
    """The origin of the sentences; empty if the caller passed them or they come with the project."""

    @property
    def verdict(self) -> Literal["good", "look", ""]:
        """Returns "good" if a page with rounded weights does what the model does, or "look" if it should be inspected.

        It is good if texts are tokenized alike and three quarters of the outputs are equal; for a model that writes no
        text, if its numbers differ by at most 5 % of the largest. Empty if a tolerance decides.
        """
        if not (self.is_page and self.compared) or self.decides:
            return ""
        if self.greedy_equal is None:
            alike = self.largest_difference <= LARGEST_ROUNDING
        else:
            alike = self.greedy_equal + self.greedy_near_ties >= GOOD_SHARE * self.sentences
        return "good" if self.passed and alike else "look"

    @property
    def passed(self) -> bool:
        """Returns True if no compared number differs by more than the tolerance."""
        return not self.nonsense and (not self.compared or not self.failures)

    @property
    def failures(self) -> list[str]:
        """Returns texts on the differences above the tolerance; for rounded matrices only tokenization counts."""
        found = []
        # A comparison with NaN must not pass: so `not <=`.
        if self.decides and not self.largest_difference <= self.tolerance:
            found.append(f"{self.measure} differ by {self.largest_difference:.1e} of the largest")
        written = self.sentences if self.greedy_equal is None else self.greedy_equal + self.greedy_near_ties
        if self.decides and written != self.sentences:
            found.append(f"{self.sentences - written:,} of {self.sentences:,} greedy outputs differ")
        if self.decides and self.beam_difference is not None and not self.beam_difference <= self.tolerance:
            found.append(f"beam scores differ by {self.beam_difference:.1e}")
        if self.tokenized_equal not in (None, self.sentences):
            found.append(
                f"{self.sentences - (self.tokenized_equal or 0):,} of {self.sentences:,} sentences are tokenized "
                "differently"
            )
        others = self.texts - self.texts_equal - self.texts_near_ties - self.texts_of_bytes
        if self.texts_error:
            found.append(f"{self._caller} fails: {self.texts_error}")
        elif self.decides and others:
            found.append(
                f"{self._caller} differs from Pellucid for {others:,} of {self.texts:,} texts, for instance "
                f"{self.texts_other}"
            )
        return found

    @property
    def others_with_beams(self) -> int:
        """Returns the number of texts that differ at the call's beam size; 0 if they do not decide."""
        return self.texts - self.beams_equal if self.beams and self.decides and not self.failures else 0

    @property
    def _caller(self) -> str:
        return "the page" if self.is_page else "the call in README.md"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields and `passed`, as JSON takes them; without fields that do not apply."""
        if not self.compared:
            wrong = {"passed": False, "nonsense": self.nonsense} if self.nonsense else {}
            return wrong | {"compared": False, "reason": self.reason}
        plain = {"lacks_tokenizer": False, "blank_tokens": 0, "decides": True, "is_page": False}
        if not self.texts:
            plain |= dict.fromkeys(("texts", "texts_equal", "texts_near_ties"), 0)
        if not self.texts_of_bytes:
            plain["texts_of_bytes"] = 0
        if not self.beams:
            plain |= {"beams": 0, "beams_equal": 0}
        told = asdict(self).items()
        fields = {name: value for name, value in told if value not in (None, "") and plain.get(name) is not value}
        numbers = ("largest_difference", "beam_difference")
        verdict = {"verdict": self.verdict} if self.verdict else {}
        return {"passed": self.passed} | verdict | {
            name: float(f"{value:.3g}") if name in numbers and np.isfinite(value) else
            str(value) if name in numbers else value
            for name, value in fields.items()
        }  # fmt: skip

    def save(self, folder: Path) -> None:
        """Writes conversion.json, which holds no time, path or host."""
        write_json(folder / CONVERSION, self.to_dict())

    def __str__(self) -> str:
        if self.nonsense:
            return f"BAD: the outputs are not usable: {self.nonsense}\n{replace(self, nonsense='')}"
        if not self.compared:
            return f"not compared: {self.reason}"
        spoken = f", {self.languages}" if self.languages else ""
        of = f" of {self.origin}" if self.origin else ""
        failures = self.failures
        verdict = "NOT equal" if failures else "equal" if self.decides else f"rounded to {self.rounded_to}"
        if self.others_with_beams:
            verdict += f", with {self.beams} beams for {self.beams_equal:,} of {self.texts:,} texts"
        lines = [
            f"compared with {self.engine} on {self.sentences:,} sentences{of}{spoken}: {verdict}",
            f"  {self.measure:<16} differ by at most {self.largest_difference:.1e} of the largest",
        ]
        if self.greedy_equal is not None:
            lines.append(
                f"  greedy outputs   {self.greedy_equal:,} of {self.sentences:,} equal token by token"
                f"{_ties(self.greedy_near_ties)}"
            )
        if self.beam_difference is not None:
            lines.append(f"  beam scores      differ by at most {self.beam_difference:.1e} of the score")
        if self.tokenized_equal is not None:
            lines.append(f"  tokens           {self.tokenized_equal:,} of {self.sentences:,} sentences tokenized alike")
        if self.texts and not self.texts_error:
            lines.append(
                f"  texts            {self.texts_equal:,} of {self.texts:,} equal, by {self._caller}"
                f"{_ties(self.texts_near_ties)}"
            )
        if self.beams and not self.texts_error:
            lines.append(f"  with {self.beams} beams     {self.beams_equal:,} of {self.texts:,} texts equal")
        if self.lacks_tokenizer:
            lines.append("  tokens           the other folder has no tokenizer, so it takes ids")
        if self.blank_tokens:
            lines.append(
                f"  blank lines      {self.blank_tokens:,} tokens for one, where Pellucid writes none: skip blank lines"
            )
        if self.bleu is not None:
            ours, theirs = self.bleu
            lines.append(f"  BLEU (greedy)    ours {ours:.2f}, theirs {theirs:.2f}  {self.bleu_signature}")
        if self.megabytes is not None:
            ours_size, size = self.megabytes
            what, whose = ("page   ", "our weights") if self.is_page else ("weights", "ours")
            lines.append(f"  {what}          {size:,.1f} MB, {whose} {ours_size:,.1f} MB")
        return "\n".join([*lines, *self._verdict(failures)])

    def _verdict(self, failures: Sequence[str]) -> list[str]:
        """Returns the last line: the verdict, and its reasons."""
        notes = "".join(f"; {note}" for note in self._notes())
        if failures:
            advice = f"; {self._describe_page()}" if self.verdict else ""
            return [f"NOT equal within a tolerance of {self.tolerance:g}: {'; '.join(failures)}{notes}{advice}"]
        if self.verdict:
            return [self._describe_page() + notes]
        if not self.decides:
            rounded = f"rounded to {self.rounded_to}, with the differences above; "
            return [f"{rounded}set a tolerance for a verdict{notes}"]
        return [f"equal within a tolerance of {self.tolerance:g}{notes}"]

    def _notes(self) -> Iterator[str]:
        """Yields the notes that qualify the verdict."""
        if self.others_with_beams:
            yield (
                f"with {self.beams} beams {self.others_with_beams:,} of {self.texts:,} texts differ, since "
                f"{self.engine} has other rules for ending and ranking beams"
            )
        if self.texts_of_bytes:
            yield (
                f"{self.texts_of_bytes:,} outputs hold bytes that are not UTF-8, for which tokenizer.json writes "
                "another number of U+FFFD"
            )
        if self.no_tokenizer_json:
            yield f"no tokenizer.json: {self.no_tokenizer_json}"
        elif self.lacks_tokenizer:
            yield "no tokenizer: the model takes ids"

    def _describe_page(self) -> str:
        """Returns the assessment of a page with rounded weights, and the remedy."""
        equal, count = (self.greedy_equal or 0) + self.greedy_near_ties, self.sentences
        what = (
            ""
            if self.greedy_equal is None
            else f": {equal:,} of {count:,} sentences have the same output as the original"
        )
        if self.verdict == "good":
            return f"good{what}; the rest is the rounding to {self.rounded_to}"
        closer = "weights in float16 are closer" if self.rounded_to == "int8" else "weights in float32 are exact"
        foreign = "" if self.origin else "; compare on sentences of your text for a reliable verdict"
        return f"check the page{what} with a few of your sentences; {closer}{foreign}"


def _ties(count: int) -> str:
    return f", {count:,} differ at a near tie" if count else ""


def verify_conversion(
    model_folder: Path,
    other: Path,
    kind: Kind,
    sentences: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    tolerance: float | None = None,
    languages: Languages = (None, None),
    rounded_to: str = "",
    tokenizer: GivenTokenizers | None = None,
    call: ExportedCall | None = None,
) -> ConversionReport:
    """Compares the Pellucid model in `model_folder` with the model in `other`, run in the library `kind`.

    Args:
        sentences: None: twenty that come with the project, in several languages.
        references: a translation of each sentence, used to compute BLEU of both sides.
        tolerance: the largest difference allowed, relative to the largest number; None: 0.0001, which has no effect if
            the other side is `rounded_to` a smaller type.
        tokenizer: the custom tokenizer that the Pellucid model was saved with.
        languages: codes of source and target, for a multilingual model; None: its default, else its first language.
        call: the call in README.md of `other`, also run on texts with special cases; a page is run directly.

    Raises DataError if sentences and references differ in number or there are none, ConfigError for a tolerance that is
    not positive, or a language that is unknown or has no effect.
    """
    sentences = read_test_sentences() if sentences is None else [text for text in sentences if text.strip()]
    if not sentences:
        raise DataError("no sentences to compare on", "pass sentences, or leave them out to use the built-in twenty")
    if references is not None and len(references) != len(sentences):
        raise DataError(f"{len(sentences)} sentences and {len(references)} references: each sentence needs one")
    decides, tolerance = tolerance is not None or not rounded_to, TOLERANCE if tolerance is None else tolerance
    if not tolerance > 0:
        raise ConfigError(f"`tolerance` ({tolerance}) must be above 0", f"the default is {TOLERANCE:g}")
    opened = open_folder(model_folder, torch.device("cpu"), torch.float32, tokenizer=tokenizer)
    saved, spoken = set_translation_direction(opened, languages)
    try:
        name, theirs = library(kind), open_counterpart(kind, other, saved.model.config)
    except ImportError:
        return skip_verification(f"{LIBRARIES[kind]} is not installed; {_comes_with(kind)}")
    ids = _encode_sentences(saved, sentences)
    compare = _compare_translations if isinstance(saved.model, Transformer) else (
        _compare_continuations if isinstance(saved.model, DecoderOnly) else _compare_outputs
    )  # fmt: skip
    with torch.inference_mode():
        found = compare(saved, theirs, ids, tolerance)
        cut_alike = _count_equal_tokenizations(saved, theirs, sentences)
        # A page, like Pellucid, does not run its model for a blank line.
        blank_tokens = 0 if kind == "page" else _count_tokens_for_empty_source(saved, theirs)
    by = theirs if isinstance(theirs, Page) else call
    by_call = compare_texts(saved, by, other, sentences, tolerance) if by else {}
    proof = ConversionReport(
        compared=True, engine=name, tolerance=tolerance, sentences=len(sentences),
        languages=spoken, tokenized_equal=cut_alike, **found.results, **by_call,
        no_tokenizer_json=call.reading.reason if call and call.reading.opens_with != "transformers" else "",
        lacks_tokenizer=saved.tokenizers is not None and not has_tokenizer(other),
        blank_tokens=blank_tokens, rounded_to=rounded_to, decides=decides, is_page=kind == "page",
        megabytes=[_megabytes(model_folder), _megabytes(other)],
    )  # fmt: skip
    if references is not None and saved.tokenizers and found.written and len(sentences) >= BLEU_SENTENCES:
        ours, others = (_bleu(side, saved.tokenizers, references) for side in zip(*found.written, strict=True))
        proof = replace(proof, bleu=(ours[0], others[0]), bleu_signature=ours[1])
    return proof


def _count_tokens_for_empty_source(saved: SavedModel, theirs: Counterpart) -> int:
    """Returns the number of tokens that the other side writes for an empty source."""
    if not isinstance(saved.model, Transformer):
        return 0
    config, decode = saved.model.config, saved.decode
    src, start = decode.add_special_ids([], config.eos_id), [config.bos_id, *decode.target_prefix]
    return (
        len(theirs.greedy(src, start, list_suppressed_ids(config, decode.suppress_tokens), _limit(saved, 0)))
        if src
        else 0
    )


def _comes_with(kind: Kind) -> str:
    """Returns the text that names the source of the other side's library."""
    if kind == "page":
        return "node runs the page's script: nodejs.org, or the package `nodejs` of a Linux distribution"
    return f"install the extra `{EXTRAS[kind]}`: {format_install_command(EXTRAS[kind])}"


def _megabytes(folder: Path) -> float:
    """Returns the size of a folder's weights, or of a page."""
    if folder.is_file():
        return round(folder.stat().st_size / 1e6, 1)
    files = (path for pattern in WEIGHTS for path in folder.glob(pattern))
    return round(sum(path.stat().st_size for path in files) / 1e6, 1)


def skip_verification(reason: str) -> ConversionReport:
    """Returns the report of a conversion whose other side cannot run here."""
    return ConversionReport(compared=False, reason=reason)


def read_test_sentences() -> list[str]:
    """Returns the twenty sentences that come with the project."""
    return files("pellucid.conversion").joinpath("proof_sentences.txt").read_text(encoding="utf-8").splitlines()


@dataclass
class _Found:
    """The result of a comparison: fields of ConversionReport, and the outputs of both sides, for BLEU."""

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


def _encode_sentences(saved: SavedModel, sentences: Sequence[str]) -> list[list[int]]:
    """Returns the tokens of each sentence, without start and end; for a model without tokenizer as many random ids."""
    config = saved.model.config
    limit = max(1, min(saved.decode.max_source_length, config.max_positions // 2 - 1))
    if saved.tokenizers is not None:
        source = saved.tokenizers.source if config.family != "decoder" else saved.tokenizers.target
        return [ids[:limit] or [source.unk_id] for ids in source.encode_lines(list(sentences))]
    random = np.random.default_rng(0)
    size = config.tgt_vocab_size if config.family == "decoder" else config.src_vocab_size
    words = [i for i in range(size) if i not in config.special_ids]
    return [random.choice(words, size=min(limit, 1 + len(text.split()))).tolist() for text in sentences]


def _count_equal_tokenizations(saved: SavedModel, theirs: Counterpart, sentences: Sequence[str]) -> int | None:
    """Returns the number of sentences that both sides tokenize alike; None if one side has no tokenizer."""
    other = theirs.token_ids(sentences) if saved.tokenizers is not None else None
    if saved.tokenizers is None or other is None:
        return None
    ours = saved.tokenizers.source.encode_lines(list(sentences))
    return sum(a == b for a, b in zip(ours, other, strict=True))


def _compare_translations(saved: SavedModel, theirs: Counterpart, sources: list[list[int]], tolerance: float) -> _Found:
    # A folder's decoding rules apply when text is compared, by the call of README.md.
    model, config, decode = saved.model, saved.model.config, saved.decode.remove_rules()
    assert isinstance(model, Transformer)
    greedy, beam = (
        [found[0] for found in search(model, sources, replace(decode, beam_size=width, n_best=1))]
        for width in (1, decode.beam_size)
    )
    prefix = list(decode.target_prefix)
    suppressed = list_suppressed_ids(config, decode.suppress_tokens)
    numbers, chances, scores, writing = _Largest(), _Largest(), _Largest(), _Writing(tolerance)
    tells_logits = False
    for source, own, best in zip(sources, greedy, beam, strict=True):
        src = decode.add_special_ids(source, config.eos_id)
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
        # A sum of log-probabilities near 0 has the rounding errors of its terms.
        size = max(1.0, abs(best.score))
        scores.add(best.score / size, total / size)
        start, limit = [config.bos_id, *prefix], _limit(saved, len(source))
        writing.add(own.ids, theirs.greedy(src, start, suppressed, limit), logits[len(prefix) :])
    measured = numbers if tells_logits else chances
    results = {
        "measure": "logits" if tells_logits else "log-probabilities",
        "largest_difference": measured.relative, "beam_difference": scores.difference, **writing.results(),
    }  # fmt: skip
    return _Found(results, writing.written)


def _limit(saved: SavedModel, source_tokens: int) -> int:
    """Returns the most tokens of an output, as Pellucid's search limits it."""
    room = saved.model.config.max_positions - 1 - len(saved.decode.target_prefix)
    return min(saved.decode.limit(source_tokens), room)


def _compare_continuations(saved: SavedModel, theirs: Counterpart, texts: list[list[int]], tolerance: float) -> _Found:
    model, config = saved.model, saved.model.config
    assert isinstance(model, DecoderOnly)
    numbers, writing = _Largest(), _Writing(tolerance)
    suppressed = list_suppressed_ids(config, saved.decode.suppress_tokens)
    for ids in texts:
        numbers.add(model(torch.tensor([ids]))[0], theirs.outputs([], ids))
        prompt = ids[: max(1, len(ids) // 2)]
        count = min(NEW_TOKENS, config.max_positions - len(prompt))
        greedy = DecodeConfig(beam_size=1, max_length=count or 1, suppress_tokens=tuple(suppressed))
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
    """Counts the greedy outputs of both sides that are equal, and the outputs that diverge at a near tie."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance, self.equal, self.near_ties = tolerance, 0, 0
        self.written: list[tuple[list[int], list[int]]] = []

    def add(self, ours: list[int], theirs: list[int], logits: torch.Tensor) -> None:
        """Adds a pair of outputs with Pellucid's `logits` (T + 1, V), before each of its tokens and before the end."""
        self.written.append((ours, theirs))
        self.equal += ours == theirs
        place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
        if place is not None:  # an output that only continues longer differs by its length alone
            gap = float(logits[place, ours[place]] - logits[place, theirs[place]])
            self.near_ties += abs(gap) <= 2 * self.tolerance * float(logits[place].abs().max())

    def results(self) -> dict[str, Any]:
        return {"greedy_equal": self.equal, "greedy_near_ties": self.near_ties}


def _bleu(side: Sequence[list[int]], tokenizers: TokenizerPair, references: Sequence[str]) -> tuple[float, str]:
    scores = score_corpus([" ".join(tokenizers.target.decode(ids).splitlines()) for ids in side], references)
    return round(scores.bleu, 2), scores.signature
