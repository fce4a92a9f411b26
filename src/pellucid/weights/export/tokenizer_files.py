"""Writes Pellucid's tokenizers as files for other libraries."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import ConfigError
from pellucid.files.writing import replace_atomically, temporary_folder, write_json, write_text
from pellucid.text.foreign_files import SETTINGS
from pellucid.text.hugging_face import HUGGING_FACE_KIND, HuggingFaceTokenizer
from pellucid.text.remapped_sentencepiece import RemappedSentencePiece
from pellucid.text.subwords import SentencePieceTokenizer
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.tokenizer_json_writing import is_near, token_names, tokenizer_json
from pellucid.text.tokenizers import TokenizerPair

TARGET = "target"
"""The folder of a separate target tokenizer, within the model folder."""
MARIAN = "source.spm"
SentencePiece = SentencePieceTokenizer | RemappedSentencePiece


@dataclass(frozen=True, kw_only=True)
class TokenizerFiles:
    """The tokenizer files in an exported folder."""

    opens_with: Literal["transformers", "tokenizers", "sentencepiece", "ids"]
    """The library that opens them; transformers: only as MarianTokenizer; ids: there are no files."""
    apart: bool = False
    """True if the target has separate files."""
    reason: str = ""
    """The reason why a folder with a tokenizer has no tokenizer.json."""


def find_tokenizer_files(folder: Path, tokenizers: TokenizerPair | None) -> TokenizerFiles:
    """Returns the files that save_tokenizer_files() wrote for these tokenizers."""
    if tokenizers is None:
        return TokenizerFiles(opens_with="ids")
    apart = not tokenizers.joint
    if (folder / HUGGING_FACE_KIND).is_file():
        return TokenizerFiles(opens_with="tokenizers", apart=apart)
    reason = _why_not(tokenizers)
    if (folder / MARIAN).is_file():
        return TokenizerFiles(opens_with="transformers", reason=reason)
    found = (folder / f"{'source' if apart else 'tokenizer'}.model").is_file()
    return TokenizerFiles(opens_with="sentencepiece" if found else "ids", apart=apart, reason=reason)


def _why_not(tokenizers: TokenizerPair) -> str:
    """Returns the reason why the common format cannot express tokenizers; empty if it can."""
    try:
        for tokenizer in (tokenizers.source, tokenizers.target):
            tokenizer_json(tokenizer)
    except ConfigError as error:
        return str(error)
    return ""


def make_id_names(tokenizers: TokenizerPair | None, side: Literal["source", "target"], size: int) -> list[str]:
    """Returns a name for each id of a side: its name in the exported tokenizer, with the id appended to duplicates;
    without tokenizers the id.
    """
    if tokenizers is None:
        return [str(i) for i in range(size)]
    tokenizer: TokenizerBase = getattr(tokenizers, side)
    words = tokenizer.tokens(range(tokenizer.size)) if _why_not(tokenizers) else token_names(tokenizer)
    seen: dict[str, int] = {}
    for i, word in enumerate(words[:size]):
        seen.setdefault(word, i)
    return [words[i] if i < len(words) and seen[words[i]] == i else f"<{i}>" for i in range(size)]


def save_tokenizer_files(
    tokenizers: TokenizerPair,
    folder: Path,
    config: ModelConfig,
    decode: DecodeConfig,
    *,
    marian: bool = False,
    engine_ends: bool = False,
) -> None:
    """Writes as write_tokenizer_files() does, for an export; warns of a tokenizer that the format cannot express, and
    writes its SentencePiece models, if it has some.

    Args:
        marian: SentencePiece models are also written for MarianTokenizer, which holds two separate sides, normalizes by
            the model's own table, and is readable without the library `tokenizers`.
        engine_ends: the engine that runs the model appends the end token to a source itself.
    """
    source, target = tokenizers.source, tokenizers.target
    # MarianTokenizer would split tags like text, and adds no special token except the end token.
    tags = {*getattr(source, "tags", ()), *getattr(target, "tags", ())}
    marian = (
        marian and config.family == "encoder-decoder" and not tags and around(config, decode) == ((), (config.eos_id,))
    )
    if marian and isinstance(source, SentencePiece) and isinstance(target, SentencePiece):
        _save_marian_tokenizers(source, target, folder, config.max_positions)
        if not tokenizers.joint or is_near(source) or _why_not(tokenizers):
            return
    try:
        write_tokenizer_files(tokenizers, folder, config, decode, engine_ends=engine_ends)
    except ConfigError as error:
        sides = [source] if tokenizers.joint else [source, target]
        names = ["tokenizer"] if tokenizers.joint else ["source", "target"]
        instead = "pass ids to the model"
        if all(isinstance(side, SentencePiece) for side in sides):
            save_sentencepiece(tokenizers, folder)
            instead = (
                "README.md tokenizes the text with SentencePiece, using "
                f"{' and '.join(f'{name}.model' for name in names)}"
            )
        warnings.warn(f"no tokenizer is written as {HUGGING_FACE_KIND}: {error}; {instead}", stacklevel=3)


def save_sentencepiece(tokenizers: TokenizerPair, folder: Path) -> None:
    """Writes the SentencePiece models of tokenizers, with the ids of remapped pieces."""
    sides = {"tokenizer": tokenizers.source} if tokenizers.joint else vars(tokenizers)
    with temporary_folder(folder / "pieces") as temporary:
        for side, tokenizer in sides.items():
            if isinstance(tokenizer, SentencePiece):
                tokenizer.save(temporary / side)
            if isinstance(tokenizer, RemappedSentencePiece):
                tokenizer.save_numbers(temporary / ("numbers" if tokenizers.joint else side))
        for path in sorted(temporary.iterdir()):
            replace_atomically(path, folder / path.name)


def write_tokenizer_files(
    tokenizers: TokenizerPair,
    folder: Path,
    config: ModelConfig,
    decode: DecodeConfig,
    *,
    engine_ends: bool = False,
    anew: bool = True,
) -> None:
    """Writes `tokenizer.json` with its settings, for a separate target vocabulary also in the folder `target`.

    If `anew` is False, an original `tokenizer.json` is kept.

    Raises ConfigError for a tokenizer that the format cannot express.
    """
    before, after = around(config, decode)
    after = () if engine_ends else after
    if not tokenizers.joint:
        tokenizer_json(tokenizers.target)  # raises before anything is written
    save_fast_tokenizer(tokenizers.source, folder, config, before, after, anew=anew)
    if not tokenizers.joint:
        (folder / TARGET).mkdir(exist_ok=True)
        save_fast_tokenizer(tokenizers.target, folder / TARGET, config, anew=anew)


def around(config: ModelConfig, decode: DecodeConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the ids that the model requires before and after a source text."""
    if config.family == "encoder":
        return (config.bos_id,), (config.eos_id,)
    if config.family == "decoder":  # which continues the text
        return decode.source_prefix, ()
    end = (config.eos_id,) if decode.add_source_eos else ()
    return decode.source_prefix, (*end, *decode.source_suffix)


