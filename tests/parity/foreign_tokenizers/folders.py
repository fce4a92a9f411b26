"""Hugging Face folders with tokenizers that are trained here, in the shapes that published models have."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid.text.foreign_files import ForeignFiles
from pellucid.text.hugging_face_loading import load_hugging_face_tokenizers
from tests.parity.foreign_tokenizers.lines import training_lines

NLLB_CODES = ["ace_Arab", "deu_Latn", "eng_Latn", "fra_Latn", "kor_Hang"]


def write(folder: Path, **tables: Any) -> Path:
    """Writes each table as a JSON file of that name."""
    for name, table in tables.items():
        (folder / f"{name}.json").write_text(json.dumps(table), encoding="utf-8")
    return folder


def word_pieces(folder: Path, cased: bool = False, **settings: Any) -> Path:
    """BERT: vocab.txt."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=600, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(training_lines(1), trainer)
    ids = tokenizer.get_vocab()
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in sorted(ids, key=ids.__getitem__)), "utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": not cased} | settings
    return write(folder, config={"model_type": "bert"}, tokenizer_config=settings)


def byte_level(folder: Path, model_type: str = "gpt2", **settings: Any) -> Path:
    """GPT-2, RoBERTa, BART: vocab.json and merges.txt."""
    from tokenizers import ByteLevelBPETokenizer

    special = ["<|endoftext|>"] if model_type in ("gpt2", "qwen2") else ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(training_lines(2), vocab_size=600, special_tokens=special, show_progress=False)
    tokenizer.save_model(str(folder))
    return write(folder, config={"model_type": model_type}, tokenizer_config=settings)


def sentencepiece(path: Path, algorithm: str = "unigram", seed: int = 3, **options: Any) -> list[str]:
    """A model with SentencePiece's own normalisation, without byte fallback; returns its pieces."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    ids = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1} | options
    with path.open("wb") as file:
        SentencePieceTrainer.train(
            sentence_iterator=iter(training_lines(seed)), model_writer=file, model_type=algorithm, vocab_size=400,
            hard_vocab_limit=False, character_coverage=0.99, minloglevel=2, num_threads=1, **ids,
        )  # fmt: skip
    model = SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(i) for i in range(model.get_piece_size())]


def marian(folder: Path, codes: Sequence[str] = ()) -> Path:
    """Two SentencePiece models and one vocabulary, pad last, as OPUS-MT has it."""
    pieces = sentencepiece(folder / "source.spm", seed=3) + sentencepiece(folder / "target.spm", seed=4)
    words = [piece for piece in dict.fromkeys(pieces) if piece not in ("<unk>", "<s>", "</s>")]
    listed = ["</s>", "<unk>", *words[::-1], *(f">>{code}<<" for code in codes), "<pad>"]
    ids = {token: i for i, token in enumerate(listed)}
    config = {"model_type": "marian", "decoder_start_token_id": ids["<pad>"], "eos_token_id": 0, "vocab_size": len(ids)}
    settings = {"tokenizer_class": "MarianTokenizer", "source_lang": "de", "target_lang": "en"}
    return write(folder, vocab=ids, config=config, tokenizer_config=settings)


def t5(folder: Path) -> Path:
    """spiece.model with pad, end and unknown first."""
    pieces = sentencepiece(folder / "spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    config = {"model_type": "t5", "decoder_start_token_id": 0, "vocab_size": len(pieces) + 100}
    return write(folder, config=config, tokenizer_config={"tokenizer_class": "T5Tokenizer", "extra_ids": 100})


def fairseq(folder: Path, model_type: str, tokenizer_class: str, algorithm: str = "unigram", more: int = 2) -> Path:
    """sentencepiece.bpe.model alone (XLM-R, mBART, NLLB); `more`: ids beside the pieces."""
    pieces = sentencepiece(folder / "sentencepiece.bpe.model", algorithm)
    config = {"model_type": model_type, "vocab_size": len(pieces) + more}
    return write(folder, config=config, tokenizer_config={"tokenizer_class": tokenizer_class})


def m2m_100(folder: Path) -> Path:
    """sentencepiece.bpe.model and vocab.json, the codes of languages behind it."""
    pieces = sentencepiece(folder / "sentencepiece.bpe.model", "bpe")
    listed = ["<s>", "<pad>", "</s>", "<unk>", *(p for p in pieces[::-1] if p not in ("<unk>", "<s>", "</s>"))]
    ids = {token: i for i, token in enumerate(listed)}
    config = {"model_type": "m2m_100", "decoder_start_token_id": 2, "vocab_size": len(ids) + 108}
    return write(folder, vocab=ids, config=config, tokenizer_config={"tokenizer_class": "M2M100Tokenizer"})


def llama(folder: Path) -> Path:
    """tokenizer.model: BPE with byte fallback and every space kept."""
    sentencepiece(
        folder / "tokenizer.model", "bpe", byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )  # fmt: skip
    config = {"model_type": "llama", "bos_token_id": 1, "eos_token_id": 2}
    return write(folder, config=config, tokenizer_config={"tokenizer_class": "LlamaTokenizer"})


def with_added(folder: Path, way: str) -> Path:
    """Adds `[EXT1]`, and `<new>` which takes the spaces around it, behind all ids, in one of transformers' files."""
    tokenizers = load_hugging_face_tokenizers(ForeignFiles(folder))
    assert tokenizers is not None
    first = tokenizers.source.size
    if way == "added_tokens.json":
        return write(folder, added_tokens={"[EXT1]": first, "<new>": first + 1})
    flags = {"normalized": False, "single_word": False, "special": False}
    listed = {
        str(first): {"content": "[EXT1]", "lstrip": False, "rstrip": False, **flags},
        str(first + 1): {"content": "<new>", "lstrip": True, "rstrip": True, **flags},
    }
    settings = json.loads((folder / "tokenizer_config.json").read_bytes())
    return write(folder, tokenizer_config={**settings, "added_tokens_decoder": listed})
