"""A tutorial's state dict with its vocabularies: what its model would write, ours writes as text."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pellucid.conversion.tutorial import TutorialOptions, find_nonsense, open_tutorial
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.model.families import SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator
from pellucid.weights.folder import SavedModel
from tests.parity.tutorials import training
from tests.parity.tutorials.annotated import Annotated
from tests.parity.tutorials.classifier import Classifier
from tests.parity.tutorials.seq2seq import Seq2Seq
from tests.unit.conversion.tutorial_models import (
    LINES,
    SIZES,
    SOURCE,
    TARGET,
    Logits,
    tutorial,
    write,
)


def written(logits: Logits, line: str, start: bool = True, end: bool = True) -> list[str]:
    """What greedy search by the tutorial's model writes, in tokens of the target's list."""
    ids = [SOURCE.index(token) if token in SOURCE else 0 for token in line.split()]
    src = torch.tensor([[*([2] if start else []), *ids, *([3] if end else [])]])
    tgt = [TARGET.index("<s>")]
    while len(tgt) <= 2 * len(ids) + 50:
        last = logits(src, torch.tensor([tgt]))[0, -1].clone()
        last[[TARGET.index("<s>"), TARGET.index("[PAD]")]] = -torch.inf
        if int(last.argmax()) == TARGET.index("</S>"):
            break
        tgt.append(int(last.argmax()))
    return ["<unk>" if TARGET[i] == "<UNK>" else TARGET[i] for i in tgt[1:]]


def translator_of(saved: SavedModel) -> Translator:
    assert isinstance(saved.model, Transformer)
    assert saved.tokenizers is not None
    return Translator(saved.model, saved.tokenizers, saved.decode)


@pytest.mark.parametrize(("bare", "unended"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "layout",
    [
        "annotated-transformer", "keras-transformer",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("pytorch-seq2seq", "aladdin-persson")),
        pytest.param("pytorch-transformer", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_it_writes_what_the_tutorial_writes(
    layout: str, bare: bool, unended: bool, vocabularies: dict[str, str]
) -> None:
    state, logits = tutorial(layout)
    around = {"source_without_bos": bare, "source_without_eos": unended}
    options = TutorialOptions(num_heads=2, max_positions=80, **around, **vocabularies)
    translator = translator_of(open_tutorial(state, layout, options))
    with torch.no_grad():
        expected = [written(logits, line, not bare, not unended) for line in LINES]
    assert [found.tokens for found in translator.translate(LINES, beam_size=1)] == expected
    assert len({tuple(tokens) for tokens in expected}) > 1
    assert translator.model.config.max_positions == (
        {"annotated-transformer": 100, "aladdin-persson": 100}.get(layout, 80)
    )


def test_special_ids_are_the_usual_ones(vocabularies: dict[str, str]) -> None:
    saved = open_tutorial(tutorial("aladdin-persson")[0], "aladdin-persson", TutorialOptions(**vocabularies))
    config = saved.model.config
    assert (config.pad_id, config.bos_id, config.eos_id, config.num_heads) == (0, 1, 2, 2)
    assert (config.src_vocab_size, config.tgt_vocab_size) == (len(SOURCE), len(TARGET))
    assert saved.decode.source_prefix == (1,)
    assert saved.tokenizers is not None
    assert saved.tokenizers.target.encode("A zz I") == [4, 3, 12]


def test_a_source_without_a_start_token(tmp_path: Path, vocabularies: dict[str, str]) -> None:
    """Its embedding has no row for one, so a row is added that nothing reads."""
    words = [token for token in SOURCE if token != "<sos>"]
    state = dict(tutorial("pytorch-seq2seq")[0])
    name = "encoder.tok_embedding.weight"
    whole = open_tutorial(
        state, "pytorch-seq2seq", TutorialOptions(num_heads=2, source_without_bos=True, **vocabularies)
    )
    state[name] = torch.cat([state[name][:2], state[name][3:]])
    options = TutorialOptions(num_heads=2, **vocabularies | {"src_vocab": write(tmp_path / "bare.txt", words)})
    saved = open_tutorial(state, "pytorch-seq2seq", options)
    assert saved.decode.source_prefix == ()
    first, second = (translator_of(each).score(LINES, ["A B C"] * 4) for each in (whole, saved))
    assert first == pytest.approx(second, abs=1e-5)


def test_a_source_without_an_end_token(tmp_path: Path, vocabularies: dict[str, str]) -> None:
    """Its vocabulary may have none; the target's must."""
    words = [token for token in SOURCE if token != "<eos>"]
    state = dict(tutorial("pytorch-seq2seq")[0])
    name = "encoder.tok_embedding.weight"
    options = {"num_heads": 2, "source_without_eos": True}
    whole = open_tutorial(state, "pytorch-seq2seq", TutorialOptions(**options, **vocabularies))
    state[name] = torch.cat([state[name][:3], state[name][4:]])
    options |= vocabularies | {"src_vocab": write(tmp_path / "unended.txt", words)}
    saved = open_tutorial(state, "pytorch-seq2seq", TutorialOptions(**options))
    first, second = (translator_of(each).score(LINES, ["A B C"] * 4) for each in (whole, saved))
    assert first == pytest.approx(second, abs=1e-5)
    with pytest.raises(DataError, match="no special token for end"):
        open_tutorial(state, "pytorch-seq2seq", TutorialOptions(**options | {"source_without_eos": False}))
    targets = write(tmp_path / "targets.txt", [token for token in TARGET if token != "</S>"])
    with pytest.raises(DataError, match="no special token for end"):
        open_tutorial(state, "pytorch-seq2seq", TutorialOptions(**options | {"tgt_vocab": targets}))


