"""Our tokenizers as files that other people's tokenizers read."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import ConfigError
from pellucid.files.writing import move_into_place, temporary_folder, write_json, write_text
from pellucid.text.hugging_face import HUGGING_FACE_KIND, HuggingFaceTokenizer
from pellucid.text.numbered import NumberedSubwords
from pellucid.text.special_ids import SETTINGS
from pellucid.text.subwords import Subwords
from pellucid.text.tokenizer import CompleteTokenizer
from pellucid.text.tokenizer_json_writing import is_near, token_names, tokenizer_json
from pellucid.text.tokenizers import Tokenizers

TARGET = "target"
"""The folder of a target's own tokenizer, within the model's."""
SentencePiece = Subwords | NumberedSubwords


def save_tokenizer_files(
    tokenizers: Tokenizers,
    folder: Path,
    config: ModelConfig,
    decode: DecodeConfig,
    *,
    marian: bool = False,
    engine_ends: bool = False,
) -> None:
    """Writes as write_tokenizer_files() does, for an export: warns of a tokenizer that the format cannot express.

    Args:
        marian: SentencePiece models are written as MarianTokenizer has them, too: it is both sides in one where they
            are apart, it normalises by the model's own table, and what reads such a folder without the library
            `tokenizers` finds them.
        engine_ends: the program that runs the model puts the end token behind a source itself.
    """
    source, target = tokenizers.source, tokenizers.target
    numbered = isinstance(source, NumberedSubwords) or isinstance(target, NumberedSubwords)
    tags = {*getattr(source, "tags", ()), *getattr(target, "tags", ())}  # which MarianTokenizer would cut as text
    marian = marian and config.family == "encoder-decoder" and not tags
    if marian and isinstance(source, SentencePiece) and isinstance(target, SentencePiece):
        _save_marian_tokenizers(source, target, folder, config.max_positions)
        if numbered or not tokenizers.joint or is_near(source):
            return
    try:
        write_tokenizer_files(tokenizers, folder, config, decode, engine_ends=engine_ends)
    except ConfigError as error:
        warnings.warn(f"no tokenizer is written: {error}; give the model ids", stacklevel=3)


def write_tokenizer_files(
    tokenizers: Tokenizers, folder: Path, config: ModelConfig, decode: DecodeConfig, *, engine_ends: bool = False
) -> None:
    """Writes `tokenizer.json` with its settings; of a target with a vocabulary of its own, in the folder `target`.

    Raises ConfigError for a tokenizer that the format cannot express.
    """
    before, after = around(config, decode)
    save_fast_tokenizer(tokenizers.source, folder, config, before, () if engine_ends else after)
    if not tokenizers.joint:
        (folder / TARGET).mkdir(exist_ok=True)
        save_fast_tokenizer(tokenizers.target, folder / TARGET, config)


def around(config: ModelConfig, decode: DecodeConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the ids that the model wants before and behind a text that it reads."""
    if config.family == "encoder":
        return (config.bos_id,), (config.eos_id,)
    if config.family == "decoder":  # which goes on with it
        return decode.source_prefix, ()
    end = (config.eos_id,) if decode.source_end else ()
    return decode.source_prefix, (*end, *decode.source_suffix)


def save_fast_tokenizer(
    tokenizer: CompleteTokenizer,
    folder: Path,
    config: ModelConfig,
    before: Sequence[int] = (),
    after: Sequence[int] = (),
) -> None:
    """Writes `tokenizer.json` and the settings with which transformers opens it as PreTrainedTokenizerFast.

    A tokenizer that came as tokenizer.json goes as it came. Raises ConfigError for one that the format cannot express.
    """
    table: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.max_positions,
        "clean_up_tokenization_spaces": False,
        "padding_side": "left" if config.family == "decoder" else "right",
        "model_input_names": ["input_ids", "attention_mask"],
    }
    if config.num_segments:
        table["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    special = {"eos_token": config.eos_id, "bos_token": config.bos_id}
    if config.pad_id is not None:
        special["pad_token"] = config.pad_id
    if isinstance(tokenizer, HuggingFaceTokenizer):
        names = tokenizer.tokens(range(tokenizer.size))
        special["unk_token"] = tokenizer.unk_id
        table["clean_up_tokenization_spaces"] = tokenizer.clean_up
        _save_as(tokenizer, folder / HUGGING_FACE_KIND)
    else:
        # Ours writes `<unk>` where it is asked to; a special token would be left out.
        written = tokenizer_json(tokenizer, before, after)
        names = token_names(tokenizer)
        table["split_special_tokens"] = True  # text that spells one is text
        write_text(folder / HUGGING_FACE_KIND, json.dumps(written, ensure_ascii=False) + "\n")
    write_json(folder / SETTINGS, table | {name: names[i] for name, i in special.items() if i < len(names)})


def _save_marian_tokenizers(source: SentencePiece, target: SentencePiece, folder: Path, max_length: int) -> None:
    """Writes SentencePiece models for MarianTokenizer, whose ids are then ours.

    A text's `▁` (U+2581) is a space to it; where we keep it apart, the ids differ.
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
    if isinstance(tokenizer, NumberedSubwords):
        return tokenizer.ids
    return {piece: i for i, piece in enumerate(tokenizer.tokens(range(tokenizer.size)))}


def _save_as(tokenizer: CompleteTokenizer, path: Path) -> None:
    with temporary_folder(path) as beside:
        move_into_place(tokenizer.save(beside / "tokenizer"), path)
