"""The comparison itself, with a counterpart that is our own model, sound or spoiled."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.conversion import proof as proofs
from pellucid.conversion import texts
from pellucid.conversion.proof import ConversionReport, read_test_sentences, skip_verification, verify_conversion
from pellucid.errors import ConfigError, DataError
from pellucid.model.families import EncoderOnly
from pellucid.model.transformer import Transformer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights.export.calls import ExportedCall
from pellucid.weights.export.tokenizer_files import TokenizerFiles
from pellucid.weights.folder import SavedModel, save_description, save_weights
from pellucid.weights.opening import open_folder
from tests.parity.export.shapes import DECODER, ENCODER, PAIRED, random_model
from tests.unit.text.subword_models import subwords


class Double:
    """Our own model as the other side; `spoil` changes what it says."""

    def __init__(self, model: Any, spoil: Callable[[Any], Any] | None = None, logits: bool = True) -> None:
        self.model, self.spoil, self.logits = model, spoil or (lambda numbers: numbers), logits
        self.written: Callable[[list[int]], list[int]] = lambda ids: ids
        self.cut: Callable[[list[list[int]]], list[list[int]] | None] = lambda ids: ids

    def token_ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        return self.cut(subwords("bpe").encode_lines(list(texts)))

    def outputs(self, ids: Sequence[int], tgt_in: Sequence[int]) -> Any:
        return self._numbers(ids, tgt_in) if self.logits else None

    def log_probs(self, ids: Sequence[int], tgt_in: Sequence[int], tgt_out: Sequence[int]) -> list[float]:
        numbers = torch.tensor(self._numbers(ids, tgt_in)).log_softmax(-1)
        return numbers.gather(1, torch.tensor(list(tgt_out))[:, None])[:, 0].tolist()

    def greedy(self, ids: Sequence[int], tgt_in: Sequence[int], suppressed: Sequence[int], max_new: int) -> list[int]:
        tokens: list[int] = list(tgt_in)
        for _ in range(max_new):
            logits = np.array(self._numbers(ids, tokens))[-1]
            logits[list(suppressed)] = -np.inf
            if (token := int(logits.argmax())) == self.model.config.eos_id:
                break
            tokens.append(token)
        return self.written(tokens[len(tgt_in) :])

    @torch.inference_mode()
    def _numbers(self, ids: Sequence[int], tgt_in: Sequence[int]) -> Any:
        given = torch.tensor([list(ids)]), torch.tensor([list(tgt_in)])
        if isinstance(self.model, Transformer):
            return self.spoil(self.model(*given)[0].numpy())
        return self.spoil(self.model(given[0] if isinstance(self.model, EncoderOnly) else given[1])[0].numpy())


@pytest.fixture
def proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ConversionReport]:
    """Proves a model of a shape against its double."""

    def run(
        config: ModelConfig | None = None, change: Callable[[Double], None] | None = None, **options: Any
    ) -> ConversionReport:
        tokenizer = subwords("bpe")
        size = tokenizer.size
        torch.manual_seed(1)
        paired = PAIRED | {"src_vocab_size": size, "tgt_vocab_size": size, "max_positions": 60}
        model = random_model(config or ModelConfig(**paired))
        decode = DecodeConfig(beam_size=2, max_length=6, source_suffix=(9,), target_prefix=(8,), suppress_tokens=(7,))
        save_description(tmp_path, model.config, TokenizerPair(tokenizer, tokenizer), decode, "")
        save_weights(tmp_path, model)
        double = Double(model)
        if change is not None:
            change(double)
        monkeypatch.setattr(proofs, "library", lambda kind: "double 1.0")
        monkeypatch.setattr(proofs, "open_counterpart", lambda *_: double)
        return verify_conversion(tmp_path, tmp_path, "hf", **({"sentences": read_test_sentences()[:4]} | options))

    return run


@pytest.mark.slow
def test_equal_sides_pass(proved: Callable[..., ConversionReport]) -> None:
    proof = proved()
    assert proof.passed
    assert (proof.measure, proof.greedy_equal, proof.tokenized_equal) == ("logits", 4, 4)
    assert proof.largest_difference < 1e-6
    assert proof.beam_difference is not None
    assert proof.beam_difference < 1e-5
    assert "4 of 4 equal token by token" in str(proof)
    assert str(proof).endswith("equal within a tolerance of 0.0001")


@pytest.mark.slow
def test_without_logits_log_probabilities_are_compared(proved: Callable[..., ConversionReport]) -> None:
    def hide(double: Double) -> None:
        double.logits = False

    proof = proved(change=hide)
    assert proof.measure == "log-probabilities"
    assert proof.passed


SPOILED: dict[str, Callable[[Any], Any]] = {
    "scaled": lambda numbers: numbers * 1.001,
    "not a number": lambda numbers: numbers * np.nan,
    "another shape": lambda numbers: np.concatenate([numbers, numbers[..., :1]], axis=-1),
    "turned round": lambda numbers: numbers[..., ::-1].copy(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SPOILED)
def test_other_numbers_fail(proved: Callable[..., ConversionReport], name: str) -> None:
    def spoil(double: Double) -> None:
        double.spoil = SPOILED[name]

    proof = proved(change=spoil)
    assert not proof.passed
    assert "NOT equal within" in str(proof)
    json.dumps(proof.to_dict(), allow_nan=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("score", "theirs", "difference"), [(-0.001, -0.00105, 5e-5), (-40.0, -40.002, 5e-5), (-40.0, -40.2, 5e-3)]
)
def test_beam_scores_differ_relative_to_the_score_or_to_one(
    proved: Callable[..., ConversionReport],
    monkeypatch: pytest.MonkeyPatch,
    score: float,
    theirs: float,
    difference: float,
) -> None:
    search = proofs.search

    def scored(*given: Any) -> Any:
        return [[replace(best, score=score) for best in found] for found in search(*given)]

    def tell(double: Double) -> None:
        double.log_probs = lambda ids, tgt_in, tgt_out: [0.0] * (len(tgt_out) - 1) + [theirs]  # type: ignore[method-assign]

    monkeypatch.setattr(proofs, "search", scored)
    proof = proved(change=tell)
    assert proof.beam_difference == pytest.approx(difference, rel=1e-3)
    assert proof.passed == (difference < proof.tolerance)


@pytest.mark.slow
def test_the_tolerance_is_the_users(proved: Callable[..., ConversionReport]) -> None:
    def spoil(double: Double) -> None:
        double.spoil = SPOILED["scaled"]

    assert proved(change=spoil, tolerance=0.01).passed


@pytest.mark.slow
def test_other_greedy_outputs_fail(proved: Callable[..., ConversionReport]) -> None:
    def lengthen(double: Double) -> None:
        double.written = lambda ids: [*ids, 5]

    proof = proved(change=lengthen)
    assert proof.greedy_equal == 0
    assert not proof.passed


@pytest.mark.slow
def test_other_tokens_fail_and_no_tokenizer_does_not(proved: Callable[..., ConversionReport]) -> None:
    def cut(double: Double) -> None:
        double.cut = lambda ids: [*ids[:-1], [3]]

    def lack(double: Double) -> None:
        double.cut = lambda ids: None

    assert proved(change=cut).tokenized_equal == 3
    assert not proved(change=cut).passed
    assert proved(change=lack).passed


CODES = {"xx": 9, "yy": 8, "zz": 7}
BETWEEN = [
    ({}, (None, None), "xx to yy (the first one of the model)", ((9,), (8,))),
    ({"source_prefix": (7,), "target_prefix": (8,)}, (None, None), "zz to yy", ((7,), (8,))),
    ({"source_prefix": (9,)}, (None, "zz"), "xx to zz", ((9,), (7,))),
    ({}, (None, "xx"), "yy to xx (the first one of the model)", ((8,), (9,))),
]


@pytest.mark.parametrize(("settings", "given", "said", "prefixes"), BETWEEN, ids=["first", "own", "given", "one"])
def test_which_languages_are_compared(
    settings: dict[str, Any], given: Any, said: str, prefixes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "codes_are_special", lambda *_: True)
    tokenizer = subwords("bpe")
    model = random_model(ModelConfig(**PAIRED))
    saved = SavedModel(model, TokenizerPair(tokenizer, tokenizer), DecodeConfig(**settings), languages=CODES)
    found, named = proofs.set_translation_direction(saved, given)
    assert named == said
    assert (found.decode.source_prefix, found.decode.target_prefix) == prefixes
    with pytest.raises(ConfigError, match=r'^unknown `source_language="qq"`'):
        proofs.set_translation_direction(saved, ("qq", None))
    with pytest.raises(ConfigError, match=r"^languages are given \(`xx`\), but the model has none$"):
        proofs.set_translation_direction(replace(saved, languages={}), ("xx", None))


def test_a_near_tie_is_counted_apart() -> None:
    writing = proofs._Writing(1e-4)
    logits = torch.tensor([[0.0, 5.0, 5.0005], [0.0, 9.0, 1.0]])
    writing.add([2], [1], logits)
    writing.add([2, 1], [2, 2], logits)
    writing.add([2], [2, 1], logits)
    assert (writing.equal, writing.near_ties) == (0, 1)


@pytest.mark.slow
def test_references_give_both_scores(proved: Callable[..., ConversionReport]) -> None:
    proof = proved(references=read_test_sentences()[:4])
    assert proof.bleu is not None
    assert proof.bleu[0] == proof.bleu[1]
    assert "nrefs:1" in proof.bleu_signature
    assert "BLEU (greedy)" in str(proof)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["decoder", "encoder"])
def test_the_other_families(proved: Callable[..., ConversionReport], family: str) -> None:
    size = {"vocab_size": subwords("bpe").size, "max_positions": 60}
    config = ModelConfig.decoder(**DECODER | size) if family == "decoder" else ModelConfig.encoder(**ENCODER | size)

    def spoil(double: Double) -> None:
        double.spoil = SPOILED["turned round"]

    proof = proved(config)
    assert proof.passed
    assert (proof.measure, proof.greedy_equal) == (("logits", 4) if family == "decoder" else ("states", None))
    assert not proved(config, spoil).passed


@pytest.mark.slow
def test_conversion_json_says_no_time_path_or_host(proved: Callable[..., ConversionReport], tmp_path: Path) -> None:
    proof = proved()
    proof.save(tmp_path)
    text = (tmp_path / "conversion.json").read_text(encoding="utf-8")
    assert json.loads(text) == proof.to_dict()
    assert str(tmp_path) not in text
    assert set(proof.to_dict()) == {
        "passed", "compared", "engine", "tolerance", "sentences", "measure", "largest_difference", "greedy_equal",
        "greedy_near_ties", "beam_difference", "tokenized_equal", "blank_tokens", "megabytes",
    }  # fmt: skip


@pytest.mark.slow
def test_a_folder_without_tokenizer_says_so(
    proved: Callable[..., ConversionReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "has_tokenizer", lambda folder: False)
    proof = proved(change=lambda double: setattr(double, "cut", lambda ids: None))
    assert proof.passed
    assert "the other folder has no tokenizer, so it takes ids" in str(proof)
    assert str(proof).endswith("equal within a tolerance of 0.0001; no tokenizer: the model takes ids")
    assert proof.to_dict()["lacks_tokenizer"] is True


VERDICTS: dict[str, tuple[dict[str, Any], bool, str, str]] = {
    "equal": ({"texts_equal": 5}, True, ": equal", "equal within a tolerance of 0.0001"),
    "tie": ({"texts_equal": 4, "texts_near_ties": 1}, True, ": equal", "equal within a tolerance of 0.0001"),
    "beams": (
        {"texts_equal": 5, "beams": 4, "beams_equal": 3}, True, ": equal, with 4 beams for 3 of 5 texts",
        "equal within a tolerance of 0.0001; with 4 beams 2 of 5 texts differ, since x 1.0 has other rules for "
        "ending and ranking beams",
    ),
    "no file": (
        {"texts_equal": 5, "no_tokenizer_json": "2 of 9 pieces have no id"}, True, ": equal",
        "equal within a tolerance of 0.0001; no tokenizer.json: 2 of 9 pieces have no id",
    ),
    "another": (
        {"texts_equal": 3, "texts_other": "`a`: `b`, not `c`"}, False, ": NOT equal",
        "NOT equal within a tolerance of 0.0001: the call in README.md differs from Pellucid for 2 of 5 texts, for "
        "instance `a`: `b`, not `c`",
    ),
    "error": (
        {"texts_error": "TypeError: no"}, False, ": NOT equal",
        "NOT equal within a tolerance of 0.0001: the call in README.md fails: TypeError: no",
    ),
    "numbers": (
        {"texts_equal": 5, "largest_difference": 0.5, "tokenized_equal": 1}, False, ": NOT equal",
        "NOT equal within a tolerance of 0.0001: logits differ by 5.0e-01 of the largest; 2 of 3 sentences are "
        "tokenized differently",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_the_first_and_the_last_line_give_the_verdict_and_its_reason(name: str) -> None:
    fields, passed, first, last = VERDICTS[name]
    proof = ConversionReport(compared=True, engine="x 1.0", sentences=3, texts=5, **fields)
    lines = str(proof).splitlines()
    assert proof.passed == passed
    assert lines[0] == f"compared with x 1.0 on 3 sentences{first}"
    assert lines[-1] == last


@pytest.mark.slow
@pytest.mark.parametrize("name", ["same", "another", "failing"])
def test_the_call_is_given_texts_with_special_cases(
    name: str, proved: Callable[..., ConversionReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that writes what we write, one that writes something else once, and one that fails."""
    tokenizer = subwords("bpe")
    size = {"src_vocab_size": tokenizer.size, "tgt_vocab_size": tokenizer.size, "max_positions": 60}
    config, decode = ModelConfig(**PAIRED | size), DecodeConfig(beam_size=2, max_length=6)
    call = ExportedCall(target="ct2", config=config, decode=decode, reading=TokenizerFiles(opens_with="tokenizers"))

    def bind(self: ExportedCall, folder: Path) -> Callable[..., str]:
        saved = open_folder(folder, torch.device("cpu"))
        ours = texts._Ours(saved, decode)

        def translate(line: str, beam_size: int = 2) -> str:
            if name == "failing":
                raise TypeError("no such word")
            return ours(line, beam_size) + "!" * (name == "another" and "😀" in line)

        return translate

    monkeypatch.setattr(ExportedCall, "bind", bind)
    proof = proved(call=call)
    assert proof.passed == (name == "same")
    assert proof.texts >= len(texts.CASES)
    if name == "failing":
        assert proof.texts_error == "TypeError: no such word"
        return
    others = int(name == "another")
    assert (proof.texts_equal, proof.beams, proof.beams_equal) == (proof.texts - others, 2, proof.texts - others)
    assert proof.texts_other.startswith("`😀") == (name == "another")