def test_text_that_is_lower_cased_and_cut_into_words(vocabularies: dict[str, str]) -> None:
    options = TutorialOptions(num_heads=2, tokenizer="words", lowercase=True, **vocabularies)
    saved = open_tutorial(tutorial("pytorch-seq2seq")[0], "pytorch-seq2seq", options)
    assert saved.tokenizers is not None
    assert saved.tokenizers.source.encode("A, b.") == [4, 3, 5, 3]


def test_a_classifier(tmp_path: Path) -> None:
    words = ["the", "film", "[UNK]", "[CLS]", "good", "[PAD]", "bad", "[SEP]"]
    plain = Classifier(len(words), 3, *SIZES, length=30).eval()
    options = TutorialOptions(
        src_vocab=write(tmp_path / "v.txt", words), labels=write(tmp_path / "l.txt", ["no", "so", "yes"])
    )
    saved = open_tutorial(plain.state_dict(), "nlp-with-transformers", options)
    assert (saved.task, saved.labels) == ("classify", ("no", "so", "yes"))
    assert isinstance(saved.model, SequenceClassifier)
    assert saved.tokenizers is not None
    encode = saved.tokenizers.source.encode
    rows = [torch.tensor([1, *encode(text), 2]) for text in ("the good film", "bad")]
    theirs = torch.tensor([[3, 0, 4, 1, 7], [3, 6, 7, 5, 5]])
    with torch.no_grad():
        torch.testing.assert_close(
            saved.model(nn.utils.rnn.pad_sequence(rows, batch_first=True)), plain(theirs, 5), rtol=0, atol=1e-4
        )
    numbered = open_tutorial(plain.state_dict(), "nlp-with-transformers", TutorialOptions(src_vocab=options.src_vocab))
    assert numbered.labels == ("0", "1", "2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["<pad>", "a", "<unk>", "<s>"], r"no special token for end; the supported names: end: `<eos>`, `</s>`"),
        (["a", "b"], r"no special token for pad and end and unknown; .*pad: `<pad>`"),
        ([*SOURCE, "a"], r"has the token `a` twice, in lines 5 and 16"),
        ([*SOURCE, "<s>"], r"has 2 tokens that could be start: `<sos>`, `<s>`"),
        (SOURCE[:-1], r"has 14 tokens, but the source's embedding 15 rows"),
    ],
)
def test_a_vocabulary_that_does_not_fit(
    tmp_path: Path, vocabularies: dict[str, str], words: list[str], message: str
) -> None:
    options = TutorialOptions(num_heads=2, **vocabularies | {"src_vocab": write(tmp_path / "wrong.txt", words)})
    with pytest.raises((DataError, CheckpointError), match=message):
        open_tutorial(tutorial("pytorch-seq2seq")[0], "pytorch-seq2seq", options)


def test_a_target_needs_a_start_token(tmp_path: Path, vocabularies: dict[str, str]) -> None:
    words = [token for token in TARGET if token != "<s>"]
    options = TutorialOptions(num_heads=2, **vocabularies | {"tgt_vocab": write(tmp_path / "wrong.txt", words)})
    with pytest.raises(DataError, match="no special token for start"):
        open_tutorial(tutorial("pytorch-seq2seq")[0], "pytorch-seq2seq", options)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_heads": None}, "`num_heads=` is required"),
        ({"num_heads": 3}, r"`num_heads` \(3\) must divide the model's width \(16\)"),
        ({"src_vocab": ""}, "`src_vocab=` is required"),
        ({"tgt_vocab": ""}, "`tgt_vocab=` is required"),
        ({"tokenizer": "word"}, "unknown tokenizer `word` for a list of tokens; did you mean `words`"),
        ({"labels": "l.txt"}, "`labels=` is for a classifier"),
    ],
)
def test_options_that_do_not_fit(changed: dict[str, Any], message: str, vocabularies: dict[str, str]) -> None:
    options = TutorialOptions(**{"num_heads": 2, **vocabularies, **changed})
    with pytest.raises(ConfigError, match=message):
        open_tutorial(tutorial("pytorch-seq2seq")[0], "pytorch-seq2seq", options)


