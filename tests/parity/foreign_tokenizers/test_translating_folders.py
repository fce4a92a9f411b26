"""Folders of translators as transformers saves them, opened and used: what `generate` finds, text for text.

Where the definitions differ, its settings here are those that mean ours:

- transformers writes the pad and the start token if they are probable, Pellucid never does: they are suppressed.
- at its length limit transformers takes unfinished hypotheses for finished ones, Pellucid has them end, and counts the
  end token: a logits processor does so here.
- with `early_stopping=False` transformers goes on until no live hypothesis would be among the W best that finished,
  Pellucid until none would be among the n best: n is W here.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.errors import CheckpointError, ConfigError
from pellucid.tasks.evaluate import evaluate
from pellucid.tasks.translator import Translator
from pellucid.weights.folder import save_description, save_weights
from pellucid.weights.opening import open_folder
from tests.parity.foreign_tokenizers import folders
from tests.parity.foreign_tokenizers.lines import varied_lines
from tests.unit.cli.command_line import CommandLine

pytestmark = [pytest.mark.foreign, pytest.mark.filterwarnings("ignore::UserWarning")]

LINES = [line[:30] for line in varied_lines(7, 400) if 8 < len(line) < 100][:24]
LIMIT = 12
W = 4
SHAPE = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 160,
    "init_std": 0.3, "tie_word_embeddings": False,
}  # fmt: skip


def make(folder: Path, kind: str) -> Path:
    """A random model of a family beside a tokenizer trained here."""
    import transformers as hf

    torch.manual_seed(11)
    if kind in ("marian", "marian-codes"):
        folders.marian(folder, ["fra", "por"] if kind == "marian-codes" else [])
        ids = hf.AutoTokenizer.from_pretrained(folder)
        special = {"pad_token_id": ids.pad_token_id, "eos_token_id": 0, "decoder_start_token_id": ids.pad_token_id}
        special |= {"forced_eos_token_id": 0}
        model = hf.MarianMTModel(hf.MarianConfig(vocab_size=len(ids), **SHAPE, **special, scale_embedding=True))
        model.generation_config.bad_words_ids = [[ids.pad_token_id]]
    elif kind == "bart":
        folders.byte_level(folder, "bart", tokenizer_class="BartTokenizer")
        model = hf.BartForConditionalGeneration(hf.BartConfig(vocab_size=600, forced_bos_token_id=0, **SHAPE))
    elif kind == "m2m-100":
        folders.m2m_100(folder)
        size = load_folder_tokens(folder) + 8
        model = hf.M2M100ForConditionalGeneration(hf.M2M100Config(vocab_size=size, **SHAPE))
    elif kind == "mbart":  # to Romanian: what its decoder starts with
        folders.fairseq(folder, "mbart", "MBartTokenizer", more=27)
        tokenizer = hf.AutoTokenizer.from_pretrained(folder)
        tokenizer.save_pretrained(folder)
        start = tokenizer.convert_tokens_to_ids("ro_RO")
        model = hf.MBartForConditionalGeneration(
            hf.MBartConfig(vocab_size=len(tokenizer), **SHAPE, decoder_start_token_id=start)
        )
    elif kind == "mbart-50":
        folders.fairseq(folder, "mbart", "MBart50Tokenizer", more=54)
        hf.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)  # a tokenizer.json, as published ones have
        size = load_folder_tokens(folder)
        model = hf.MBartForConditionalGeneration(
            hf.MBartConfig(vocab_size=size, **SHAPE, decoder_start_token_id=2, scale_embedding=True)
        )
    else:
        folders.t5(folder)
        model = hf.T5ForConditionalGeneration(
            hf.T5Config(
                vocab_size=load_folder_tokens(folder), d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                decoder_start_token_id=0, tie_word_embeddings=False, feed_forward_proj="gated-gelu",
                initializer_factor=1.0,
            )
        )  # fmt: skip
    make_talkative(model)
    model.generation_config.max_length = None
    settings = (folder / "tokenizer_config.json").read_bytes()
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_bytes(settings)
    return folder


def make_talkative(model: Any) -> None:
    """Makes outputs depend on the source and on what was written, and come to an end after some tokens."""
    end = model.config.eos_token_id
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "encoder_attn" in name or "EncDecAttention" in name:
                parameter *= 2
        output = model.get_output_embeddings().weight
        output *= 0.35 / output.std()
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias[0, end] = 3.5
        elif hasattr(model.get_decoder(), "layer_norm"):
            bias = model.get_decoder().layer_norm.bias.fill_(0.3)
            output[end] += 3.5 * bias / bias.square().sum()
        else:  # T5 has no bias at all
            output[end] *= 6


def load_folder_tokens(folder: Path) -> int:
    from pellucid.text.foreign_files import ForeignFiles
    from pellucid.text.hugging_face_loading import load_hugging_face_tokenizers

    tokenizers = load_hugging_face_tokenizers(ForeignFiles(folder))
    assert tokenizers is not None
    return tokenizers.source.size


def end_at(length: int, end: int) -> Any:
    """A logits processor that lets hypotheses of `length` ids, start and forced ids included, only end."""

    def process(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if ids.size(1) < length:
            return scores
        return torch.full_like(scores, -torch.inf).index_copy_(1, torch.tensor([end]), scores[:, [end]])

    return process


def generated(folder: Path, source_language: str | None, target_language: str | None, beam_size: int) -> Any:
    """For each line: what `generate` finds, as (ids behind the prefix, sum of log-probabilities), best first."""
    import transformers as hf

    options = {} if source_language is None else {"src_lang": source_language}
    tokenizer = hf.AutoTokenizer.from_pretrained(folder, **options)
    model = hf.AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager").eval()
    start, end = model.config.decoder_start_token_id, model.config.eos_token_id
    never = {model.config.pad_token_id, start} - {end}
    forced = model.generation_config.forced_bos_token_id
    if target_language is not None:
        get_id = getattr(tokenizer, "get_lang_id", tokenizer.convert_tokens_to_ids)
        forced = get_id(target_language)
    behind = 0 if forced is None else 1
    results = []
    for line in LINES:
        out = model.generate(
            **tokenizer(line, return_tensors="pt"), num_beams=beam_size, num_return_sequences=beam_size,
            do_sample=False, length_penalty=1.0, early_stopping=False, max_new_tokens=LIMIT + behind + 1,
            forced_bos_token_id=forced, forced_eos_token_id=None, suppress_tokens=sorted(never),
            logits_processor=[end_at(1 + behind + LIMIT, end)], return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        found = []
        for place, row in enumerate(out.sequences.tolist()):
            ids = row[1 : row.index(end, 1 + behind) + 1]
            score = float(out.sequences_scores[place]) * len(ids) if beam_size > 1 else None
            found.append((ids[behind:-1], score))
        results.append(found)
    return results, tokenizer


FAMILIES = {
    "marian": (None, None),
    "marian-codes": (None, None),
    "bart": (None, None),
    "m2m-100": ("de", "fr"),
    "mbart": ("en_XX", None),
    "mbart-50": ("de_DE", "fr_XX"),
    "t5": (None, None),
}


@pytest.mark.parametrize("beam_size", [1, W])
@pytest.mark.parametrize("kind", FAMILIES)
def test_searches_find_what_generate_finds(kind: str, beam_size: int, tmp_path: Path) -> None:
    folder, (source, target) = make(tmp_path, kind), FAMILIES[kind]
    expected, tokenizer = generated(folder, source, target, beam_size)
    translator = Translator.load(folder, "cpu", source_language=source, target_language=target)
    found = translator.translate(LINES, beam_size=beam_size, n_best=beam_size, length_penalty=1.0, max_length=LIMIT)
    codes, size = set(translator.languages.values()), translator.tokenizers.target.size
    assert len({translation.text for translation in found}) > len(LINES) // 3
    for translation, theirs in zip(found, expected, strict=True):
        of_text: dict[str, Any] = {}  # of equal texts we keep the first
        for ids, score in theirs:
            words = [i for i in ids if i not in codes and i < size]  # of others theirs shows some
            text = " ".join(tokenizer.decode(words, skip_special_tokens=True).splitlines())
            of_text.setdefault(text, (ids, score))
        for ours, (text, (ids, score)) in zip(translation.alternatives, of_text.items(), strict=True):
            assert (ours.text, ours.tokens) == (text, translator.tokenizers.target.tokens(ids))
            assert score is None or ours.score == pytest.approx(score, abs=1e-4 * max(1, len(ids)))


@pytest.mark.parametrize("kind", FAMILIES)
def test_scores_are_those_of_what_was_found(kind: str, tmp_path: Path) -> None:
    """Of translations whose text is cut into the tokens that it was made of."""
    folder, (source, target) = make(tmp_path, kind), FAMILIES[kind]
    translator = Translator.load(folder, "cpu", source_language=source, target_language=target)
    found = translator.translate(LINES, beam_size=2, max_length=4)
    texts = [translation.text for translation in found]
    kept = [
        place
        for place, ids in enumerate(translator.tokenizers.target.encode_lines(texts))
        if translator.tokenizers.target.tokens(ids) == found[place].tokens
    ]
    assert len(kept) >= 3
    scores = translator.score([LINES[place] for place in kept], [texts[place] for place in kept])
    assert scores == pytest.approx([found[place].score for place in kept], abs=1e-3)
    drawn = translator.sample(LINES[:3], max_length=4)
    assert [len(translation.tokens) <= 4 for translation in drawn] == [True] * 3
    assert evaluate(translator, LINES[:5], LINES[:5], beam_size=1, max_length=4).bleu >= 0


@pytest.mark.parametrize("kind", ["marian-codes", "m2m-100", "bart"])
def test_a_folder_saved_as_ours_translates_without_the_first_one(kind: str, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    folder, (source, target) = make(tmp_path / "theirs", kind), FAMILIES[kind]
    saved = open_folder(folder, torch.device("cpu"))
    assert saved.tokenizers is not None
    ours = tmp_path / "ours"
    save_description(ours, saved.model.config, saved.tokenizers, saved.decode, "# a card\n", languages=saved.languages)
    save_weights(ours, saved.model)
    spoken = {"source_language": source, "target_language": target}
    first = Translator.load(folder, "cpu", **spoken).translate(LINES, max_length=5, n_best=2)
    for path in folder.iterdir():
        path.unlink()
    assert Translator.load(ours, "cpu", **spoken).translate(LINES, max_length=5, n_best=2) == first


@pytest.mark.parametrize(("kind", "pairs"), [("marian", ("de-en",)), ("marian-codes", ()), ("bart", ())])
def test_the_language_pair_of_a_folder_is_that_of_its_settings(
    kind: str, pairs: tuple[str, ...], tmp_path: Path
) -> None:
    """The settings of a model with codes may name a family of languages."""
    (tmp_path / "theirs").mkdir()
    translator = Translator.load(make(tmp_path / "theirs", kind), "cpu")
    assert translator.pairs == pairs
    translator.save(tmp_path / "ours")
    assert Translator.load(tmp_path / "ours", "cpu").pairs == pairs


def test_the_target_of_a_model_whose_codes_stand_before_the_source(tmp_path: Path) -> None:
    translator = Translator.load(make(tmp_path, "marian-codes"), "cpu")
    lines, french = LINES[:6], [f">>fra<< {line}" for line in LINES[:6]]
    by_option = translator.translate(lines, target_language="fra", max_length=6)
    in_the_text = translator.translate(french, max_length=6)
    assert [(t.text, t.tokens) for t in by_option] == [(t.text, t.tokens) for t in in_the_text]
    assert [t.score for t in by_option] == pytest.approx([t.score for t in in_the_text])
    assert by_option != translator.translate(lines, target_language="por", max_length=6)
    with pytest.raises(ConfigError, match='`source_language="fra"` has no effect on this model, whose codes are for'):
        translator.translate(lines, source_language="fra", target_language="por")


def test_a_model_of_many_languages_wants_to_know_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pellucid = CommandLine(capsys)
    folder = make(tmp_path, "m2m-100")
    translator = Translator.load(folder, "cpu")
    with pytest.raises(ConfigError, match="100 languages, and `source_language=` and `target_language=` are not given"):
        translator.translate(["a"])
    with pytest.raises(ConfigError, match="and `target_language=` is not given") as caught:
        translator.score(["a"], ["b"], source_language="de")
    assert caught.value.hint.startswith("codes: af, am, ar,")
    with pytest.raises(ConfigError, match='unknown `target_language="fre"`; similar codes are '):
        translator.translate(["a"], source_language="de", target_language="fre")
    (folder / "lines").write_text("Der Hund\n\nein Haus\n", encoding="utf-8")
    options = ["--max-length", "5", "--input", folder / "lines", "--device", "cpu"]
    done = pellucid("translate", folder, "--src-lang", "de", "--tgt-lang", "fr", *options)
    expected = translator.translate(
        ["Der Hund", "", "ein Haus"], source_language="de", target_language="fr", max_length=5
    )
    assert (done.status, done.out) == (0, "".join(f"{translation.text}\n" for translation in expected))
    refused = pellucid("translate", folder, "--src-lang", "de", "--tgt-lang", "xx", *options)
    assert (refused.status, refused.out) == (2, "")
    assert refused.error.startswith("unknown `--tgt-lang xx`")


def test_evaluate_and_score_between_languages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pellucid = CommandLine(capsys)
    folder = make(tmp_path, "m2m-100")
    for name in ("src", "ref"):
        (folder / name).write_text("".join(f"{line}\n" for line in LINES[:5]), encoding="utf-8")
    translator = Translator.load(folder, "cpu", source_language="de", target_language="fr")
    spoken, src, ref = ["--src-lang", "de", "--tgt-lang", "fr"], ["--src", folder / "src"], ["--ref", folder / "ref"]
    device = ["--device", "cpu"]
    scored = pellucid("score", folder, *src, "--tgt", folder / "ref", *spoken, *device)
    assert (scored.status, scored.err) == (0, "")
    expected = translator.score(LINES[:5], LINES[:5])
    assert [float(line) for line in scored.out.splitlines()] == pytest.approx(expected, abs=1e-3)
    done = pellucid("evaluate", folder, *src, *ref, *spoken, *device, "--beam-size", 1, "--json")
    assert done.status == 0
    assert json.loads(done.out)["chrf"] == evaluate(translator, LINES[:5], LINES[:5], beam_size=1).chrf
    for verb, other in (("score", ["--tgt", folder / "ref"]), ("evaluate", ref)):
        refused = pellucid(verb, folder, *src, *other, "--src-lang", "de", *device)
        assert (refused.status, refused.out) == (2, "")
        assert refused.error.endswith("100 languages, and `--tgt-lang` is not given")


@pytest.mark.parametrize("kind", ["marian", "bart", "m2m-100", "mbart"])
def test_limits_count_as_in_transformers(kind: str, tmp_path: Path) -> None:
    """Start, forced token and end included."""
    import transformers as hf

    folder, (source, target) = make(tmp_path, kind), FAMILIES[kind]
    table = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    start, end = table["decoder_start_token_id"], table["eos_token_id"]
    never = sorted({table["pad_token_id"], start} - {end})
    settings = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    if kind == "bart":
        settings["forced_bos_token_id"] = table["bos_token_id"]
    settings |= {"max_length": 7, "forced_eos_token_id": end, "suppress_tokens": never, "num_beams": 1}
    (folder / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    tokenizer = hf.AutoTokenizer.from_pretrained(folder, **({} if source is None else {"src_lang": source}))
    model = hf.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    forced = {} if target is None else {"forced_bos_token_id": tokenizer.get_lang_id(target)}
    translator = Translator.load(folder, "cpu", source_language=source, target_language=target)
    behind = 2 + len(translator.decode.target_prefix)
    assert behind == (3 if kind in ("bart", "m2m-100") else 2)
    assert translator.decode.max_length == 7 - behind
    found = translator.translate(LINES)
    for line, translation in zip(LINES, found, strict=True):
        row = model.generate(**tokenizer(line, return_tensors="pt"), **forced)[0].tolist()
        words = row[behind - 1 : row.index(end, behind - 1)]
        assert translation.tokens == translator.tokenizers.target.tokens(words)
    assert max(len(translation.tokens) for translation in found) == 7 - behind


@pytest.mark.parametrize(
    ("kind", "spoken", "missing"),
    [
        ("m2m-100", {"src_lang": "de", "tgt_lang": "fr"}, None),
        ("m2m-100", {"src_lang": "de", "tgt_lang": None}, "target_language"),
        ("mbart", {"src_lang": "en_XX", "tgt_lang": "ro_RO"}, None),
        ("mbart-50", {"src_lang": "de_DE", "tgt_lang": "fr_XX"}, None),
        ("mbart-50", {"src_lang": "klingon", "tgt_lang": "fr_XX"}, "source_language"),
    ],
)
def test_the_languages_that_the_tokenizer_s_settings_name(
    kind: str, spoken: dict[str, str | None], missing: str | None, tmp_path: Path
) -> None:
    folder = make(tmp_path, kind)
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | spoken), encoding="utf-8")
    translator = Translator.load(folder, "cpu")
    if missing is not None:
        with pytest.raises(ConfigError, match=f"`{missing}=` is not given"):
            translator.translate(LINES[:4], max_length=5)
        return
    by_default = translator.translate(LINES[:4], max_length=5)
    told = {"source_language": spoken["src_lang"], "target_language": spoken["tgt_lang"]}
    assert by_default == translator.translate(LINES[:4], max_length=5, **told)
    other = {"m2m-100": "it", "mbart": "cs_CZ", "mbart-50": "it_IT"}[kind]
    assert by_default != translator.translate(LINES[:4], max_length=5, **told | {"source_language": other})


def test_a_model_without_its_tokenizer_does_not_translate(tmp_path: Path) -> None:
    folder = make(tmp_path, "marian")
    for name in ("source.spm", "target.spm", "vocab.json"):
        (folder / name).unlink()
    with pytest.raises(CheckpointError, match="has no tokenizer, so it cannot read text"):
        Translator.load(folder, "cpu")


@pytest.mark.parametrize(
    ("kind", "spoken"),
    [("marian", {}), ("m2m-100", {"source_language": "en", "target_language": "fr"}), ("bart", {}), ("t5", {})],
)
def test_models_of_sentences_get_sentences_and_those_of_texts_get_texts(
    kind: str, spoken: dict[str, str], tmp_path: Path
) -> None:
    folder = make(tmp_path, kind)
    cut = kind in ("marian", "m2m-100")
    for segment, count in (("auto", 2 if cut else 1), ("off", 1)):
        (found,) = Translator.load(folder, "cpu", **spoken).translate(
            ["Two dogs run. A man sleeps."], max_length=5, segment=segment
        )
        assert len(found.sentences) == count