def save_fast_tokenizer(
    tokenizer: TokenizerBase,
    folder: Path,
    config: ModelConfig,
    before: Sequence[int] = (),
    after: Sequence[int] = (),
    *,
    anew: bool = True,
) -> None:
    """Writes `tokenizer.json` and the settings with which transformers opens it as PreTrainedTokenizerFast.

    If `anew` is False, an original tokenizer.json is kept. Raises ConfigError for one that the format cannot express.
    """
    table: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.max_positions,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # text that spells a special token is text
        "padding_side": "left" if config.family == "decoder" else "right",
        "model_input_names": ["input_ids", "attention_mask"],
    }
    if config.num_segments:
        table["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    special = {"eos_token": config.eos_id, "bos_token": config.bos_id}
    if config.pad_id is not None:
        special["pad_token"] = config.pad_id
    names = token_names(tokenizer)
    if isinstance(tokenizer, HuggingFaceTokenizer | RemappedSentencePiece):
        special["unk_token"] = tokenizer.unk_id  # Pellucid writes `<unk>`: a special token would be left out
    if isinstance(tokenizer, HuggingFaceTokenizer) and not anew:
        table["clean_up_tokenization_spaces"] = tokenizer.clean_up
        _save_as(tokenizer, folder / HUGGING_FACE_KIND)
    else:
        written = tokenizer_json(tokenizer, before, after)
        write_text(folder / HUGGING_FACE_KIND, json.dumps(written, ensure_ascii=False) + "\n")
    write_json(folder / SETTINGS, table | {name: names[i] for name, i in special.items() if i < len(names)})


def _save_marian_tokenizers(source: SentencePiece, target: SentencePiece, folder: Path, max_length: int) -> None:
    """Writes SentencePiece models for MarianTokenizer, with Pellucid's ids.

    MarianTokenizer treats a text's `▁` (U+2581) as a space; if Pellucid keeps both apart, the ids differ.
    """
    for name, tokenizer in (("source.spm", source), ("target.spm", target)):
        _save_as(tokenizer, folder / name)
    vocabularies = [_vocabulary(tokenizer) for tokenizer in (source, target)]
    separate = vocabularies[0] != vocabularies[1]
    write_json(folder / "vocab.json", vocabularies[0])
    if separate:
        write_json(folder / "target_vocab.json", vocabularies[1])
    special = {"unk_token": source.unk_id, "eos_token": source.eos_id, "pad_token": source.pad_id}
    table: dict[str, object] = {name: source.tokens([i])[0] for name, i in special.items()}
    table |= {"model_max_length": max_length, "separate_vocabs": separate, "clean_up_tokenization_spaces": False}
    write_json(folder / SETTINGS, {"tokenizer_class": "MarianTokenizer", **table})


def _vocabulary(tokenizer: SentencePiece) -> dict[str, int]:
    """Returns the id of each piece."""
    if isinstance(tokenizer, RemappedSentencePiece):
        return tokenizer.ids
    return {piece: i for i, piece in enumerate(tokenizer.tokens(range(tokenizer.size)))}


def _save_as(tokenizer: TokenizerBase, path: Path) -> None:
    with temporary_folder(path) as temporary:
        replace_atomically(tokenizer.save(temporary / "tokenizer"), path)
