"""The tokenization of BLEU: chooses one of sacreBLEU's tokenizers by the script of the references."""

import os
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
from sacrebleu.utils import SACREBLEU_DIR

from pellucid.errors import ConfigError, did_you_mean

AUTO = "auto"
TOKENIZERS = ("13a", "zh", "char", "intl", "none", "ja-mecab", "ko-mecab", "flores200")
EXTRAS = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}
"""The packages to install for tokenizers whose dictionaries are not part of sacreBLEU."""

Script = Literal["chinese", "japanese", "korean", "unspaced", "other"]
KANA = ("HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA")
UNSPACED = (
    "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "JAVANESE", "BALINESE", "TAI THAM", "TAI LE", "NEW TAI LUE",
    "YI SYLLABLE",
)  # fmt: skip
"""Prefixes of the Unicode names of letters in scripts without spaces between words, except Chinese and Japanese."""


def detect_bleu_script(texts: Iterable[str]) -> Script:
    """Returns the script that determines the tokenization: a script of at least a quarter of the letters.

    A quarter suffices since a character of these scripts carries about as much as three Latin letters. Chinese
    characters with at least one kana in twenty are Japanese. Texts without letters are "other".
    """
    counts = Counter(char for text in texts for char in text)
    names = {unicodedata.name(char, ""): count for char, count in counts.items() if char.isalpha()}

    def letters(*beginnings: str) -> int:
        return sum(count for name, count in names.items() if name.startswith(beginnings))

    kana, han = letters(*KANA), letters("CJK")
    found: dict[Script, int] = {
        "japanese" if kana and 20 * kana >= kana + han else "chinese": kana + han,
        "korean": letters("HANGUL"),
        "unspaced": letters(*UNSPACED),
    }
    script = max(found, key=found.__getitem__)
    return script if found[script] and 4 * found[script] >= sum(names.values()) else "other"


def tokenizer_for(texts: Iterable[str]) -> str:
    """Returns the tokenizer for the script of the texts, whatever is installed, so that scores are reproducible."""
    by_script = {"chinese": "zh", "other": "13a"}
    return by_script.get(detect_bleu_script(texts), "char")


def bleu_metric(tokenize: str, *, lowercase: bool = False) -> BLEU:
    """Returns sacreBLEU's metric with one of TOKENIZERS.

    Raises ConfigError for an unknown name, and for a tokenizer whose dictionary or model is not on this machine, since
    nothing is downloaded.
    """
    if tokenize not in TOKENIZERS:
        raise ConfigError(
            f"the tokenizer `{tokenize[:80]}` is unknown{did_you_mean(tokenize, (AUTO, *TOKENIZERS))}",
            f"choose one of {', '.join((AUTO, *TOKENIZERS))}",
        )
    if tokenize in SPM_MODELS:
        path = os.path.join(SACREBLEU_DIR, "models", os.path.basename(SPM_MODELS[tokenize]["url"]))
        if not os.path.exists(path):
            raise ConfigError(
                f"the tokenizer `{tokenize}` requires a SentencePiece model that is missing: `{path}`",
                f"let sacreBLEU download it once: `sacrebleu REF -i OUTPUT --tokenize {tokenize}`",
            )
    try:
        return BLEU(force=True, lowercase=lowercase, tokenize=tokenize)
    except RuntimeError as error:
        if tokenize not in EXTRAS:
            raise
        raise ConfigError(
            f"the tokenizer `{tokenize}` requires a dictionary that is not installed",
            f'install it, `pip install "{EXTRAS[tokenize]}"`, or choose `char`',
        ) from error
