"""SentencePiece models whose pieces have other ids: what Hugging Face folders hold, without further libraries."""

import json
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceProcessor

from pellucid.errors import CheckpointError
from pellucid.text.foreign_files import ForeignFiles
from pellucid.text.hugging_face_loading import load_hugging_face_tokenizers
from pellucid.text.language_codes import language_codes, language_ids
from pellucid.text.remapped_sentencepiece import RemappedSentencePiece
from pellucid.text.special_ids import SpecialIds
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizers import TokenizerPair
from tests.parity.foreign_tokenizers import folders
from tests.parity.foreign_tokenizers.lines import varied_lines

LINES = varied_lines(5, 300)


def opened(folder: Path) -> TokenizerPair:
    tokenizers = load_hugging_face_tokenizers(ForeignFiles(folder))
    assert tokenizers is not None
    return tokenizers


def numbered(folder: Path) -> RemappedSentencePiece:
    tokenizer: Tokenizer = opened(folder).source
    assert isinstance(tokenizer, RemappedSentencePiece)
    return tokenizer


def test_fairseq_counts_its_own_four_first_and_the_languages_behind_the_pieces(tmp_path: Path) -> None:
    folder = folders.fairseq(tmp_path, "m2m_100", "NllbTokenizer", more=204)
    tokenizer = numbered(folder)
    model = SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    for line in LINES:
        assert tokenizer.encode(line) == [i + 1 if i else 3 for i in model.encode(line)]
    assert (tokenizer.bos_id, tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id) == (0, 1, 2, 3)
    first = model.get_piece_size() + 1
    codes = language_codes("nllb200")
    assert language_ids(TokenizerPair(tokenizer, tokenizer)) == {code: first + i for i, code in enumerate(codes)}
    assert tokenizer.size == first + 202 + 1  # the mask is last


@pytest.mark.parametrize(("more", "model"), [(27, "mbart25"), (54, "mbart50")])
def test_the_size_of_the_vocabulary_tells_the_two_mbarts_apart(more: int, model: str, tmp_path: Path) -> None:
    tokenizers = opened(folders.fairseq(tmp_path, "mbart", "MBartTokenizer", more=more))
    assert list(language_ids(tokenizers)) == language_codes(model)
    assert tokenizers.source.size == json.loads((tmp_path / "config.json").read_bytes())["vocab_size"]


def test_t5_has_its_own_ids_and_sentinels_behind_them(tmp_path: Path) -> None:
    tokenizer = numbered(folders.t5(tmp_path))
    model = SentencePieceProcessor(model_file=str(tmp_path / "spiece.model"))
    assert [tokenizer.encode(line) for line in LINES] == [model.encode(line) for line in LINES]
    assert tokenizer.tokens([tokenizer.size - 1, tokenizer.size - 100]) == ["<extra_id_0>", "<extra_id_99>"]
    assert (tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id, tokenizer.bos_id) == (0, 1, 2, 0)
    assert tokenizer.decode([*tokenizer.encode("der Hund"), 1, 0, tokenizer.size - 1, 9_999]) == "der Hund"


@pytest.mark.slow
def test_marian_has_two_models_and_one_vocabulary(tmp_path: Path) -> None:
    tokenizers = opened(folders.marian(tmp_path))
    ids = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    for side, tokenizer in (("source", tokenizers.source), ("target", tokenizers.target)):
        model = SentencePieceProcessor(model_file=str(tmp_path / f"{side}.spm"))
        for line in LINES:
            assert tokenizer.encode(line) == [ids.get(piece, 1) for piece in model.encode(line, out_type=str)]
    assert not tokenizers.joint
    assert (tokenizers.source.pad_id, tokenizers.source.bos_id, tokenizers.source.eos_id) == (ids["<pad>"],) * 2 + (0,)
    assert language_ids(tokenizers) == {}
    assert tokenizers.source.encode(">>fra<< a")[0] != ids.get(">>fra<<")  # no codes: text like any other


