"""Loads the tokenizers of Hugging Face model folders: chooses the tokenizer by the files in the folder."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from pellucid.errors import CheckpointError, did_you_mean, format_value
from pellucid.files.reading import ID, decode_text, parse_settings
from pellucid.text.added_tokens import AddedToken, AddedTokens
from pellucid.text.foreign_files import SETTINGS, ForeignFiles, get_token_content
from pellucid.text.hugging_face import (
    HUGGING_FACE_KIND,
    HuggingFaceTokenizer,
    convert_library_errors,
    import_tokenizers,
)
from pellucid.text.language_codes import is_code, language_codes
from pellucid.text.remapped_sentencepiece import RemappedSentencePiece
from pellucid.text.sentencepiece_file import read_model
from pellucid.text.special_ids import find_special_ids
from pellucid.text.subwords import FOREIGN_KIND, SentencePieceTokenizer
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.tokenizers import TokenizerPair

_FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq's first ids; the first three pieces of its models are dropped
_SENTINELS = 100  # T5's `<extra_id_0>`, ...
_M2M_CODES = ("m2m100", "wmt21")
_KEEP_SPACES = ("MBart50Tokenizer", "NllbTokenizer")  # which keep a space before an added token as a piece
_USUAL_SPECIAL = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "<mask>",
    "<|endoftext|>",
)
_AROUND = {"vocab.txt": ("[CLS]", "[SEP]"), "vocab.json": ("<s>", "</s>")}
"""The tokens before and after every text, if no setting names others."""
_WITHOUT_TEMPLATE = ("gpt2", "qwen2")
"""The models with vocab.json and merges.txt that put no tokens around a text."""
_QWEN2_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


_FILES = {
    "marian": "source.spm, target.spm and vocab.json",
    "m2m_100": "tokenizer.json or sentencepiece.bpe.model (M2M-100: and vocab.json)",
    **dict.fromkeys(("mbart", "xlm-roberta", "camembert"), "tokenizer.json or sentencepiece.bpe.model"),
    **dict.fromkeys(("t5", "mt5", "pegasus"), "tokenizer.json or spiece.model"),
    **dict.fromkeys(("llama", "mistral"), "tokenizer.json or tokenizer.model"),
    **dict.fromkeys(("bert", "distilbert"), "tokenizer.json or vocab.txt"),
    **dict.fromkeys(("bart", "roberta", "gpt2", "qwen2", "qwen3"), "tokenizer.json, or vocab.json and merges.txt"),
}


def tokenizer_files(files: ForeignFiles) -> str:
    """Returns a text that lists the tokenizer files of a Hugging Face folder's model type; "" if it is unknown."""
    needed = _FILES.get(str(files.config.get("model_type")))
    return f"{needed}, and {SETTINGS}" if needed else ""


def load_hugging_face_tokenizers(files: ForeignFiles) -> TokenizerPair | None:
    """Returns the tokenizers in a Hugging Face folder, or None if it has no tokenizer file.

    | files | tokenizer |
    | --- | --- |
    | source.spm, target.spm, vocab.json | Marian: two SentencePiece models, one vocabulary |
    | tokenizer.json | any that the file describes, by the library `tokenizers` |
    | sentencepiece.bpe.model, vocab.json | M2M-100 |
    | sentencepiece.bpe.model | XLM-R, mBART, NLLB: fairseq's ids, language codes after the pieces |
    | spiece.model, tokenizer.model | T5 with its sentinels; Llama |
    | vocab.txt | BERT's WordPiece, by `tokenizers` |
    | vocab.json, merges.txt | byte-level BPE of GPT-2, RoBERTa and BART, by `tokenizers` |

    Raises CheckpointError if one of several files is missing or damaged, ConfigError if `tokenizers` is not installed.
    """
    if {"source.spm", "target.spm"} & files.names:
        return _marian(files)
    tokenizer = _single(files)
    return None if tokenizer is None else TokenizerPair(tokenizer)