def test_labels_in_another_number(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocab, labels = write(tmp_path / "v.txt", words), write(tmp_path / "l.txt", ["no", "yes"])
    state = Classifier(4, 3, *SIZES, length=9).state_dict()
    with pytest.raises(DataError, match="names 2 classes, but the model has 3"):
        open_tutorial(state, "nlp-with-transformers", TutorialOptions(src_vocab=vocab, labels=labels))


def test_arrays_become_no_part_of_the_model(vocabularies: dict[str, str]) -> None:
    """NumPy's arrays are the caller's: the model has its own memory."""
    weights = {name: np.array(value) for name, value in tutorial("keras-transformer")[0].items()}
    saved = open_tutorial(weights, "keras-transformer", TutorialOptions(num_heads=2, max_positions=9, **vocabularies))
    before = {name: value.clone() for name, value in saved.model.named_parameters()}
    for value in weights.values():
        value.fill(0)
    assert all(torch.equal(value, before[name]) for name, value in saved.model.named_parameters())


def trained(steps: int, **slips: bool) -> dict[str, torch.Tensor]:
    """The state of post 003's model, trained with some of its slips."""
    count = len(training.VOCABULARY)
    torch.manual_seed(0)
    model = Seq2Seq(count, count, 1, 32, 64, 4, one_projection=True)
    for module in model.modules():
        for name, value in slips.items():
            setattr(module, name, value)
    return training.train(model, steps).state_dict()


def opened(folder: Path, state: Mapping[str, torch.Tensor], layout: str, **more: Any) -> tuple[SavedModel, str]:
    """What a state becomes by default, and why it makes no sense."""
    vocabulary = write(folder / "vocabulary.txt", training.VOCABULARY)
    options = TutorialOptions(num_heads=4, src_vocab=vocabulary, tgt_vocab=vocabulary, **more)
    saved = open_tutorial(state, layout, options)
    return saved, find_nonsense(saved, state, layout, options)


def right(saved: SavedModel) -> int:
    """How many of 40 sources are translated rightly."""
    words = torch.randint(0, training.WORDS, (40, 3), generator=torch.Generator().manual_seed(5))
    found = translator_of(saved).translate([training.line(row) for row in words], beam_size=1)
    expected = [training.line(training.translation(row)) for row in words]
    return sum(one.text == line for one, line in zip(found, expected, strict=True))


@pytest.mark.slow
def test_a_model_that_was_trained_with_one_slip(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The masks of post 003 were applied, and `fc_o` was not used: the weights say so."""
    state = trained(300, without_output=True)
    saved, nonsense = opened(tmp_path, state, "pytorch-seq2seq")
    assert (nonsense, right(saved) > 36) == ("", True)
    assert caplog.messages[0].startswith(
        "`fc_o` was never trained: all its values are within the initial range of `torch.nn"
    )
    saved, nonsense = opened(tmp_path, state, "pytorch-seq2seq", as_written="none")
    assert right(saved) < 4
    assert 'with `as_written="output"` they do' in nonsense


@pytest.mark.slow
def test_a_model_that_was_trained_without_the_slips(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved, nonsense = opened(tmp_path, trained(300), "pytorch-seq2seq")
    assert (nonsense, right(saved) > 36, caplog.messages) == ("", True, [])


@pytest.mark.slow
def test_a_model_that_was_trained_for_too_few_steps(tmp_path: Path) -> None:
    nonsense = opened(tmp_path, trained(20, without_output=True, without_masks=True), "pytorch-seq2seq")[1]
    assert "outputs hardly depend on the source" in nonsense
    assert "it has not learned to translate" in nonsense


@pytest.mark.slow
@pytest.mark.parametrize("as_written", [False, True])
def test_the_annotated_transformer_and_its_copies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, as_written: bool
) -> None:
    """The original is accused of nothing; a copy that attends to the memory with `self_attn` is read so."""
    count = len(training.VOCABULARY)
    torch.manual_seed(0)
    model = Annotated(count, count, 1, 32, 64, 4, length=60, as_written=as_written)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    saved, nonsense = opened(tmp_path, training.train(model, 300).state_dict(), "annotated-transformer")
    assert (nonsense, right(saved) > 36) == ("", True)
    assert [line.startswith("`src_attn` was never trained: ") for line in caplog.messages] == [True] * as_written
