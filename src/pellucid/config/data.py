"""[data]: the texts and how they become ids."""

import re
from dataclasses import dataclass, fields
from typing import Literal

from pellucid.config.tables import Settings, check_at_least, check_fields, check_probabilities
from pellucid.errors import ConfigError, quoted

OnBadUtf8 = Literal["error", "replace", "skip"]
"""The fate of a line that is not UTF-8: an error, U+FFFD for each bad byte, or nothing of it."""
Normalization = Literal["nfc", "nmt_nfkc", "none"]
"""The spellings of a text before it becomes ids."""

ONE_OR_SEVERAL = ("src", "tgt", "src_lang", "tgt_lang", "add_language", "valid_src", "valid_tgt")
"""Settings that are a text or a list of them; a list of one is that text."""
CODE = re.compile(r"[A-Za-z0-9_]+")


def language_tag(code: str) -> str:
    """Returns the symbol that stands before a source and says in which language to write."""
    return f"<2{code}>"


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig(Settings):
    """The texts and how they become ids."""

    src: str | tuple[str, ...] = ""
    """Source sentences, one a line, plain, gzip or zst; or what holds both sides: .tsv, .jsonl, .parquet, .tmx, OPUS's
    .zip, a folder that `datasets` has saved. Several corpora: a list, or a .list, a file that names one a line. A
    classifier's texts; all that a language model reads."""
    tgt: str | tuple[str, ...] = ""
    """Target sentences, line by line with `src`; empty where `src` holds both sides. A classifier's labels."""
    text: Literal["lines", "running"] = "lines"
    """With `task = "generate"`: each line is a text of its own, or `src` is one running text, its line ends included,
    that is trained on in blocks of `max_length` tokens."""
    weights: tuple[float, ...] = ()
    """The times that each corpus of a list is seen in an epoch, as in [1, 2.5]; a fraction draws a part of it, another
    one each epoch. Empty: each once.
    """
    weights_from: tuple[int, ...] = ()
    """The epochs, counted from 0, from which on one mix after the other holds: `weights` is then the first mix, the
    second one and so on, as in weights = [1, 0.1, 1, 3] with weights_from = [0, 4]. Empty: one mix."""
    temperature: float = 0.0
    """In place of `weights`: the part of an epoch that a corpus of n pairs is of goes with n ^ (1 / temperature), while
    an epoch stays as long. 1: in proportion; above 1 small corpora are seen more often; 0: each corpus once."""
    src_lang: str | tuple[str, ...] = ""
    """The code of the language of the sources, as "de": one for all corpora, or one for each of a list. With `tgt_lang`
    one model learns several pairs of languages, told by a tag before each source which one to write: <2en>."""
    tgt_lang: str | tuple[str, ...] = ""
    """The same of the targets."""
    add_language: str | tuple[str, ...] = ""
    """With `train.init_from`: the codes of languages, of those in `src_lang` and `tgt_lang`, that the model does not
    know yet. Its vocabulary (bpe) gets pieces for their text, and tags; that of an opened model tags alone."""
    added_pieces: int = 2000
    """The most pieces that a vocabulary gets for the languages to add."""
    valid_src: str | tuple[str, ...] = ""
    """Source sentences to validate on; empty: some are cut off the training text. Of several pairs of languages a list:
    a file for each pair, in the order in which they first come up in `src`, or for each corpus."""
    valid_tgt: str | tuple[str, ...] = ""
    """Target sentences to validate on."""
    valid_size: int = 1000
    """Pairs cut off for validation where no validation text is given (at most a tenth of the text). Of a running text
    it is always the last tenth."""
    test_src: str = ""
    """Source sentences that `pellucid evaluate` is to be run on; training says which of them its text holds."""
    test_tgt: str = ""
    """Target sentences of the test."""
    tsv_columns: tuple[int, ...] = (1, 2)
    """The columns of a .tsv file that hold source and target, counted from 1."""
    jsonl_keys: tuple[str, ...] = ("src", "tgt")
    """The keys of a .jsonl file that hold source and target; a dot goes into a table, as in "translation.de"."""
    prepared: str = ""
    """A folder in which what is made of the texts (what is wrong in them, tokenizers, ids) is kept for all runs that
    name it; made once, whatever interrupts it. Empty: texts of 256 MiB or more use the user's cache, others the run's
    own folder. It changes no result."""
    on_bad_utf8: OnBadUtf8 = "error"
    """A training or validation line that is not UTF-8: stop, put U+FFFD for each bad byte, or leave its pair out."""
    on_copy: Literal["keep", "skip"] = "keep"
    """A training pair whose target is its source. It harms translation, and is right in normalisation."""
    on_duplicate: Literal["keep", "skip"] = "keep"
    """A training pair that occurred before, in any of the corpora."""
    tokenizer: str = "bpe"
    """bpe, unigram, words, characters, bytes, spaces (already cut text), or the path of a SentencePiece model."""
    normalize: Normalization = "nfc"
    """The spelling of a text before it becomes ids, kept in the tokenizer's file: composed letters and plain single
    spaces, without invisible characters (nfc); full-width letters and ligatures made plain, too (nmt_nfkc,
    SentencePiece's); as it is (none). A running text stays as it is, and a SentencePiece model has its own."""
    symbols: tuple[str, ...] = ()
    """Pieces that a tokenizer never cuts nor merges, such as "<formal>" (bpe, unigram and spaces only)."""
    tags: tuple[str, ...] = ()
    """A symbol for each corpus of a list, which stands before each of its sources, as in ["<web>", "<news>"]."""
    vocab_size: int = 8000
    """Upper bound of the vocabulary; the text may give fewer words."""
    joint: bool = True
    """One vocabulary for both sides."""
    target_vocab_size: int = 0
    """Upper bound of the target's vocabulary where each side has its own; 0: `vocab_size`."""
    lowercase: bool = False
    """Lower-case the text (words, characters and spaces only)."""
    tokenizer_pairs: int = 0
    """The pairs that a tokenizer learns from: of a larger corpus about so many, chosen by a hash of each. 0: all; of
    more than 2,097,152 about 150,000."""
    min_frequency: int = 1
    """The times that a word must occur to have an id (words and spaces only)."""
    byte_fallback: bool = True
    """Write what the vocabulary lacks as bytes (bpe, unigram and characters only)."""
    max_length: int = 256
    """The longest sentence trained on, in tokens; of a running text the length of a block."""
    on_too_long: Literal["skip", "cut"] = "skip"
    """A pair with a longer side: leave it out, or cut its sides to `max_length`. Either is counted and said."""
    concatenate: float = 0.0
    """The part of the pairs of an epoch that is joined with one or two others, drawn anew each time, as far as
    `max_length` allows: so a translator learns lines of more than one sentence."""
    subword_sampling: float = 0.0
    """The strength with which a training sentence is cut anew each time: the probability with which each possible merge
    is left out until the next one is made (bpe: the paper's BPE-dropout; 0.1 makes a text some 20 % longer), or the
    flatness of the distribution that its pieces are drawn from (unigram: 1 / (1 + Kudo's alpha)); 0: always the best
    pieces.
    """

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, list | tuple):  # frozen all the way down; a list of one file is that file
                single = f.name in ONE_OR_SEVERAL and len(value) == 1
                object.__setattr__(self, f.name, value[0] if single else tuple(value))
        check_fields(self)
        check_at_least(self, ("valid_size", "vocab_size", "min_frequency", "max_length"), 1)
        check_at_least(self, ("target_vocab_size", "tokenizer_pairs", "added_pieces"), 0)
        check_probabilities(self, ("concatenate", "subword_sampling"))
        self._check_lists()
        self._check_languages()

    def files(self, name: str) -> tuple[str, ...]:
        """Returns the files of a text field, say "src": none, one or several."""
        value: str | tuple[str, ...] = getattr(self, name)
        return value if isinstance(value, tuple) else (value,) if value else ()

    def pairs(self, corpora: int) -> tuple[tuple[str, str], ...]:
        """Returns the languages of source and target of each of so many corpora; none where they are not named.

        Raises ConfigError where they are neither one for all corpora nor one for each.
        """
        sides = []
        for name in ("src_lang", "tgt_lang"):
            codes = self.files(name)
            if len(codes) not in (0, 1, corpora):
                raise ConfigError(
                    f"`data.{name}` ({list(codes)}) must be one code, or as many as the corpora ({corpora})",
                    "give a code for each file in `data.src`",
                )
            sides.append(codes * corpora if len(codes) == 1 else codes)
        return tuple(zip(*sides, strict=True))

    def _check_languages(self) -> None:
        for name, other in (("src_lang", "tgt_lang"), ("tgt_lang", "src_lang")):
            codes = self.files(name)
            if codes and not self.files(other):
                raise ConfigError(f"`{name}` ({', '.join(codes)}) is given without `{other}`", f"give `{other}`, too")
            for code in codes:
                if not CODE.fullmatch(code):
                    raise ConfigError(
                        f"`{name}` has {quoted(code)}, which is no code of a language: one is letters, digits and _",
                        "write it as de, kor_Hang or pt_BR",
                    )
        named = (*self.files("src_lang"), *self.files("tgt_lang"))
        if missing := [code for code in self.files("add_language") if code not in named]:
            raise ConfigError(
                f"`add_language` has {', '.join(map(quoted, missing))}, which `src_lang` and `tgt_lang` do not have",
                "name the languages of each corpus by these two",
            )
        if self.tgt_lang and self.tags:
            raise ConfigError(
                f"`tags` ({list(self.tags)}) and `tgt_lang` ({', '.join(self.files('tgt_lang'))}) exclude each other: "
                "both put a tag before each source",
                "leave one of them out",
            )
        if self.concatenate and len({*self.files("tgt_lang")}) > 1:
            raise ConfigError(
                f"`concatenate` ({self.concatenate:g}) would join sentences that are to be written in different "
                f"languages: `tgt_lang` is {', '.join(self.files('tgt_lang'))}",
                "leave it out",
            )

    def _check_lists(self) -> None:
        for name in ("tsv_columns", "jsonl_keys"):
            if len(getattr(self, name)) != 2:
                raise ConfigError(f"`{name}` ({list(getattr(self, name))}) must name two: of the source, of the target")
        if min(self.tsv_columns) < 1:
            raise ConfigError(f"`tsv_columns` ({list(self.tsv_columns)}) are counted from 1")
        for name in ("symbols", "tags"):
            for symbol in getattr(self, name):
                if not symbol or symbol != "".join(symbol.split()) or "\u2581" in symbol or not symbol.isprintable():
                    raise ConfigError(
                        f"`{name}` has {quoted(symbol)}, which is no symbol: one is a word without a space in it",
                        "write it as in <web>",
                    )
        if self.weights_from:
            starts = list(self.weights_from)
            if starts[0] != 0 or starts != sorted({*starts}) or len(self.weights) % len(starts) or not self.weights:
                raise ConfigError(
                    f"`weights_from` ({starts}) must be epochs from 0 on in their order, and `weights` "
                    f"({list(self.weights)}) have as many numbers for each",
                    "give the weights of all corpora for each of them, one mix after the other",
                )
            if min(self.weights) < 0:
                raise ConfigError(f"`weights` ({list(self.weights)}) must be at least 0")
        elif self.weights and min(self.weights) <= 0:
            raise ConfigError(f"`weights` ({list(self.weights)}) must be above 0", "leave out a corpus not to be used")
        if self.temperature and (self.temperature < 1 or self.weights):
            raise ConfigError(
                f"`temperature` ({self.temperature:g}) "
                + ("and `weights` exclude each other" if self.weights else "must be 0, or 1 and above"),
                "leave one of them out" if self.weights else "1 is in proportion, 5 much more even",
            )
