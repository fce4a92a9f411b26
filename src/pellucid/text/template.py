"""The template of a Hugging Face tokenizer: the ids that it puts before and after a source text."""

from collections.abc import Mapping
from dataclasses import dataclass

from pellucid.text.foreign_files import ForeignFiles
from pellucid.text.hugging_face import HUGGING_FACE_KIND, HuggingFaceTokenizer
from pellucid.text.tokenizer import TokenizerBase

_WITH_CODES = {
    "M2M100Tokenizer": "en",
    "MBart50Tokenizer": "en_XX",
    "MBartTokenizer": "en_XX",
    "NllbTokenizer": "eng_Latn",
}
"""The tokenizer classes of transformers that add a language code to the source, and the default code of each."""
_USUAL = (
    "BartTokenizer", "BertTokenizer", "CamembertTokenizer", "DistilBertTokenizer", "MarianTokenizer",
    "PegasusTokenizer", "RobertaTokenizer", "T5Tokenizer", "XLMRobertaTokenizer",
)  # fmt: skip
"""The classes that have the template of their family, regardless of tokenizer.json."""


@dataclass(frozen=True)
class Template:
    """The ids around a text."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


def read_template(
    files: ForeignFiles, tokenizer: TokenizerBase, languages: Mapping[str, int], *, continues: bool = False
) -> Template | None:
    """Returns the template of the tokenizer in a Hugging Face folder, or None if it is the model family's usual one.

    As in transformers, the tokenizer's class decides first: a class with language codes puts the code of its `src_lang`
    before the text and the end token after it, or both after it (mBART, and NLLB with `legacy_behaviour`); the other
    classes in `_USUAL` have the template of their family. A class without its own template uses the template in
    tokenizer.json, or, if there is no such file, the tokens that `add_bos_token` and `add_eos_token` enable.

    Args:
        languages: the language codes and their ids; empty if they are not special tokens.
        continues: if True, the model is decoder-only, and its tokenizer's class has no template.
    """
    kind = files.tokenizer_class
    if not kind and languages:
        kind = _class_by_files(files)
    if languages and kind in _WITH_CODES:
        return _add_code(files.settings, kind, tokenizer.eos_id, languages)
    if not continues and (not kind or kind in _USUAL or kind in _WITH_CODES):
        return None
    if isinstance(tokenizer, HuggingFaceTokenizer) and files.has(HUGGING_FACE_KIND):
        return Template(*tokenizer.around())
    return _select_switched(files.settings, tokenizer, files.config.get("model_type") == "qwen2")


def _class_by_files(files: ForeignFiles) -> str:
    """Returns the class of a tokenizer with language codes if no file names it; "" for mBART, which has two classes."""
    if files.config.get("model_type") != "m2m_100":
        return ""
    return "M2M100Tokenizer" if files.has("vocab.json") else "NllbTokenizer"


def _add_code(settings: Mapping[str, object], kind: str, eos_id: int, languages: Mapping[str, int]) -> Template:
    """Returns the template with the source language code.

    If the code belongs before the text and no source language is named, the template has no code: the translation must
    name it.
    """
    is_suffix = kind == "MBartTokenizer" or (kind == "NllbTokenizer" and settings.get("legacy_behaviour") is True)
    named = settings.get("src_lang")
    source = languages.get(str(named) if named is not None else _WITH_CODES[kind] if is_suffix else "")
    code = () if source is None else (source,)
    return Template((), (eos_id, *code)) if is_suffix else Template(code, (eos_id,))


def _select_switched(settings: Mapping[str, object], tokenizer: TokenizerBase, without_begin: bool) -> Template:
    """Returns the template with the begin and the end token, each only if its setting is true."""
    begins = settings.get("add_bos_token") is True and not without_begin
    ends = settings.get("add_eos_token") is True
    return Template((tokenizer.bos_id,) if begins else (), (tokenizer.eos_id,) if ends else ())