def _single(files: ForeignFiles) -> TokenizerBase | None:
    there = files.names
    if HUGGING_FACE_KIND in there:
        return _from_json(files, files.read(HUGGING_FACE_KIND), HUGGING_FACE_KIND)
    if {"sentencepiece.bpe.model", "vocab.json"} <= there:
        return _m2m_100(files)
    if "sentencepiece.bpe.model" in there:
        return _fairseq(files)
    for name in ("spiece.model", "tokenizer.model"):
        if name in there:
            return _read_numbers(files, name)
    if "vocab.txt" in there:
        return _word_pieces(files)
    if "merges.txt" in there:
        return _byte_level(files)
    return None


def _from_json(files: ForeignFiles, data: bytes, name: str) -> HuggingFaceTokenizer:
    """Returns the tokenizer of a tokenizer.json with the special tokens of its folder. The text of BPE is not cleaned
    up, since that would damage it.
    """
    path = str(files.folder / name)
    model = parse_settings(data, path).get("model")
    cleaned = files.cleans_up and not (isinstance(model, dict) and model.get("type") == "BPE")
    return HuggingFaceTokenizer(data, partial(find_special_ids, files), cleaned, path)


def _marian(files: ForeignFiles) -> TokenizerPair:
    ids = _numbers(files, "vocab.json")
    separate = files.has("target_vocab.json")
    source = _build_numbered(files, "source.spm", ids, (), strip=True)
    if not separate:
        return TokenizerPair(source, _build_numbered(files, "target.spm", ids, (), strip=True))
    # The ids of the added tokens belong to the source vocabulary.
    target_ids = _numbers(files, "target_vocab.json")
    return TokenizerPair(source, _build_numbered(files, "target.spm", target_ids, (), strip=True, added={}))


def _m2m_100(files: ForeignFiles) -> RemappedSentencePiece:
    ids = _numbers(files, "vocab.json")
    family = str(files.settings.get("language_codes", "m2m100"))
    if family not in _M2M_CODES:
        raise CheckpointError(
            f"`{files.folder / SETTINGS}` has unknown `language_codes` `{format_value(family)}`"
            f"{did_you_mean(family, _M2M_CODES)}",
            f"choose one of {', '.join(_M2M_CODES)}",
        )
    codes = [f"__{code}__" for code in language_codes(family)]
    return _build_numbered(files, "sentencepiece.bpe.model", ids, codes, strip=True)


def _fairseq(files: ForeignFiles) -> RemappedSentencePiece:
    name = "sentencepiece.bpe.model"
    pieces = _pieces(files, name)
    ids = {piece: i for i, piece in enumerate([*_FAIRSEQ, *pieces[len(_FAIRSEQ) - 1 :]])}
    return _build_numbered(files, name, ids, [*_fairseq_codes(files, len(pieces)), "<mask>"])


def _fairseq_codes(files: ForeignFiles, num_pieces: int) -> list[str]:
    """Returns the language codes after the pieces: from the settings, else the codes of the published models."""
    config = files.config
    if config.get("model_type") == "mbart":
        all_codes = language_codes("mbart50")
        with_all = num_pieces + 1 + len(all_codes) + 1  # fairseq's padding before, the mask after
        return all_codes if config.get("vocab_size", 0) >= with_all else language_codes("mbart25")
    if config.get("model_type") == "m2m_100":
        listed = [token for token in _more_special(files.settings) if is_code(token)]
        return listed or language_codes("nllb200")
    return []


def _read_numbers(files: ForeignFiles, name: str) -> RemappedSentencePiece:
    pieces = _pieces(files, name)
    number = files.settings.get("extra_ids", _SENTINELS) if name == "spiece.model" else 0
    sentinels = [f"<extra_id_{i}>" for i in reversed(range(number))]
    return _build_numbered(files, name, {piece: i for i, piece in enumerate(pieces)}, sentinels)


def _word_pieces(files: ForeignFiles) -> HuggingFaceTokenizer:
    library, settings = import_tokenizers(), files.settings
    lines = _text(files, "vocab.txt").removesuffix("\n").split("\n")
    ids = {line: i for i, line in enumerate(lines)}
    unknown = get_token_content(settings.get("unk_token")) or "[UNK]"
    with convert_library_errors(f"`{files.folder / 'vocab.txt'}` is not a vocabulary of words"):
        tokenizer = library.Tokenizer(library.models.WordPiece(ids, unk_token=unknown))
    tokenizer.normalizer = library.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = library.decoders.WordPiece(prefix="##")
    return _build(files, tokenizer, "vocab.txt")


