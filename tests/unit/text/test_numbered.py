"""SentencePiece models whose pieces have other ids: what Hugging Face folders hold, without further libraries."""

import json
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceProcessor

from pellucid.errors import CheckpointError
from pellucid.text.foreign import load_foreign_tokenizer
from pellucid.text.language_codes import language_codes, language_ids
from pellucid.text.numbered import NumberedSubwords
from pellucid.text.special_ids import SpecialIds
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizers import Tokenizers
from tests.parity.foreign_tokenizers import folders
from tests.parity.foreign_tokenizers.lines import varied_lines

LINES = varied_lines(5, 300)


def opened(folder: Path) -> Tokenizers:
    tokenizers = load_foreign_tokenizer(folder)
    assert tokenizers is not None
    return tokenizers


def numbered(folder: Path) -> NumberedSubwords:
    tokenizer: Tokenizer = opened(folder).source
    assert isinstance(tokenizer, NumberedSubwords)
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
    assert language_ids(Tokenizers(tokenizer, tokenizer)) == {code: first + i for i, code in enumerate(codes)}
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


@pytest.mark.parametrize("kind", ["marian", "m2m_100", "t5", "llama"])
def test_what_is_saved_comes_back(kind: str, tmp_path: Path) -> None:
    made, kept = tmp_path / "made", tmp_path / "kept"
    made.mkdir()
    kept.mkdir()
    mine = opened(getattr(folders, kind)(made))
    table = json.loads(json.dumps(mine.save(kept)))
    loaded = Tokenizers.load(kept, table)
    for before, after in ((mine.source, loaded.source), (mine.target, loaded.target)):
        ids = before.encode_lines(LINES)
        assert after.encode_lines(LINES) == ids
        assert [after.decode(i) for i in ids] == [before.decode(i) for i in ids]
        assert after.tokens(range(after.size)) == before.tokens(range(before.size))
        for name in ("size", "pad_id", "bos_id", "eos_id", "unk_id"):
            assert getattr(after, name) == getattr(before, name)
    assert loaded.save(kept) == table
    assert {path.name for path in kept.iterdir()} == set(table["files"].values())


def test_changed_numbers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    table = opened(folders.t5(tmp_path)).save(tmp_path / "kept")
    path = tmp_path / "kept" / "numbers.json"
    path.write_bytes(path.read_bytes().replace(b'"eos_id": 1', b'"eos_id": 5'))
    with pytest.raises(CheckpointError, match="is not the file that was saved with the model"):
        Tokenizers.load(tmp_path / "kept", table)


@pytest.mark.parametrize(
    "numbers",
    [b"", b"[]", b"{}", b'{"format": "x"}', b'{"pad_id":0,"bos_id":0,"eos_id":0,"unk_id":0,"ids":[],"hidden":[]}'],
)
def test_malformed_numbers(numbers: bytes, tmp_path: Path) -> None:
    folders.sentencepiece(tmp_path / "a.model")
    with pytest.raises(CheckpointError, match=r"the piece numbers of `a\.model` are malformed"):
        NumberedSubwords.from_files((tmp_path / "a.model").read_bytes(), numbers, "a.model")


def test_no_text_encodes_to_what_stands_for_no_text(tmp_path: Path) -> None:
    """Not even where a text is the very name of it, and the model knows none of its characters."""
    pieces = folders.sentencepiece(tmp_path / "a.model")
    names = ["ΩΩ", "ΨΨ", "ΦΦ", "<unk>", "ΞΞ", "ΔΔ"]
    ids = {piece: i for i, piece in enumerate([*names, *pieces[3:]])}
    tokenizer = NumberedSubwords((tmp_path / "a.model").read_bytes(), ids, SpecialIds(0, 1, 2, 3), ["ΞΞ"])
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
        (broken("vocab.json", "[1]"), r"`.*vocab\.json` is damaged: it holds no table"),
        (broken("vocab.json", '{"a": "b"}'), r"`.*vocab\.json` is damaged: it holds no ids of tokens"),
        (broken("source.spm", b"\x00\x01"), r"`.*source\.spm` is not a whole SentencePiece model \(2 bytes\)"),
        (broken("tokenizer_config.json", "null"), r"`.*tokenizer_config\.json` is damaged: it holds no table"),
        (broken("config.json", "\xff".encode("latin-1")), r"`.*config\.json` is damaged: "),
    ],
)
def test_a_damaged_folder(change: Any, message: str, tmp_path: Path) -> None:
    change(folders.marian(tmp_path))
    with pytest.raises(CheckpointError, match=message):
        load_foreign_tokenizer(tmp_path)


def test_a_tokenizer_without_an_end(tmp_path: Path) -> None:
    folders.marian(tmp_path)
    folders.write(tmp_path, vocab={"a": 0, "b": 1}, config={}, tokenizer_config={})
    with pytest.raises(CheckpointError, match="has no end token: neither tokenizer_config") as caught:
        load_foreign_tokenizer(tmp_path)
    assert "add `eos_token` to tokenizer_config.json" in caught.value.hint


def test_unknown_codes_of_m2m_100(tmp_path: Path) -> None:
    folders.m2m_100(tmp_path)
    folders.write(tmp_path, tokenizer_config={"language_codes": "m2m10"})
    with pytest.raises(CheckpointError, match="unknown `language_codes` `m2m10`; did you mean `m2m100`") as caught:
        load_foreign_tokenizer(tmp_path)
    assert caught.value.hint == "known are m2m100, wmt21"


@pytest.mark.parametrize("name", ["config.json", "README.md"])
def test_a_folder_without_a_tokenizer(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{}")
    assert load_foreign_tokenizer(tmp_path) is None
    assert load_foreign_tokenizer(tmp_path / "nothing") is None


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
    found = find_special_ids(tmp_path, {"a": 1, "b": 2, "c": 3})
    assert (found.pad_id, found.bos_id, found.eos_id, found.unk_id) == expected