def test_a_target_vocabulary_of_its_own(tmp_path: Path) -> None:
    ids = json.loads((folders.marian(tmp_path) / "vocab.json").read_text(encoding="utf-8"))
    other = {token: len(ids) - 1 - i for token, i in ids.items()}
    folders.write(tmp_path, target_vocab=other, tokenizer_config={"eos_token": "</s>", "unk_token": "<unk>"})
    tokenizers = opened(tmp_path)
    text = "der Hund"
    assert tokenizers.target.encode(text) != tokenizers.source.encode(text)
    assert tokenizers.target.eos_id == len(ids) - 1
    assert tokenizers.target.decode(tokenizers.target.encode(text)) == text


def xlm_r(folder: Path) -> Path:
    return folders.fairseq(folder, "xlm-roberta", "XLMRobertaTokenizer")


@pytest.mark.parametrize("way", ["added_tokens.json", "added_tokens_decoder"])
@pytest.mark.parametrize("build", [folders.marian, folders.m2m_100, folders.t5, folders.llama, xlm_r])
def test_an_added_token_is_one_id_wherever_it_stands(build: Any, way: str, tmp_path: Path) -> None:
    tokenizers = opened(folders.with_added(build(tmp_path), way))
    before = json.loads(json.dumps(tokenizers.save(tmp_path)))
    for tokenizer in (tokenizers.source, TokenizerPair.load(tmp_path, before).source):
        ids = tokenizer.encode("der [EXT1] Hund")
        assert tokenizer.tokens(ids).count("[EXT1]") == 1
        assert tokenizer.size - 2 in ids
        assert "[EXT1]" in tokenizer.decode(ids)
        assert tokenizer.encode("[EXT1][EXT1]") == [tokenizer.size - 2] * 2
        assert tokenizer.size - 1 in tokenizer.encode("a <new> b")
        assert (tokenizer.encode("a <new> b") == tokenizer.encode("a<new>b")) == (way == "added_tokens_decoder") or (
            build is not folders.llama
        )


def test_an_added_token_that_stands_for_no_text(tmp_path: Path) -> None:
    """A special one is cut as text and left out of outputs, as all special tokens are."""
    folder = folders.with_added(folders.t5(tmp_path), "added_tokens.json")
    folders.write(folder, special_tokens_map={"additional_special_tokens": ["[EXT1]", "[EXT2]"]})
    tokenizer = numbered(folder)
    assert "[EXT1]" not in tokenizer.tokens(tokenizer.encode("a [EXT1] b"))
    assert tokenizer.decode([*tokenizer.encode("a"), tokenizer.ids["[EXT1]"], tokenizer.ids["[EXT2]"]]) == "a"
    assert tokenizer.ids["[EXT2]"] == tokenizer.ids["<new>"] + 1