def _byte_level(files: ForeignFiles) -> HuggingFaceTokenizer:
    library, settings = import_tokenizers(), files.settings
    ids = _numbers(files, "vocab.json")
    lines = _text(files, "merges.txt").split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    with convert_library_errors(f"`{files.folder / 'merges.txt'}` does not belong to `vocab.json`"):
        tokenizer = library.Tokenizer(library.models.BPE(ids, merges))
    spaced = settings.get("add_prefix_space", False)
    if files.config.get("model_type") == "qwen2":
        split = library.pre_tokenizers.Split(library.Regex(_QWEN2_WORDS), behavior="isolated")
        as_bytes = library.pre_tokenizers.ByteLevel(add_prefix_space=spaced, use_regex=False)
        tokenizer.normalizer = library.normalizers.NFC()
        tokenizer.pre_tokenizer = library.pre_tokenizers.Sequence([split, as_bytes])
    else:
        tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    tokenizer.decoder = library.decoders.ByteLevel()
    return _build(files, tokenizer, "vocab.json")


def _build(files: ForeignFiles, tokenizer: Any, name: str) -> HuggingFaceTokenizer:
    """Returns `tokenizer` with its special tokens and the added tokens of its folder."""
    ids = tokenizer.get_vocab()
    for token, i in sorted(_read_added(files).items(), key=lambda pair: pair[1]):
        if token not in ids:
            tokenizer.add_tokens([token])
        if tokenizer.token_to_id(token) != i:
            raise CheckpointError(
                f"`{files.folder}` adds the token `{token}` with the id {i}, but its id is "
                f"{tokenizer.token_to_id(token)}",
                "copy the whole folder again",
            )
    settings = [files.settings, files.special_tokens]
    named = [get_token_content(value) for table in settings for key, value in table.items() if key.endswith("_token")]
    known = tokenizer.get_vocab()
    tokenizer.add_special_tokens([token for token in dict.fromkeys([*named, *_USUAL_SPECIAL]) if token in known])
    library, usual = import_tokenizers(), _AROUND[name]
    first, last = (
        next((token for token in (get_token_content(table.get(key)) for table in settings) if token), token)
        for key, token in zip(("cls_token", "sep_token"), usual, strict=True)
    )
    without = files.config.get("model_type") in _WITHOUT_TEMPLATE
    if not without and first in known and last in known:
        pair = (last, known[last]), (first, known[first])
        processors = library.processors
        tokenizer.post_processor = (
            processors.BertProcessing(*pair) if name == "vocab.txt" else processors.RobertaProcessing(*pair)
        )
    return _from_json(files, tokenizer.to_str().encode(), name)


def _read_added(files: ForeignFiles) -> dict[str, int]:
    """Returns the tokens that the folder adds to the vocabulary, and their ids."""
    decoder = {get_token_content(token): i for i, token in files.added_tokens_decoder.items()}
    return _numbers(files, "added_tokens.json", {}) | decoder


def _more_special(table: Mapping[str, Any]) -> list[str]:
    """Returns the special tokens of the settings that have no role (additional or extra special tokens)."""
    listed = table.get("additional_special_tokens") or table.get("extra_special_tokens") or ()
    values = listed.values() if isinstance(listed, dict) else listed
    return [token for token in map(get_token_content, values) if token]


