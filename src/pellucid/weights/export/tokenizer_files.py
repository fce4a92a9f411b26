"""Our tokenizers as files that the tokenizers of `transformers` read."""

import json
import warnings
from pathlib import Path

from pellucid.config import ModelConfig
from pellucid.text.hugging_face import HuggingFaceTokenizer
from pellucid.text.numbered import NumberedSubwords
from pellucid.text.subwords import Subwords
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizers import Tokenizers
from pellucid.weights.files import move_into_place, temporary_folder, write_text

SentencePiece = Subwords | NumberedSubwords


def save_tokenizer_files(tokenizers: Tokenizers, folder: Path, config: ModelConfig) -> None:
    """Writes what transformers has a class for; warns of a tokenizer that it has none for."""
    source, target = tokenizers.source, tokenizers.target
    if isinstance(source, HuggingFaceTokenizer) and tokenizers.joint:
        _save_tokenizer_json(source, folder, config)
    elif isinstance(source, SentencePiece) and isinstance(target, SentencePiece) and config.family == "encoder-decoder":
        _save_marian_tokenizers(source, target, folder, config.max_positions)
    else:
        kinds = f"`{source.kind}`" if tokenizers.joint else f"`{source.kind}` and `{target.kind}`"
        warnings.warn(
            f"no tokenizer is written: transformers has no class for {kinds} in such a model; give it ids", stacklevel=3
        )


def _save_marian_tokenizers(source: SentencePiece, target: SentencePiece, folder: Path, max_length: int) -> None:
    """SentencePiece models for MarianTokenizer, whose ids are then ours.

    A text's `▁` (U+2581) is a space to it; where we keep it apart, the ids differ.
    """
    for name, tokenizer in (("source.spm", source), ("target.spm", target)):
        _save_as(tokenizer, folder / name)
    vocabularies = [_vocabulary(tokenizer) for tokenizer in (source, target)]
    separate = vocabularies[0] != vocabularies[1]
    _write(folder / "vocab.json", vocabularies[0])
    if separate:
        _write(folder / "target_vocab.json", vocabularies[1])
    special = {"unk_token": source.unk_id, "eos_token": source.eos_id, "pad_token": source.pad_id}
    table: dict[str, object] = {name: source.tokens([i])[0] for name, i in special.items()}
    table |= {"model_max_length": max_length, "separate_vocabs": separate, "clean_up_tokenization_spaces": False}
    _write(folder / "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer", **table})


def _save_tokenizer_json(tokenizer: HuggingFaceTokenizer, folder: Path, config: ModelConfig) -> None:
    """A tokenizer that came as tokenizer.json, as it came."""
    _save_as(tokenizer, folder / "tokenizer.json")
    special = {"unk_token": tokenizer.unk_id, "eos_token": config.eos_id, "bos_token": config.bos_id}
    if config.pad_id is not None:
        special["pad_token"] = config.pad_id
    table = {name: tokenizer.tokens([i])[0] for name, i in special.items()}
    _write(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": config.max_positions, **table},
    )


def _vocabulary(tokenizer: SentencePiece) -> dict[str, int]:
    """The id of each piece."""
    if isinstance(tokenizer, NumberedSubwords):
        return tokenizer.ids
    return {piece: i for i, piece in enumerate(tokenizer.tokens(range(tokenizer.size)))}


def _save_as(tokenizer: Tokenizer, path: Path) -> None:
    with temporary_folder(path) as beside:
        move_into_place(tokenizer.save(beside / "tokenizer"), path)


def _write(path: Path, table: object) -> None:
    write_text(path, json.dumps(table, indent=2, ensure_ascii=False) + "\n")
