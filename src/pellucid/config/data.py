"""[data]: the texts and how they become ids."""

import re
from dataclasses import dataclass, fields
from typing import Literal

from pellucid.config.tables import SettingsBase, check_at_least, check_fields, check_probabilities
from pellucid.errors import ConfigError, format_quoted

OnBadUtf8 = Literal["error", "replace", "skip"]
"""The handling of a line that is not UTF-8: an error, U+FFFD for each bad byte, or the line is skipped."""
Normalization = Literal["nfc", "nmt_nfkc", "none"]
"""The Unicode normalization of a text before tokenization."""

ONE_OR_SEVERAL = ("src", "tgt", "src_lang", "tgt_lang", "add_language", "valid_src", "valid_tgt")
"""Settings that take a string or a list of strings; a list of one is that string."""
CODE = re.compile(r"[A-Za-z0-9_]+")


def language_tag(code: str) -> str:
    """Returns the tag before a source that selects the target language."""
    return f"<2{code}>"


def check_language_code(name: str, code: str) -> None:
    """Raises ConfigError if the value of the setting `name` is not a language code."""
    if not CODE.fullmatch(code):
        raise ConfigError(
            f"`{name}` has {format_quoted(code)}, which is not a language code: a code has letters, digits and _",
            "write it as de, kor_Hang or pt_BR",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig(SettingsBase):
    """The texts and how they become ids."""

    src: str | tuple[str, ...] = ""
    """Source sentences, one per line, plain, gzip or zst; or a file with both sides: .tsv, .jsonl, .parquet, .tmx, OPUS
    .zip, a folder saved by `datasets`. Several corpora: a list, or a .list file with one name per line. For a
    classifier the texts; for a language model the only text."""
    tgt: str | tuple[str, ...] = ""
    """Target sentences, line by line with `src`; empty if `src` contains both sides. For a classifier the labels."""
    text: Literal["lines", "continuous"] = "lines"
    """With `task = "generate"`. lines: each line is a separate text. continuous: `src` is one continuous text, line
    ends included, and the model is trained on blocks of `max_length` tokens."""
    corpus_weights: tuple[float, ...] = ()
    """The number of uses of each corpus of a list per epoch, as in [1, 2.5]; a fraction samples a part of the corpus, a
    different part in each epoch. Empty: each corpus once.
    """
    corpus_weights_from: tuple[int, ...] = ()
    """The epochs, counted from 0, at which the weights of the corpora change: `corpus_weights` then contains the
    weights of all corpora for the first phase, the second phase and so on, as in corpus_weights = [1, 0.1, 1, 3] with
    corpus_weights_from = [0, 4]. Empty: one phase."""
    sampling_temperature: float = 0.0
    """Temperature sampling of corpora, instead of `corpus_weights`: the share of a corpus of n pairs in an epoch is
    proportional to n ^ (1 / sampling_temperature); the length of an epoch does not change. 1: in proportion to n; above
    1: small corpora are used more often; 0: each corpus once."""
    src_lang: str | tuple[str, ...] = ""
    """The language code of the sources, as "de": one for all corpora, or one for each corpus of a list. With `tgt_lang`
    one model learns several language pairs; a tag before each source selects the target language: <2en>."""
    tgt_lang: str | tuple[str, ...] = ""
    """The same for the targets."""
    add_language: str | tuple[str, ...] = ""
    """With `train.init_from`: the codes in `src_lang` and `tgt_lang` of languages that are new to the model. The
    vocabulary (bpe) is extended by subwords for their text and by tags; an imported model's vocabulary by tags only."""
    max_new_pieces: int = 2000
    """The largest number of subwords that are added to a vocabulary for new languages."""
    valid_src: str | tuple[str, ...] = ""
    """Source sentences of the validation set; empty: a part of the training text is held out. For several language
    pairs a list: a file for each pair, in the order of their first occurrence in `src`, or for each corpus."""
    valid_tgt: str | tuple[str, ...] = ""
    """Target sentences of the validation set."""
    valid_size: int = 1000
    """Pairs held out for validation if no validation set is given (at most a tenth of the text). For a continuous text
    it is always the last tenth."""
    test_src: str = ""
    """Source sentences of the test set for `pellucid evaluate`; training reports which of them its text contains."""
    test_tgt: str = ""
    """Target sentences of the test set."""
    tsv_columns: tuple[int, ...] = (1, 2)
    """The columns of source and target in a .tsv file, counted from 1."""
    jsonl_keys: tuple[str, ...] = ("src", "tgt")
    """The keys of source and target in a .jsonl file; a dot selects a key of a nested object, as in
    "translation.de"."""
    cache_dir: str = ""
    """The cache folder for data that is derived from the texts (issues, tokenizers, ids), shared by all runs that name
    it; computed once, and resumed after an interruption. Empty: texts of 256 MiB or more use the user's cache, smaller
    ones the run folder. It does not change results."""
    on_bad_utf8: OnBadUtf8 = "error"
    """For a training or validation line that is not UTF-8. error: stop; replace: put U+FFFD for each bad byte; skip:
    drop the pair."""
    on_copy: Literal["keep", "skip"] = "keep"
    """For a training pair whose target equals its source: keep or skip it. Copies harm translation, but are correct in
    normalization."""
    on_duplicate: Literal["keep", "skip"] = "keep"
    """For a training pair that occurred before, in any of the corpora: keep or skip it."""
    tokenizer: str = "bpe"
    """bpe, unigram, words, characters, bytes, spaces (tokenized text), or the path of a SentencePiece model."""
    normalize: Normalization = "nfc"
    """The Unicode normalization of a text before tokenization, stored with the tokenizer. nfc: composed letters, single
    plain spaces, no invisible characters; nmt_nfkc: SentencePiece's, which also replaces full-width letters and
    ligatures; none: no change. A continuous text is not changed, and a SentencePiece model has its own rules."""
    symbols: tuple[str, ...] = ()
    """Tokens that a tokenizer never splits nor merges, such as "<formal>" (bpe, unigram and spaces only)."""
    corpus_tags: tuple[str, ...] = ()
    """A tag for each corpus of a list, put before each of its sources, as in ["<web>", "<news>"]."""
    vocab_size: int = 8000
    """Maximum size of the vocabulary; a small text may give fewer entries."""
    joint_vocab: bool = True
    """One vocabulary for source and target."""
    tgt_vocab_size: int = 0
    """Maximum size of the target vocabulary with `joint_vocab = false`; 0: `vocab_size`."""
    lowercase: bool = False
    """Lower-case the text (words, characters and spaces only)."""
    tokenizer_sample_size: int = 0
    """The number of pairs on which a tokenizer is trained: about this many of a larger corpus, selected by a hash of
    each pair. 0: all pairs; of more than 2,097,152 pairs about 150,000."""
    min_frequency: int = 1
    """The minimum number of occurrences of a word that gets an id (words and spaces only)."""
    byte_fallback: bool = True
    """Write characters that the vocabulary lacks as bytes (bpe, unigram and characters only)."""
    max_length: int = 256
    """The longest sentence to train on, in tokens; for a continuous text the length of a block."""
    on_too_long: Literal["skip", "cut"] = "skip"
    """For a pair with a side longer than `max_length`. skip: drop it; cut: truncate its sides. Training reports the
    number."""
    concatenate: float = 0.0
    """The share of the pairs of an epoch that are joined with one or two others, sampled anew in each epoch, within
    `max_length`: a translator thus learns lines of several sentences."""
    subword_regularization: float = 0.0
    """Subword regularization: a training sentence is tokenized differently each time. bpe: BPE-dropout, the probability
    with which each possible merge is skipped until the next one is made (0.1 makes a text some 20 % longer); unigram:
    the flatness of the distribution from which the tokens are sampled, 1 / (1 + Kudo's alpha). 0: always the best
    tokenization.
    """

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, list | tuple):  # immutable at all levels; a list of one file is that file
                single = f.name in ONE_OR_SEVERAL and len(value) == 1
                object.__setattr__(self, f.name, value[0] if single else tuple(value))
        check_fields(self)
        check_at_least(self, ("valid_size", "vocab_size", "min_frequency", "max_length"), 1)
        check_at_least(self, ("tgt_vocab_size", "tokenizer_sample_size", "max_new_pieces"), 0)
        check_probabilities(self, ("concatenate", "subword_regularization"))
        self._check_lists()
        self._check_languages()

    def files(self, name: str) -> tuple[str, ...]:
        """Returns the files of a text field such as "src": none, one or several."""
        value: str | tuple[str, ...] = getattr(self, name)
        return value if isinstance(value, tuple) else (value,) if value else ()

    def pairs(self, corpora: int) -> tuple[tuple[str, str], ...]:
        """Returns the source and target language of each of `corpora` corpora; empty if no languages are given.

        Raises ConfigError if there is neither one code for all corpora nor one for each.
        """
        sides = []
        for name in ("src_lang", "tgt_lang"):
            codes = self.files(name)
            if len(codes) not in (0, 1, corpora):
                raise ConfigError(
                    f"`data.{name}` ({list(codes)}) must be one code, or one for each corpus ({corpora})",
                    "give a code for each file in `data.src`",
                )
            sides.append(codes * corpora if len(codes) == 1 else codes)
        return tuple(zip(*sides, strict=True))

    def _check_languages(self) -> None:
        for name, other in (("src_lang", "tgt_lang"), ("tgt_lang", "src_lang")):
            codes = self.files(name)
            if codes and not self.files(other):
                raise ConfigError(f"`{name}` ({', '.join(codes)}) requires `{other}`", f"give `{other}`, too")
            for code in codes:
                check_language_code(name, code)
        named = (*self.files("src_lang"), *self.files("tgt_lang"))
        if missing := [code for code in self.files("add_language") if code not in named]:
            raise ConfigError(
                f"`add_language` has {', '.join(map(format_quoted, missing))}, which `src_lang` and `tgt_lang` do "
                "not have",
                "name the languages of each corpus by these two",
            )
        if self.tgt_lang and self.corpus_tags:
            raise ConfigError(
                f"`corpus_tags` ({list(self.corpus_tags)}) and `tgt_lang` ({', '.join(self.files('tgt_lang'))}) "
                f"exclude each other: "
                "both put a tag before each source",
                "leave one of them out",
            )
        if self.concatenate and len({*self.files("tgt_lang")}) > 1:
            raise ConfigError(
                f"`concatenate` ({self.concatenate:g}) would join sentences with different target languages: "
                f"`tgt_lang` is {', '.join(self.files('tgt_lang'))}",
                "leave it out",
            )

    def _check_lists(self) -> None:
        for name in ("tsv_columns", "jsonl_keys"):
            if len(getattr(self, name)) != 2:
                raise ConfigError(f"`{name}` ({list(getattr(self, name))}) must have two entries: source and target")
        if min(self.tsv_columns) < 1:
            raise ConfigError(f"`tsv_columns` ({list(self.tsv_columns)}) are counted from 1")
        for name in ("symbols", "corpus_tags"):
            for symbol in getattr(self, name):
                if not symbol or symbol != "".join(symbol.split()) or "\u2581" in symbol or not symbol.isprintable():
                    raise ConfigError(
                        f"`{name}` has {format_quoted(symbol)}, which is not a symbol: a word without spaces",
                        "write it as in <web>",
                    )
        if self.corpus_weights_from:
            starts = list(self.corpus_weights_from)
            if (
                starts[0] != 0
                or starts != sorted({*starts})
                or len(self.corpus_weights) % len(starts)
                or not self.corpus_weights
            ):
                raise ConfigError(
                    f"`corpus_weights_from` ({starts}) must be increasing epochs that begin with 0, and "
                    f"`corpus_weights` "
                    f"({list(self.corpus_weights)}) must have equally many numbers for each of them",
                    "give the weights of all corpora for each of these epochs, one after the other",
                )
            if min(self.corpus_weights) < 0:
                raise ConfigError(f"`corpus_weights` ({list(self.corpus_weights)}) must be at least 0")
        elif self.corpus_weights and min(self.corpus_weights) <= 0:
            raise ConfigError(
                f"`corpus_weights` ({list(self.corpus_weights)}) must be above 0", "leave out a corpus that is not used"
            )
        if self.sampling_temperature and (self.sampling_temperature < 1 or self.corpus_weights):
            raise ConfigError(
                f"`sampling_temperature` ({self.sampling_temperature:g}) "
                + ("and `corpus_weights` exclude each other" if self.corpus_weights else "must be 0, or 1 and above"),
                "leave one of them out"
                if self.corpus_weights
                else "1 samples in proportion to size, 5 much more evenly",
            )