def _build_numbered(
    files: ForeignFiles,
    name: str,
    ids: Mapping[str, int],
    trailing: Sequence[str],
    strip: bool = False,
    added: Mapping[str, int] | None = None,
) -> RemappedSentencePiece:
    """Returns the tokenizer of a SentencePiece model and the ids of its pieces.

    Args:
        trailing: special tokens after the pieces, in their order, unless the folder gives them other ids.
        added: the added tokens and their ids; if None, the folder's.

    Raises CheckpointError if the folder gives an added token the id of a piece.
    """
    added = _read_added(files) if added is None else added
    tables = [files.settings, files.special_tokens]
    more = [token for table in tables for token in _more_special(table)]
    numbers = _merge_added(ids, trailing, added, str(files.folder))
    numbers = _extend(numbers, [token for token in dict.fromkeys(more) if token not in numbers and not is_code(token)])
    found = find_special_ids(files, numbers)
    flags = {
        get_token_content(token): token for token in files.added_tokens_decoder.values() if isinstance(token, dict)
    }
    special = {
        *trailing,
        *more,
        *_USUAL_SPECIAL,
        *(token for token, flag in flags.items() if flag.get("special") is True),
    }
    special |= {get_token_content(value) for table in tables for key, value in table.items() if key.endswith("_token")}
    special |= {token for token in numbers if is_code(token) or numbers[token] in found.ids}
    hidden = [token for token in numbers if token in special and (token in added or token not in ids)]
    in_text = [
        AddedToken(token, *(flags.get(token, {}).get(name) is True for name in ("lstrip", "rstrip", "single_word")))
        for token, _ in sorted(added.items(), key=lambda pair: pair[1])
        if token and token not in special
    ]
    proto = files.read(name)
    # For Llama, transformers skips the model's normalization, and so keeps the spaces that the normalization drops.
    is_llama = name == "tokenizer.model"
    keeps = files.tokenizer_class in _KEEP_SPACES or (bool(in_text) and is_llama and read_model(proto).removes_spaces)
    return RemappedSentencePiece(
        proto, numbers, found, [token for token in hidden if numbers[token] not in found.ids], files.cleans_up, strip,
        str(files.folder / name), AddedTokens(in_text, one_prefix=is_llama, keeps_spaces=keeps),
    )  # fmt: skip


def _merge_added(
    ids: Mapping[str, int], trailing: Sequence[str], added: Mapping[str, int], folder: str
) -> dict[str, int]:
    """Returns `ids` with the added tokens, and with the tokens `trailing` that are not among the added tokens.

    The ids of the tokens `trailing` follow from their order. If another added token has one of these ids, the folder's
    model has no tokens `trailing`.
    """
    used = {i: piece for piece, i in ids.items()}
    new = {token: i for token, i in added.items() if token not in ids}
    for token, i in new.items():
        if i in used:
            raise CheckpointError(
                f"`{folder}` adds the token `{format_value(token)}` with the id {i}, which is the id of "
                f"`{format_value(used[i])}`",
                "copy the whole folder again",
            )
    taken = set(new.values())
    first, rest = max(ids.values()) + 1, [token for token in trailing if token not in new]
    if any(i < first + len(rest) for token, i in new.items() if token not in trailing):
        rest = []
    free = (i for i in count(first) if i not in taken)
    return {**ids, **dict(zip(rest, free, strict=False)), **new}


def _extend(ids: Mapping[str, int], tokens: Sequence[str]) -> dict[str, int]:
    """Returns `ids` with more tokens, numbered after them."""
    first = max(ids.values()) + 1
    return {**ids, **{token: first + i for i, token in enumerate(tokens)}}


def _pieces(files: ForeignFiles, name: str) -> list[str]:
    """Returns the pieces of a SentencePiece model in the order of the model's ids."""
    return SentencePieceTokenizer(files.read(name), FOREIGN_KIND, str(files.folder / name)).pieces()


def _numbers(files: ForeignFiles, name: str, default: dict[str, int] | None = None) -> dict[str, int]:
    """Returns a vocabulary: tokens and their ids."""
    if default is not None and not files.has(name):
        return default
    table = parse_settings(files.read(name), str(files.folder / name))
    if not table or not all(map(ID.fits, table.values())):
        raise CheckpointError(f"`{files.folder / name}` is damaged: it has no token ids", "copy the file again")
    return table


def _text(files: ForeignFiles, name: str) -> str:
    """Returns the text of a file, with LF line ends."""
    return decode_text(files.read(name), files.folder / name).replace("\r\n", "\n")