def test_the_ids_that_a_folder_gives_to_its_mask_and_to_an_added_language(tmp_path: Path) -> None:
    folder = folders.fairseq(tmp_path, "m2m_100", "NllbTokenizer", more=205)
    before = numbered(folder)
    codes = [*language_codes("nllb200"), "xxx_Latn"]
    ids = {"<mask>": before.size - 1, "xxx_Latn": before.size}
    settings = {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": codes}
    folders.write(folder, added_tokens=ids, tokenizer_config=settings)
    after = opened(folder)
    assert numbered(folder).ids == before.ids | ids
    assert language_ids(after) == language_ids(TokenizerPair(before)) | {"xxx_Latn": before.size}


def test_an_added_token_with_the_id_of_a_piece(tmp_path: Path) -> None:
    folders.write(folders.t5(tmp_path), added_tokens={"[EXT1]": 1})
    with pytest.raises(CheckpointError, match=r"adds the token `\[EXT1\]` with the id 1, which is the id of `</s>`"):
        opened(tmp_path)


def test_an_added_token_where_sentinels_would_be(tmp_path: Path) -> None:
    """The model then has no sentinels: nothing but their order says their ids."""
    size = SentencePieceProcessor(model_file=str(folders.t5(tmp_path) / "spiece.model")).get_piece_size()
    folders.write(tmp_path, added_tokens={"[EXT1]": size}, tokenizer_config={"tokenizer_class": "T5Tokenizer"})
    assert numbered(tmp_path).size == size + 1


@pytest.mark.parametrize("kind", ["marian", "m2m_100", "t5", "llama"])
def test_what_is_saved_comes_back(kind: str, tmp_path: Path) -> None:
    made, kept = tmp_path / "made", tmp_path / "kept"
    made.mkdir()
    kept.mkdir()
    mine = opened(getattr(folders, kind)(made))
    table = json.loads(json.dumps(mine.save(kept)))
    loaded = TokenizerPair.load(kept, table)
    for before, after in ((mine.source, loaded.source), (mine.target, loaded.target)):
        ids = before.encode_lines(LINES)
        assert after.encode_lines(LINES) == ids
        assert [after.decode(i) for i in ids] == [before.decode(i) for i in ids]
        assert after.tokens(range(after.size)) == before.tokens(range(before.size))
        for name in ("size", "pad_id", "bos_id", "eos_id", "unk_id"):
            assert getattr(after, name) == getattr(before, name)
    assert loaded.save(kept) == table
    assert {path.name for path in kept.iterdir()} == set(table["files"].values())


@pytest.mark.slow
def test_changed_numbers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    table = opened(folders.t5(tmp_path)).save(tmp_path / "kept")
    path = tmp_path / "kept" / "numbers.json"
    path.write_bytes(path.read_bytes().replace(b'"eos_id": 1', b'"eos_id": 5'))
    with pytest.raises(CheckpointError, match="is not the file that was saved with the model"):
        TokenizerPair.load(tmp_path / "kept", table)


@pytest.mark.parametrize(
    "numbers",
    [b"", b"[]", b"{}", b'{"format": "x"}', b'{"pad_id":0,"bos_id":0,"eos_id":0,"unk_id":0,"ids":[],"hidden":[]}'],
)
def test_malformed_numbers(numbers: bytes, tmp_path: Path) -> None:
    folders.sentencepiece(tmp_path / "a.model")
    with pytest.raises(CheckpointError, match=r"the piece numbers of `a\.model` are malformed"):
        RemappedSentencePiece.from_files((tmp_path / "a.model").read_bytes(), numbers, "a.model")


def test_no_text_encodes_to_what_stands_for_no_text(tmp_path: Path) -> None:
    """Not even where a text is the very name of it, and the model knows none of its characters."""
    pieces = folders.sentencepiece(tmp_path / "a.model")
    names = ["ΩΩ", "ΨΨ", "ΦΦ", "<unk>", "ΞΞ", "ΔΔ"]
    ids = {piece: i for i, piece in enumerate([*names, *pieces[3:]])}
    tokenizer = RemappedSentencePiece((tmp_path / "a.model").read_bytes(), ids, SpecialIds(0, 1, 2, 3), ["ΞΞ"])
    for text in ("ΩΩ", "ΨΨ", "ΦΦ", "ΞΞ", "a ΦΦ b"):
        assert not {0, 1, 2, 4} & set(tokenizer.encode(text))
        assert 3 in tokenizer.encode(text)
    assert 5 in tokenizer.encode("ΔΔ")  # an unknown run that the vocabulary has, as Marian's may


def test_texts_that_are_hardly_texts(tmp_path: Path) -> None:
    tokenizers = opened(folders.marian(tmp_path, ["fra"]))
    texts = ["", "\ud800", "a\udfffb", "\x00\x01\x1f", "w" * 10_000, "한" * 9_999, "\U0010ffff", ">>", ">>fra<<", "<<"]
    found = tokenizers.source.encode_lines(texts)
    assert found == [tokenizers.source.encode(text) for text in texts]
    assert found[0] == []
    assert found[8] == [language_ids(tokenizers)["fra"]]
    assert all(isinstance(tokenizers.target.decode(ids), str) for ids in found)
    assert tokenizers.source.encode_lines([]) == []


def broken(name: str, text: str | bytes | None) -> Any:
    def change(folder: Path) -> None:
        path = folder / name
        if text is None:
            path.unlink()
        else:
            path.write_bytes(text.encode() if isinstance(text, str) else text)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (broken("target.spm", None), r"cannot read `.*target\.spm`: No such file"),
        (broken("vocab.json", None), r"cannot read `.*vocab\.json`: No such file"),
        (broken("vocab.json", "{"), r"`.*vocab\.json` is damaged: "),
        (broken("vocab.json", "[1]"), r"`.*vocab\.json` is damaged: it is not a table"),
        (broken("vocab.json", '{"a": "b"}'), r"`.*vocab\.json` is damaged: it has no token ids"),
        (broken("source.spm", b"\x00\x01"), r"`.*source\.spm` is not a complete SentencePiece model \(2 bytes\)"),
        (broken("tokenizer_config.json", "null"), r"`.*tokenizer_config\.json` is damaged: it is not a table"),
        (broken("config.json", "\xff".encode("latin-1")), r"`.*config\.json` is damaged: "),
    ],
)
def test_a_damaged_folder(change: Any, message: str, tmp_path: Path) -> None:
    change(folders.marian(tmp_path))
    with pytest.raises(CheckpointError, match=message):
        load_hugging_face_tokenizers(ForeignFiles(tmp_path))