@pytest.mark.slow
def test_a_blank_line_is_told(proved: Callable[..., ConversionReport]) -> None:
    proof = proved()
    assert proof.blank_tokens > 0
    assert f"blank lines      {proof.blank_tokens} tokens for one, where Pellucid writes none" in str(proof)
    assert not proved(change=lambda double: setattr(double, "written", lambda ids: [])).blank_tokens


@pytest.mark.slow
def test_what_is_rounded_is_told_and_not_judged(proved: Callable[..., ConversionReport]) -> None:
    def spoil(double: Double) -> None:
        double.spoil = SPOILED["scaled"]

    proof = proved(change=spoil, rounded_to="int8")
    assert proof.passed
    assert "NOT equal" not in str(proof)
    assert str(proof).endswith("rounded to int8, with the differences above; set a tolerance for a verdict")
    assert f"weights          {proof.megabytes[1]:,.1f} MB, ours" in str(proof)  # type: ignore[index]
    assert not proved(change=spoil, rounded_to="int8", tolerance=1e-5).passed


def test_without_the_library_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(ModelConfig(**PAIRED))
    tokenizer = subwords("bpe")
    save_description(tmp_path, model.config, TokenizerPair(tokenizer, tokenizer), DecodeConfig(), "")
    save_weights(tmp_path, model)
    monkeypatch.setattr("pellucid.conversion.counterparts.LIBRARIES", {"onnx": "no-such-library"})
    proof = verify_conversion(tmp_path, tmp_path, "onnx")
    assert not proof.compared
    assert proof.passed
    assert "extra `onnx`" in str(proof)
    assert str(proof).startswith("not compared: ")
    assert proof.to_dict() == {"compared": False, "reason": proof.reason}


def test_a_reason_of_ones_own() -> None:
    assert str(skip_verification("a tutorial has no library")) == "not compared: a tutorial has no library"


def test_twenty_sentences_come_with_it() -> None:
    assert len(read_test_sentences()) == 20
    assert len(set(read_test_sentences())) == 20


def test_wrong_requests(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="2 sentences and 1 references"):
        verify_conversion(tmp_path, tmp_path, "hf", ["a", "b"], ["c"])
    with pytest.raises(DataError, match="no sentences to compare on"):
        verify_conversion(tmp_path, tmp_path, "hf", ["", " "])
    with pytest.raises(ConfigError, match=r"`tolerance` \(0\) must be above 0"):
        verify_conversion(tmp_path, tmp_path, "hf", tolerance=0)
