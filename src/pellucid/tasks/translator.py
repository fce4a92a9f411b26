"""Text in, text out: a Transformer with its tokenizers and a search."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from pellucid.config import TASKS, DecodeConfig, SamplingConfig, Task
from pellucid.engines import ENGINES, EngineName
from pellucid.engines.choice import choose_engine
from pellucid.engines.engine import Engine, PyTorchEngine
from pellucid.errors import ConfigError, DataError, did_you_mean, format_argument, format_value
from pellucid.tasks.guards import SourceGuard, add_flags, note_restoration, withhold_uncertain
from pellucid.tasks.languages import check_languages, set_languages
from pellucid.tasks.option_fields import check_names, describe_options
from pellucid.tasks.repair import can_repair, repair_translations
from pellucid.tasks.search import TranslationSearch, sample_lines
from pellucid.tasks.search_options import (
    AnswerOptions,
    LineOptions,
    SampleOptions,
    SearchOptions,
    StreamOptions,
    TranslateOptions,
    UseModelDefault,
)
from pellucid.tasks.segmenter import Segmenter
from pellucid.tasks.task import (
    SequenceScore,
    TextModel,
    check_lines,
    check_task,
    format_names,
    open_model,
    resolve_model,
)
from pellucid.tasks.terms import TermEncoder
from pellucid.tasks.translation import Translation
from pellucid.text.protected import find_in_lines
from pellucid.text.tokenizers import GivenTokenizers, TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.word_forms import RestoredLine, WordForms, save_word_forms
from pellucid.weights.aligning_head import AligningHead, keep_head
from pellucid.weights.folder import CALIBRATION, is_hugging_face_folder, read_config, read_description

if TYPE_CHECKING:  # as in pellucid/tasks/task.py
    import torch

    from pellucid.decoding.terms import Term
    from pellucid.documents.document import DocumentReport
    from pellucid.evaluation.calibration import Calibration
    from pellucid.evaluation.scores import References, Scores
    from pellucid.model.parts import Parts
    from pellucid.model.transformer import Transformer
    from pellucid.tasks.word_alignment import Aligner
    from pellucid.tracing.trace import Trace
    from pellucid.weights.folder import SavedModel


class Translator(TextModel["Transformer"]):
    """A trained translator.

        translator = Translator.load("run")
        translator.translate(["Ein Hund läuft ."])[0].text

    It puts its model into evaluation mode, without dropout.
    """

    task: ClassVar[Task] = TASKS["translate"]
    per_line_options: ClassVar[tuple[str, ...]] = ("prefixes", "constraints")
    calibration: "Calibration | None" = None
    """The calibration of its probabilities, fitted on held-out text; None: it is not calibrated."""
    aligning_head: AligningHead | None = None
    """The head of the cross-attention that aligns words, chosen on validation text; None: it was not searched for."""
    word_forms: WordForms | None = None
    """The usual forms of the words of the training text; None: they are unknown, or the text has no capitals."""

    def __init__(
        self,
        model: "Transformer | Engine",
        tokenizers: GivenTokenizers,
        decode: DecodeConfig | None = None,
        languages: Mapping[str, int] | None = None,
        text: TrainingTextStats | None = None,
    ) -> None:
        """Puts the parts of a translator together.

        Args:
            model: a PyTorch model, or an engine that has one or several models.
            decode: the default settings of the search.
            languages: the language codes of a multilingual model, with their ids.
            text: the statistics of the training lines; None: unknown, and no line is split into sentences.
        """
        super().__init__(model, tokenizers, decode, languages=languages, text=text)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: "str | torch.device" = "auto",
        dtype: "str | torch.dtype | None" = None,
        source_language: str | None = None,
        target_language: str | None = None,
        *,
        revision: str | None = None,
        parts: "Parts | None" = None,
        tokenizer: GivenTokenizers | None = None,
        engine: EngineName = "auto",
        threads: int | None = None,
        ensemble: Sequence[str | Path] = (),
    ) -> Self:
        """Opens the translator of a run folder, a model folder, a Hugging Face folder, or a name (at a `revision`).

        Takes the arguments of `TextModel.load`, and the default source and target language of a multilingual model.

        Args:
            engine: "torch", Pellucid's search, which is the reference; "compiled" (the extra `fast`), the same search
                compiled for the processor, for models in float32 on a CPU; "auto", the default, which is "compiled" if
                that is installed and supports the model, else "torch"; or "ctranslate2" (the extra `ct2`), which also
                supports `dtype="int8"`, and requires no PyTorch once the folder's cache holds the converted model.
                CTranslate2 has no traces and no custom searches, and its results depend on the batch.
            threads: CPU cores for CTranslate2; None: all. For the other engines call `torch.set_num_threads`.
            ensemble: further models that form an ensemble with the first one (see `Translator.ensemble`).

        Raises CheckpointError if the model is missing or damaged, is for another task or has no tokenizer;
        ConfigError for an unknown language, device, precision or engine, and for an option that the engine lacks.
        """
        if isinstance(ensemble, str | Path):
            raise ConfigError(
                f"{format_argument('ensemble', format_value(str(ensemble)))} is a single name", "pass a list of folders"
            )
        if engine not in ENGINES:
            raise ConfigError(
                f"unknown {format_argument('engine', format_value(engine))}{did_you_mean(engine, ENGINES)}",
                f"choose one of {', '.join(ENGINES)}",
            )
        if ensemble:
            how = {"engine": engine if engine == "ctranslate2" else None, "parts": parts, "tokenizer": tokenizer}
            return cls._load_ensemble(
                [folder, *ensemble], (device, dtype, source_language, target_language), revision, how, engine
            )
        if engine == "ctranslate2":
            found = cls._on_ctranslate2(resolve_model(folder, revision), str(device), dtype, parts, tokenizer, threads)
        elif threads is not None:
            raise ConfigError(
                f"{format_argument('threads', threads)} is for the engine ctranslate2",
                "call `torch.set_num_threads`",
            )
        else:
            found = cls._open(folder, engine, device, dtype, revision, parts, tokenizer)
        spoken = (found.languages, source_language, target_language, found.pairs)
        found.decode = set_languages(found.decode, found.config, found.tokenizers, *spoken)
        return found

    @classmethod
    def _load_ensemble(
        cls,
        folders: Sequence[str | Path],
        place: tuple[Any, ...],
        revision: str | None,
        how: Mapping[str, Any],
        engine: EngineName,
    ) -> Self:
        """Opens several translators as one ensemble."""
        for name, value in how.items():
            if value is not None:
                raise ConfigError(
                    f"{format_argument(name, value) if isinstance(value, str) else f'`{name}=`'} cannot be combined "
                    "with `ensemble=`, whose models all run in PyTorch and are opened from their folders",
                    "leave one of them out"
                    if name == "engine"
                    else "load each model separately, and call `Translator.ensemble`",
                )
        first = Translator.load(folders[0], *place, revision=revision, engine=engine)
        others = [Translator.load(folder, *place, engine=engine) for folder in folders[1:]]
        return cls.ensemble([first, *others], [str(folder) for folder in folders])

    @classmethod
    def ensemble(cls, translators: Sequence["Translator"], names: Sequence[str] = ()) -> Self:
        """Returns an ensemble of translators: each token is chosen by the mean of their log-probabilities.

            both = pellucid.Translator.ensemble([pellucid.Translator.load("a"), pellucid.Translator.load("b")])
            both.translate(["Ein Hund läuft ."])[0].text

        They share the target vocabulary; each encodes a source with its own tokenizer. The settings of the first
        translator apply to all. A score is the mean of the models' scores. Error messages use `names`.

        Raises ConfigError for fewer than two translators, and for models with different target vocabularies, devices or
        languages.
        """
        from pellucid.engines.ensemble import EnsembleEngine, Member

        if len(translators) < 2:
            raise ConfigError(
                f"an ensemble requires at least two models, and this one has {len(translators)}", "add another"
            )
        if odd := [
            one for one in translators if not (isinstance(one, Translator) and isinstance(one.engine, PyTorchEngine))
        ]:
            raise ConfigError(
                f"{format_value(odd[0])} is not a translator with a single PyTorch model", "load it separately"
            )
        names = names or [f"model {number}" for number in range(1, len(translators) + 1)]
        members = [
            Member(name, one.engine, one.tokenizers, one.decode, one.languages)
            for name, one in zip(names, translators, strict=True)
        ]
        first = translators[0]
        found = cls(EnsembleEngine(members), first.tokenizers, first.decode, first.languages, first.text)
        found.word_forms = first.word_forms
        return found

    @classmethod
    def _on_ctranslate2(
        cls,
        folder: Path,
        device: str,
        dtype: object,
        parts: "Parts | None",
        tokenizer: GivenTokenizers | None,
        threads: int | None,
    ) -> Self:
        from pellucid.engines.conversion_cache import WITH_TORCH
        from pellucid.engines.ctranslate2 import open_engine

        if parts is not None:
            raise ConfigError("`parts=` are modules of PyTorch, which CTranslate2 cannot run", WITH_TORCH)
        if not is_hugging_face_folder(folder):
            check_task(cls.task, TASKS[read_config(folder)["task"]], folder)
        engine, described = open_engine(folder, device, dtype, tokenizer, threads)
        opened = cls(engine, described.tokenizers, described.decode, described.languages, described.text)
        if (folder / CALIBRATION).exists():
            from pellucid.evaluation.calibration import calibration_in  # it imports numpy

            opened.calibration = calibration_in(folder)
        opened.word_forms = WordForms.load(folder)
        return opened

    @classmethod
    def _open(
        cls, folder: str | Path, engine: EngineName, device: "str | torch.device", dtype: "str | torch.dtype | None",
        *how: Any,
    ) -> Self:  # fmt: skip
        """Opens a folder with the engine "torch", "compiled" or "auto"; `how` are further arguments of `open_model`."""
        from pellucid.engines.compiled.quick_start import can_start_quickly, keep_packed, load_packed, make_key

        key, place = "", Path(folder)
        if engine != "torch" and how.count(None) == len(how) and can_start_quickly(str(device), dtype):
            place = resolve_model(folder)
            key = make_key(place)
            if (packed := load_packed(place, key)) is not None:
                return cls._start_quickly(place, packed, lambda: open_model(folder, device, dtype, *how).model)
        found = cls._from_folder(folder, open_model(folder, device, dtype, *how))
        found.engine = choose_engine(found.model, engine)
        if key:
            keep_packed(place, key, found.engine)
        return found

    @classmethod
    def _start_quickly(cls, folder: Path, packed: Any, open_model: Callable[[], Any]) -> Self:
        from pellucid.engines.compiled.quick_start import QuickEngine

        described = read_description(folder)
        check_task(cls.task, TASKS[described.task], folder)
        engine = QuickEngine(described.config, packed, open_model)
        opened = cls(engine, described.tokenizers, described.decode, described.languages, described.text)
        return opened._read_findings(folder)

    @classmethod
    def _from_folder(cls, folder: str | Path, saved: "SavedModel") -> Self:
        return super()._from_folder(folder, saved)._read_findings(Path(folder))

    def _read_findings(self, folder: Path) -> Self:
        """Reads the files of a model folder that hold findings about the model and its training text."""
        from pellucid.evaluation.calibration import calibration_in

        self.calibration = calibration_in(folder)
        self.aligning_head = AligningHead.load(folder, self.config)
        self.word_forms = WordForms.load(folder)
        return self

    def save(self, folder: str | Path) -> None:
        from pellucid.evaluation.calibration import save_calibration

        super().save(folder)
        save_calibration(self.calibration, folder)
        keep_head(self.aligning_head, Path(folder))
        save_word_forms(self.word_forms, Path(folder))

    @classmethod
    def _from_saved(cls, saved: "SavedModel", tokenizers: TokenizerPair) -> Self:
        from pellucid.model.transformer import Transformer

        assert isinstance(saved.model, Transformer), "the task's record has them"
        return cls(saved.model, tokenizers, saved.decode, saved.languages, saved.text)

    @property
    def pairs(self) -> tuple[str, ...]:
        """The language pairs of the training, such as "de-en"; empty if they are unknown."""
        return () if self.text is None else self.text.pairs

    def _traits(self) -> list[str]:
        languages = [f"languages {format_names(self.languages)}"] if self.languages else []
        return [f"beam_size {self.decode.beam_size}", *languages]

    @describe_options(SearchOptions, LineOptions)
    def translate(self, sources: Sequence[str], **options: Unpack[LineOptions]) -> list[Translation]:
        """Returns the best translation of each line; that of an empty line is empty.

        If an option other than `max_length` is None, the model's setting applies.

        Args:
            sources: lines of text. If the model was trained on single sentences, a line of several sentences is
                translated sentence by sentence and joined with its original spaces; `Translation.sentences` lists the
                sentences. A sentence of more than `max_source_length` tokens is translated in parts, with a warning.
            options: the fields of `SearchOptions`, each by its name; `help()` lists them.

        Warns with LongTextWarning of sentences that are longer than the model's training text.

        Raises ConfigError for an invalid value, or a language that is unknown or missing; DataError if the number of
        prefixes or lists of terms differs from that of lines, for a prefix or term that exceeds the limit of a
        translation or that the vocabulary cannot express, and for a line of several parts with `constraints` or
        `next_token_alternatives`; DecodingError for terms with a custom search or a beam of one.
        """
        check_names("Translator.translate", options, LineOptions)
        return self._translate(sources, 0, SearchOptions(**options))

    @describe_options(SearchOptions, SampleOptions)
    def sample(
        self,
        sources: Sequence[str],
        config: SamplingConfig | None = None,
        max_length: int | UseModelDefault | None = "own",
        **options: Unpack[SampleOptions],
    ) -> list[Translation]:
        """Returns one sampled translation of each line; lines as in `translate`.

        The random numbers of a line depend on the seed and the line's index alone, not on neighbours or batches.

        Args:
            config: the sampling settings as one object, which `temperature`, `top_k`, `top_p`, `epsilon_cutoff` and
                `seed` override; None: the model's whole distribution.
            max_length: as in `translate`.
            options: the fields of `SearchOptions`, each by its name; `help()` lists them.

        Raises ConfigError and DecodingError for an invalid value.
        """
        check_names("Translator.sample", options, SampleOptions)
        given = SearchOptions(sampling=config or SamplingConfig(), max_length=max_length, **options)
        return self._translate(sources, 0, given)

    def _translate(self, sources: Sequence[str], place: int, options: SearchOptions) -> list[Translation]:
        """Translates lines of a stream, the first of which has the index `place`."""
        sources = check_lines(sources)
        if options.memory is not None:
            from pellucid.tasks.memory import translate_with_memory  # it imports sqlite3

            def translate(lines: Sequence[str], given: SearchOptions) -> list[Translation]:
                return self._translate(lines, place, given)

            return translate_with_memory(self, sources, options, translate)
        read = self._restore_lines(sources, options)
        found = self._search([line.text for line, _ in read], place, options)
        if options.min_confidence is not None:
            found = withhold_uncertain(found, sources, options.min_confidence, options.below or "source")
        return [
            note_restoration(one, source, line, kept, fixes_output=options.fixes_output)
            for one, source, (line, kept) in zip(found, sources, read, strict=True)
        ]

    def _restore_lines(
        self, sources: Sequence[str], options: SearchOptions
    ) -> list[tuple[RestoredLine, Sequence[str]]]:
        """Returns the lines in the usual forms of their words, as they are read, with the spans that stay."""
        if self.word_forms is None or options.repair == "off":
            return [(RestoredLine(line), ()) for line in sources]
        found = find_in_lines(sources, options.keep_patterns, known=self._protects(options))
        restored: list[tuple[RestoredLine, Sequence[str]]] = []
        for line, spans in zip(sources, found or [[] for _ in sources], strict=True):
            ranges = [(span.start, span.end) for span in spans]
            read = self.word_forms.restore(line, ranges, corrects=options.terms is None)
            restored.append((read, [line[start:end] for start, end in ranges]))
        return restored

    def _search(self, sources: Sequence[str], place: int, options: SearchOptions) -> list[Translation]:
        """Returns the translations with their flags, protected spans and confidences."""
        reranker = None
        if options.rerank is not None:
            from pellucid.tasks.reranking import open_reranker

            reranker = open_reranker(options.rerank, self)
        config = self.configure(options, reranker.n_best if reranker else None, stacklevel=6)
        sources = check_lines(sources)
        protected = None
        if spans := find_in_lines(sources, options.keep_patterns, known=self._protects(options)):
            from pellucid.tasks.protection import protect_lines, search_again  # they import numpy

            protected = protect_lines(sources, spans, options, self.tokenizers.source)
            sources = [line.rest.text for line in protected]
        lines = self.segmenter.segment(sources, config, stacklevel=5)
        if options.sampling is not None:
            found, searched = sample_lines(self.segmenter, lines, options, config, place), False
        else:
            search = TranslationSearch(self.segmenter, lines, options, config, reranker, self._term_writer)
            found, searched = search.run()
            if can_repair(search):
                found = repair_translations(search, found)
        if options.confidence or options.min_confidence is not None:
            from pellucid.tasks.coverage import flag_coverage
            from pellucid.tasks.forced_decoding import add_confidence, force

            forced = force(self.engine, found, config)
            tokenizer = self.tokenizers.target
            found = add_confidence(found, sources, forced, tokenizer, self.calibration, searched=searched)
            found = flag_coverage(self.aligner, found, sources, config)
        found = add_flags(found, sources, self._source_guard, self.calibration, searched=searched)
        if protected is None:
            return found
        align = partial(self.aligner.align, decode=config)
        restored = [line.restore(one, align) for line, one in zip(protected, found, strict=True)]
        if options.sampling or options.search or options.next_token_alternatives:
            return restored

        def search_whole(lines: Sequence[str], given: SearchOptions) -> list[Translation]:
            return self._search(lines, place, replace(given, keep=None, protect="off"))

        return search_again(protected, restored, options, search_whole, align)

    def _protects(self, options: SearchOptions) -> bool:
        """Returns True if placeholders, URLs and the like are copied without being asked for by `keep`."""
        if options.protect == "on":
            return True
        return options.protect != "off" and self.text is not None and self.text.is_known

    def configure(
        self, options: SearchOptions | None = None, candidates: int | None = None, *, stacklevel: int = 4
    ) -> DecodeConfig:
        """Returns the settings of one call: the translator's, overridden by the options, with the language codes.

        Args:
            options: the options of the call; None: the translator's settings alone.
            candidates: the number of hypotheses for a reranker.
            stacklevel: the stack level of warnings, counted from `set_languages`.

        Raises ConfigError for an invalid value, and a language that is unknown or missing.
        """
        options = options or SearchOptions()
        fixed = (self.config, self.tokenizers, self.languages)
        spoken = options.source_language, options.target_language
        decode = set_languages(
            options.settings(self.decode, candidates), *fixed, *spoken, self.pairs, stacklevel=stacklevel
        )
        check_languages(decode, *fixed)
        return decode

    @property
    def segmenter(self) -> Segmenter:
        """The segmenter of lines into the pieces that the engine translates."""
        return Segmenter(self.engine, self.tokenizers, self.languages, self.text)

    @property
    def aligner(self) -> "Aligner":
        """The aligner of the words of lines and translations."""
        from pellucid.tasks.word_alignment import Aligner  # it imports numpy

        return Aligner(self.engine, self.tokenizers, self.aligning_head)

    @cached_property
    def _source_guard(self) -> SourceGuard:
        several = len(self.languages) > 1  # a multilingual model was trained on several scripts
        return SourceGuard.from_text(self.tokenizers.source, None if several else self.text)

    def write_term(self, term: str) -> "Term":
        """Returns the spellings of a term. Raises DataError if the vocabulary cannot write it."""
        return self._term_writer.term((term,))

    @cached_property
    def _term_writer(self) -> TermEncoder:
        return TermEncoder(self.tokenizers.target)

    def process_lines(
        self, lines: Sequence[str] | Sequence[tuple[str, str]], place: int, **options: Unpack[AnswerOptions]
    ) -> list[Translation]:
        """Translates lines of a stream, the first of which has the index `place`; samples if `sampling` is given.

        If `prefixed`, the lines are pairs of a line and the prefix of its translation; if `termed`, pairs of a line and
        the terms that its translation must contain, with tabs between the terms.
        """
        texts, of_lines = SearchOptions(**options).for_lines(lines)
        return self._translate(texts, place, of_lines)

    def stream(self, lines: Iterable[str], **options: Unpack[StreamOptions]) -> Iterator[Translation]:
        """Translates lines one after another, in chunks of about four seconds and at most 2,048 lines.

            with open("big.de") as lines:
                for translation in translator.stream(lines, beam_size=4):
                    print(translation.text)

        Takes the options of `translate`; with `sampling` the translations are sampled. `prefixes` and `constraints` may
        be iterators of the same length as the lines, and are read along with them.
        """
        if isinstance(terms := options.get("terms"), Iterator):
            options["terms"] = [*terms]  # each chunk reads them
        return super().stream(lines, **options)

    def translate_document(
        self,
        path: str | Path,
        out: str | Path,
        *,
        report: str | Path | None = None,
        progress: Callable[[int, int], object] | None = None,
        label: str | None = None,
        in_place: bool = False,
        **options: Unpack[TranslateOptions],
    ) -> "DocumentReport":
        """Translates a document into one of the same kind: all but its text is copied.

            translator.translate_document("report.docx", "report.en.docx", target_language="en")

        A paragraph with its bold words, links and objects is translated as a whole, equal texts once. The output
        appears when it is complete, and has been read again and compared with the original.

        Args:
            path: a document: docx, html, po and others by the ending of its name.
            out: the translated document, another file with the same ending.
            report: a file for the totals, and the units that need a look, as JSON.
            progress: is called with the number of segments that are translated, and of all.
            label: the code of the target language for the labels of the document; None: `target_language`, or else the
                target of the model's language pair, or that which the document names.
            in_place: True if `out` may be the document, which is replaced when its translation is complete.
            options: the options of `translate`. A model of two languages needs `target_language` for the labels alone.

        Returns the outcome of each unit.

        Raises DataError for a file that is no such document, damaged, encrypted or too large; ConfigError for an output
        of another kind or that is the input; PellucidError if the translation has another structure than the original.
        """
        from pellucid.tasks.document_translation import translate_document

        return translate_document(
            self, path, out, report=report, progress=progress, label=label, in_place=in_place, **options
        )

    def evaluate(
        self,
        sources: Sequence[str],
        references: "References",
        *,
        tokenize: str = "auto",
        ter: bool = False,
        **options: Unpack[TranslateOptions],
    ) -> "Scores":
        """Translates `sources` and scores them against `references`, one each or several sets as [first, second].

        Args:
            tokenize: BLEU's tokenizer: "auto" selects it by the references' script, else its name (see score_corpus).
            ter: computes TER, too.
            options: the options of `translate`.

        Raises DataError if the lists differ in length or are empty, ConfigError for an invalid option.
        """
        from pellucid.evaluation.scores import score_corpus

        outputs = [translation.text for translation in self.translate(sources, **options)]
        return score_corpus(outputs, references, tokenize=tokenize, ter=ter)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> list[float]:
        """Returns the log-probability of each target given its source, end token included, as `Translation.score`.

        Raises DataError if the lists differ in length, or a text exceeds the model's positions; ConfigError for a
        language that is unknown or missing.
        """
        spoken = SearchOptions(source_language=source_language, target_language=target_language)
        decode, segmenter = self.configure(spoken), self.segmenter
        src, tgt = segmenter.encode_pairs(sources, targets)
        segmenter.check_lengths(src, tgt, decode)
        return self.engine.scores(src, tgt, decode)

    def score_sequences(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        confidence: bool = False,
    ) -> list[SequenceScore]:
        """Returns the scores of `score` with the numbers of tokens; a pair too long for the model has no score.

        With `confidence` each pair that has a score gets `SequenceScore.confidence`, too.

        Raises DataError if the lists differ in length; ConfigError for a language that is unknown or missing.
        """
        spoken = SearchOptions(source_language=source_language, target_language=target_language)
        decode, segmenter = self.configure(spoken), self.segmenter
        pairs = list(zip(*segmenter.encode_pairs(sources, targets), strict=True))
        faults = [segmenter.find_too_long(src, tgt, decode) for src, tgt in pairs]
        fitting = [pair for pair, fault in zip(pairs, faults, strict=True) if not fault]
        values = iter(self.engine.log_probs([s for s, _ in fitting], [t for _, t in fitting], decode))
        found = []
        for (src, tgt), fault, source, target in zip(pairs, faults, sources, targets, strict=True):
            if fault:
                found.append(SequenceScore(math.nan, len(tgt) + 1, fault))
                continue
            of_pair = next(values)
            sure = None
            if confidence:
                from pellucid.tasks.confidence import ForcedDecoding, estimate_confidence

                sure = estimate_confidence(
                    self.tokenizers.target, self.calibration, source, target, [ForcedDecoding(src, tgt, of_pair)]
                )
            found.append(SequenceScore(math.fsum(of_pair), len(tgt) + 1, confidence=sure))
        return found

    def trace(
        self, source: str, target: str | None = None, *, residual: bool = False, **options: Unpack[TranslateOptions]
    ) -> "Trace":
        """Records all attentions and predictions of one translation; tokens as text.

        Without a target, the search of `translate` is recorded, too: `trace.search` is its tree,
        `trace["search.cross"]` the attention of each live hypothesis at each step, and the best hypothesis is the
        target. Takes the options of `translate`. A custom search based on `beam_search` or `greedy_search` leaves its
        tree; for any other custom search the trace has the pass over its best hypothesis, and `trace.search` is None. A
        line that would be split into sentences or pieces is read whole, with a warning if it has several sentences,
        since its translation then differs from that of `translate`. `residual=True` keeps the residual stream, too.

        Raises DataError for an empty source, or a text that exceeds the model's positions; ConfigError as `translate`
        does, and for a search if a target is given.
        """
        from pellucid.tasks.tracing import trace_search, trace_translation

        self.engine.require("trace")
        given = SearchOptions(**options)
        given.check_trace(target)
        decode, segmenter = self.configure(given), self.segmenter
        if target is None:
            source = self._restore_lines([source], given)[0][0].text
        src = self.tokenizers.source.encode(source)
        if not src:
            raise DataError("the source is empty, so there is nothing to trace")
        segmenter.warn_of_sentences(source, len(src), decode)
        if target is None:
            segmenter.check_lengths([src], [], decode)
            found = trace_search(self.model, self.tokenizers, decode, src, given.search, residual)
        else:
            tgt = self.tokenizers.target.encode(target)
            segmenter.check_lengths([src], [tgt], decode)
            found = trace_translation(self.model, self.tokenizers, decode, src, tgt, residual)
        if self.aligning_head is None:
            return found
        return replace(found, model={**found.model, **self.aligning_head.to_trace_facts()})


def confidence_settings(translator: Translator, *, asked: bool) -> dict[str, Any]:
    """Returns the settings that determine the confidences of a stream, which must match to resume its output."""
    calibration = translator.calibration
    return {"confidence": "not calibrated" if calibration is None else asdict(calibration)} if asked else {}