def test_a_tokenizer_without_an_end(tmp_path: Path) -> None:
    folders.marian(tmp_path)
    folders.write(tmp_path, vocab={"a": 0, "b": 1}, config={}, tokenizer_config={})
    with pytest.raises(CheckpointError, match="has no end token: neither tokenizer_config") as caught:
        load_hugging_face_tokenizers(ForeignFiles(tmp_path))
    assert "add `eos_token` to tokenizer_config.json" in caught.value.hint


def test_unknown_codes_of_m2m_100(tmp_path: Path) -> None:
    folders.m2m_100(tmp_path)
    folders.write(tmp_path, tokenizer_config={"language_codes": "m2m10"})
    with pytest.raises(CheckpointError, match="unknown `language_codes` `m2m10`; did you mean `m2m100`") as caught:
        load_hugging_face_tokenizers(ForeignFiles(tmp_path))
    assert caught.value.hint == "choose one of m2m100, wmt21"


@pytest.mark.parametrize("name", ["config.json", "README.md"])
def test_a_folder_without_a_tokenizer(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{}")
    assert load_hugging_face_tokenizers(ForeignFiles(tmp_path)) is None
    assert load_hugging_face_tokenizers(ForeignFiles(tmp_path / "nothing")) is None


@pytest.mark.parametrize(
    ("settings", "config", "expected"),
    [
        ({"eos_token": "a"}, {}, (1, 1, 1, 1)),
        ({"eos_token": {"content": "a"}, "pad_token": "b", "unk_token": "c"}, {}, (2, 2, 1, 3)),
        ({"sep_token": "a", "cls_token": "b", "bos_token": "c"}, {}, (1, 2, 1, 1)),
        ({"eos_token": "missing"}, {"eos_token_id": [3, 1], "pad_token_id": 2}, (2, 2, 3, 2)),
        ({"eos_token": "a"}, {"decoder_start_token_id": 3, "bos_token_id": 2}, (1, 3, 1, 1)),
    ],
)
def test_where_special_ids_are_found(
    settings: dict[str, Any], config: dict[str, Any], expected: tuple[int, ...], tmp_path: Path
) -> None:
    from pellucid.text.special_ids import find_special_ids

    folders.write(tmp_path, tokenizer_config=settings, config=config)
    found = find_special_ids(ForeignFiles(tmp_path), {"a": 1, "b": 2, "c": 3})
    assert (found.pad_id, found.bos_id, found.eos_id, found.unk_id) == expected


def test_pieces_without_an_id_are_counted(tmp_path: Path) -> None:
    assert opened(folders.marian(tmp_path)).describe_pieces_without_ids() == ""
    ids = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    pieces = [piece for piece in numbered(tmp_path).ids if piece.startswith("▁")][:4]
    folders.write(tmp_path, vocab={piece: i for piece, i in ids.items() if piece not in pieces})
    told = opened(tmp_path).describe_pieces_without_ids()
    assert " of the source's pieces have no id (`▁" in told
    assert " of the target's pieces have no id (`▁" in told
    assert told.endswith("; they are read as unknown tokens")


@pytest.mark.slow
def test_the_decoder_s_start_may_be_the_target_s_alone(tmp_path: Path) -> None:
    ids = json.loads((folders.marian(tmp_path) / "vocab.json").read_text(encoding="utf-8"))
    config = {"model_type": "marian", "decoder_start_token_id": len(ids) + 1, "eos_token_id": 0}
    target = {**ids, "a further piece": len(ids), "<pad>": len(ids) + 1}
    folders.write(tmp_path, config=config, target_vocab=target)
    tokenizers = opened(tmp_path)
    assert tokenizers.source.size == len(ids)
    assert tokenizers.target.bos_id == len(ids) + 1
