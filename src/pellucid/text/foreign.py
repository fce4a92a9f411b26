"""The tokenizers in other people's model folders (Hugging Face): which files make which tokenizer."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pellucid.errors import CheckpointError, did_you_mean, shown
from pellucid.files.reading import ID, MOST_TOKENIZER_BYTES, parse_settings, read_bytes, read_text
from pellucid.text.hugging_face import HUGGING_FACE_KIND, HuggingFaceTokenizer, calling_the_library, import_tokenizers
from pellucid.text.language_codes import language_codes
from pellucid.text.numbered import NumberedSubwords
from pellucid.text.special_ids import SETTINGS, cleans_up, content, find_special_ids, read_json
from pellucid.text.subwords import FOREIGN_KIND, Subwords
from pellucid.text.tokenizer import CompleteTokenizer
from pellucid.text.tokenizers import Tokenizers

_FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")  # what fairseq numbers first; its models' own first three are left out
_SENTINELS = 100  # T5's `<extra_id_0>`, ...
_M2M_CODES = ("m2m100", "wmt21")
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
_QWEN2_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def load_foreign_tokenizer(folder: Path) -> Tokenizers | None:
    """Returns the tokenizers in a Hugging Face folder; None where there is no file of one.

    | files | tokenizer |
    | --- | --- |
    | source.spm, target.spm, vocab.json | Marian: two SentencePiece models, one vocabulary |
    | tokenizer.json | whatever it says, by the library `tokenizers` |
    | sentencepiece.bpe.model, vocab.json | M2M-100 |
    | sentencepiece.bpe.model | XLM-R, mBART, NLLB: fairseq's numbers, codes of languages behind the pieces |
    | spiece.model, tokenizer.model | T5 with its sentinels; Llama |
    | vocab.txt | BERT's WordPiece, by `tokenizers` |
    | vocab.json, merges.txt | byte-level BPE as GPT-2, RoBERTa and BART have it, by `tokenizers` |

    Raises CheckpointError where one of several files is missing or damaged, ConfigError where `tokenizers` is missing.
    """
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if {"source.spm", "target.spm"} & there:
        return _marian(folder)
    tokenizer = _single(folder, there)
    return None if tokenizer is None else Tokenizers(tokenizer)


def starting_ids(folder: Path, tokenizer: CompleteTokenizer) -> tuple[int, ...]:
    """Returns what the tokenizer of such a folder puts before every text for a decoder alone.

    A tokenizer.json says it itself. Without one, `add_bos_token` in the settings does; Qwen2 has no such token.
    """
    if (folder / HUGGING_FACE_KIND).is_file() and isinstance(tokenizer, HuggingFaceTokenizer):
        return tokenizer.starting_ids()
    adds = read_json(folder / SETTINGS).get("add_bos_token") is True
    return (tokenizer.bos_id,) if adds and read_json(folder / "config.json").get("model_type") != "qwen2" else ()


def _single(folder: Path, there: set[str]) -> CompleteTokenizer | None:
    if HUGGING_FACE_KIND in there:
        return _from_json(folder, _read(folder, HUGGING_FACE_KIND), HUGGING_FACE_KIND)
    if {"sentencepiece.bpe.model", "vocab.json"} <= there:
        return _m2m_100(folder)
    if "sentencepiece.bpe.model" in there:
        return _fairseq(folder)
    for name in ("spiece.model", "tokenizer.model"):
        if name in there:
            return _own_numbers(folder, name)
    if "vocab.txt" in there:
        return _word_pieces(folder)
    if "merges.txt" in there:
        return _byte_level(folder)
    return None


def _from_json(folder: Path, data: bytes, name: str) -> HuggingFaceTokenizer:
    """Returns a tokenizer.json with the special tokens of its folder. BPE is not cleaned up, since that would harm its
    text.
    """
    model = parse_settings(data, str(folder / name)).get("model")
    cleaned = cleans_up(folder) and not (isinstance(model, dict) and model.get("type") == "BPE")
    return HuggingFaceTokenizer(data, partial(find_special_ids, folder), cleaned, str(folder / name))


def _marian(folder: Path) -> Tokenizers:
    ids = _numbers(folder, "vocab.json")
    target_ids = _numbers(folder, "target_vocab.json") if (folder / "target_vocab.json").is_file() else ids
    sides = (("source.spm", ids), ("target.spm", target_ids))
    source, target = (_numbered(folder, name, numbers, (), strip=True) for name, numbers in sides)
    return Tokenizers(source, target)


def _m2m_100(folder: Path) -> NumberedSubwords:
    ids = _numbers(folder, "vocab.json")
    family = str(read_json(folder / SETTINGS).get("language_codes", "m2m100"))
    if family not in _M2M_CODES:
        raise CheckpointError(
            f"`{folder / SETTINGS}` has unknown `language_codes` `{shown(family)}`{did_you_mean(family, _M2M_CODES)}",
            f"known are {', '.join(_M2M_CODES)}",
        )
    codes = [f"__{code}__" for code in language_codes(family)]
    return _numbered(folder, "sentencepiece.bpe.model", _extended(ids, codes), codes, strip=True)


def _fairseq(folder: Path) -> NumberedSubwords:
    name = "sentencepiece.bpe.model"
    pieces = _pieces(folder, name)
    codes = _fairseq_codes(folder, len(pieces))
    ids = {piece: i for i, piece in enumerate([*_FAIRSEQ, *pieces[len(_FAIRSEQ) - 1 :]])}
    return _numbered(folder, name, _extended(ids, [*codes, "<mask>"]), [*codes, "<mask>"])


def _fairseq_codes(folder: Path, num_pieces: int) -> list[str]:
    """Returns the codes that stand behind the pieces: what the settings list, else those of the published models."""
    config, settings = read_json(folder / "config.json"), read_json(folder / SETTINGS)
    if config.get("model_type") == "mbart":
        all_codes = language_codes("mbart50")
        with_all = num_pieces + 1 + len(all_codes) + 1  # fairseq's padding before, the mask behind
        return all_codes if config.get("vocab_size", 0) >= with_all else language_codes("mbart25")
    if config.get("model_type") == "m2m_100":
        listed = settings.get("additional_special_tokens") or settings.get("extra_special_tokens") or ()
        return [token for token in map(content, listed) if token not in (*_FAIRSEQ, "<mask>")] or language_codes(
            "nllb200"
        )
    return []


def _own_numbers(folder: Path, name: str) -> NumberedSubwords:
    pieces = _pieces(folder, name)
    count = read_json(folder / SETTINGS).get("extra_ids", _SENTINELS) if name == "spiece.model" else 0
    sentinels = [f"<extra_id_{i}>" for i in reversed(range(count))]
    ids = {piece: i for i, piece in enumerate(pieces)}
    return _numbered(folder, name, _extended(ids, sentinels), sentinels)


def _word_pieces(folder: Path) -> HuggingFaceTokenizer:
    library, settings = import_tokenizers(), read_json(folder / SETTINGS)
    lines = read_text(folder / "vocab.txt", MOST_TOKENIZER_BYTES).replace("\r\n", "\n").removesuffix("\n").split("\n")
    ids = {line: i for i, line in enumerate(lines)}
    unknown = content(settings.get("unk_token")) or "[UNK]"
    with calling_the_library(f"`{folder / 'vocab.txt'}` is not a vocabulary of words"):
        tokenizer = library.Tokenizer(library.models.WordPiece(ids, unk_token=unknown))
    tokenizer.normalizer = library.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = library.decoders.WordPiece(prefix="##")
    return _built(folder, tokenizer, "vocab.txt")


def _byte_level(folder: Path) -> HuggingFaceTokenizer:
    library, settings = import_tokenizers(), read_json(folder / SETTINGS)
    ids = _numbers(folder, "vocab.json")
    lines = read_text(folder / "merges.txt", MOST_TOKENIZER_BYTES).replace("\r\n", "\n").split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    with calling_the_library(f"`{folder / 'merges.txt'}` does not belong to `vocab.json`"):
        tokenizer = library.Tokenizer(library.models.BPE(ids, merges))
    spaced = settings.get("add_prefix_space", False)
    if read_json(folder / "config.json").get("model_type") == "qwen2":
        split = library.pre_tokenizers.Split(library.Regex(_QWEN2_WORDS), behavior="isolated")
        as_bytes = library.pre_tokenizers.ByteLevel(add_prefix_space=spaced, use_regex=False)
        tokenizer.normalizer = library.normalizers.NFC()
        tokenizer.pre_tokenizer = library.pre_tokenizers.Sequence([split, as_bytes])
    else:
        tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    tokenizer.decoder = library.decoders.ByteLevel()
    return _built(folder, tokenizer, "vocab.json")


def _built(folder: Path, tokenizer: Any, name: str) -> HuggingFaceTokenizer:
    """Returns a tokenizer made here, with its special tokens and what its folder adds to the vocabulary."""
    ids = tokenizer.get_vocab()
    for token, i in sorted(_added(folder).items(), key=lambda pair: pair[1]):
        if token not in ids:
            tokenizer.add_tokens([token])
        if tokenizer.token_to_id(token) != i:
            raise CheckpointError(
                f"`{folder}` adds the token `{token}` as {i}, but it would be {tokenizer.token_to_id(token)}",
                "copy the whole folder again",
            )
    settings = [read_json(folder / name) for name in (SETTINGS, "special_tokens_map.json")]
    named = [content(value) for table in settings for key, value in table.items() if key.endswith("_token")]
    known = tokenizer.get_vocab()
    tokenizer.add_special_tokens([token for token in dict.fromkeys([*named, *_USUAL_SPECIAL]) if token in known])
    return _from_json(folder, tokenizer.to_str().encode(), name)


def _added(folder: Path) -> dict[str, int]:
    """Returns the tokens that the folder's settings add to the vocabulary."""
    listed = read_json(folder / SETTINGS).get("added_tokens_decoder")
    decoder = listed if isinstance(listed, dict) else {}
    if odd := [i for i in decoder if not (i.isdecimal() and ID.fits(int(i[:9])))]:
        raise CheckpointError(
            f"`{folder / SETTINGS}` has `added_tokens_decoder` with `{shown(odd[0])}`; it must be {ID.words}",
            "copy the folder again",
        )
    return _numbers(folder, "added_tokens.json", {}) | {content(token): int(i) for i, token in decoder.items()}


