"""What a folder's generation_config.json asks of outputs, beside transformers' `generate` by the same file."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.conversion.proof import verify_conversion
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.translator import Translator
from pellucid.weights.opening import open_folder
from tests.parity.foreign_tokenizers import folders
from tests.parity.foreign_tokenizers.test_translating_folders import LINES, make

pytestmark = [pytest.mark.foreign, pytest.mark.filterwarnings("ignore::UserWarning")]

LONGEST = 30


def with_rules(folder: Path, **rules: Any) -> Path:
    path = folder / "generation_config.json"
    return folders.write(folder, generation_config=json.loads(path.read_bytes()) | rules)


def written(model: Any, given: Any, ends: list[int], begin: int, **options: Any) -> list[int] | None:
    """What `generate` writes behind its first `begin` ids, without the end; None: it was cut off at its limit."""
    row = model.generate(**given, num_beams=1, do_sample=False, **options)[0].tolist()[begin:]
    end = next((place for place, i in enumerate(row) if i in ends), None)
    at_limit = model.config.is_encoder_decoder and end is not None and begin + end == LONGEST - 1
    return None if end is None or at_limit else row[:end]


@pytest.mark.parametrize("kind", ["bart", "marian", "t5"])
def test_the_rules_of_a_translator(kind: str, tmp_path: Path) -> None:
    import transformers as hf

    folder = make(tmp_path, kind)
    model = hf.AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer, end = hf.AutoTokenizer.from_pretrained(folder), model.config.eos_token_id
    special = {end, model.config.pad_token_id, model.config.decoder_start_token_id}
    special.add(getattr(model.config, "bos_token_id", None))
    rows = [model.generate(**tokenizer(line, return_tensors="pt"), num_beams=1, max_new_tokens=8)[0] for line in LINES]
    found = [i for row in rows for i in row.tolist() if i not in special]
    often = sorted(set(found), key=found.count)
    never = [[i] for i in {model.config.pad_token_id, model.config.decoder_start_token_id} - {end}]
    rules = {
        "no_repeat_ngram_size": 2, "min_length": 6, "max_length": LONGEST, "eos_token_id": [end, often[0], often[1]],
        "bad_words_ids": [*never, [often[-1], often[-1]], [often[-2], often[-1], often[-3]]],
    }  # fmt: skip
    with_rules(folder, **rules)
    model = hf.AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager").eval()
    translator = Translator.load(folder, "cpu")
    assert (translator.decode.no_repeat_ngram_size, len(translator.decode.banned)) == (2, 2)
    forced = model.generation_config.forced_bos_token_id is not None
    compared = 0
    for line in LINES:
        given = tokenizer(line, return_tensors="pt")
        theirs = written(model, given, rules["eos_token_id"], 1 + forced)  # type: ignore[arg-type]
        if theirs is None:
            continue
        compared += 1
        ours = translator.translate([line], beam_size=1, segment="off")[0]
        assert ours.tokens == translator.tokenizers.target.tokens(theirs)
    assert compared > len(LINES) // 4


def test_the_rules_of_a_language_model(tmp_path: Path) -> None:
    import transformers as hf

    folder = folders.llama(tmp_path)
    torch.manual_seed(2)
    model = hf.LlamaForCausalLM(
        hf.LlamaConfig(
            vocab_size=400, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=128, initializer_range=0.5, bos_token_id=1, eos_token_id=2,
        )
    )  # fmt: skip
    rules = {"no_repeat_ngram_size": 2, "min_new_tokens": 3, "eos_token_id": [2, *range(260, 340)]}
    settings = (folder / "tokenizer_config.json").read_bytes()
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_bytes(settings)
    with_rules(folder, **rules)
    model, writer = hf.LlamaForCausalLM.from_pretrained(folder).eval(), LanguageModel.load(folder, "cpu")
    assert writer.decode.end_ids == tuple(range(260, 340))
    compared = 0
    for line in LINES[:12]:
        ids = writer.tokenizers.target.encode(line)
        given = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
        theirs = written(model, given, rules["eos_token_id"], len(ids), max_new_tokens=40)  # type: ignore[arg-type]
        if theirs is None:
            continue
        compared += 1
        ours = writer.generate([line], max_new_tokens=40)[0]
        assert ours.tokens == writer.tokenizers.target.tokens(theirs)
    assert compared > 6


def test_ctranslate2_keeps_the_rules(tmp_path: Path) -> None:
    folder = with_rules(make(tmp_path, "bart"), no_repeat_ngram_size=2, min_length=8, eos_token_id=[2, 40, 77])
    here, there = Translator.load(folder, "cpu"), Translator.load(folder, "cpu", engine="ctranslate2")
    ours, theirs = (each.translate(LINES, beam_size=1, max_length=LONGEST) for each in (here, there))
    assert [one.tokens for one in ours] == [one.tokens for one in theirs]


def test_the_page_keeps_the_rules(tmp_path: Path) -> None:
    from pellucid.weights import to_page

    folder = with_rules(
        make(tmp_path, "bart"), no_repeat_ngram_size=2, min_length=8, eos_token_id=[2, 40, 77], bad_words_ids=[[35, 35]]
    )
    to_page(folder, tmp_path / "page.html", weights="float32")
    proof = verify_conversion(folder, tmp_path / "page.html", "page")
    assert proof.passed
    assert open_folder(folder, torch.device("cpu")).decode.banned == ((35, 35),)