def _numbered(
    folder: Path, name: str, ids: Mapping[str, int], hidden: Sequence[str], strip: bool = False
) -> NumberedSubwords:
    special = find_special_ids(folder, ids)
    return NumberedSubwords(_read(folder, name), ids, special, hidden, cleans_up(folder), strip, str(folder / name))


def _extended(ids: Mapping[str, int], tokens: Sequence[str]) -> dict[str, int]:
    """Returns `ids` with more tokens numbered behind them."""
    first = max(ids.values()) + 1
    return {**ids, **{token: first + i for i, token in enumerate(tokens)}}


def _pieces(folder: Path, name: str) -> list[str]:
    """Returns the pieces of a SentencePiece model in the order of its own ids."""
    return Subwords(_read(folder, name), FOREIGN_KIND, str(folder / name)).pieces()


def _numbers(folder: Path, name: str, default: dict[str, int] | None = None) -> dict[str, int]:
    """Returns a vocabulary: tokens and their ids."""
    if default is not None and not (folder / name).is_file():
        return default
    table = parse_settings(_read(folder, name), str(folder / name))
    if not table or not all(map(ID.fits, table.values())):
        raise CheckpointError(f"`{folder / name}` is damaged: it holds no ids of tokens", "copy the file again")
    return table


def _read(folder: Path, name: str) -> bytes:
    return read_bytes(folder / name, MOST_TOKENIZER_BYTES)
