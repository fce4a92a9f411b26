"""Prompts in, texts out: what is read, what is written, and what a text scores."""

import warnings
from typing import Any

import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import CheckpointError, ConfigError, DataError, DecodingError
from pellucid.model.families import DecoderOnly
from pellucid.tasks.language_model import LanguageModel
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.weights.folder import save_description, save_weights
from tests.rounding import NETWORK
from tests.tiny_model import tiny_model

CHARACTERS = Vocabulary("characters", tuple("\n abcdefghijklm"))
TOKENIZERS = TokenizerPair(CHARACTERS, CHARACTERS)


def language_model(source_prefix: tuple[int, ...] = (), **fields: Any) -> LanguageModel:
    torch.manual_seed(1)
    shape = {"d_model": 16, "d_ff": 16, "num_heads": 2, "norm": "pre", "dropout": 0.5, "max_positions": 40}
    config = ModelConfig.decoder(vocab_size=CHARACTERS.size, num_layers=1, **shape | fields)
    model = DecoderOnly(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2
    return LanguageModel(model, TOKENIZERS, DecodeConfig(source_prefix=source_prefix))


def total(model: LanguageModel, ids: list[int], given: int = 1) -> float:
    """The log-probability of ids behind the first `given` ones."""
    with torch.no_grad():
        log_probs = model.model(torch.tensor([ids]))[0].log_softmax(-1)
    return sum(float(log_probs[i - 1, ids[i]]) for i in range(given, len(ids)))


@pytest.mark.parametrize("prefix", [(), (1,)])
def test_a_text_goes_on(prefix: tuple[int, ...]) -> None:
    model = language_model(prefix)
    (found,) = model.generate(["abc"], max_new_tokens=8)
    assert found.prompt == "abc"
    assert found.ended == (len(found.tokens) < 8)
    new = CHARACTERS.encode(found.text)
    ids = [*prefix, *CHARACTERS.encode("abc"), *new, *([2] if found.ended else [])]
    assert found.score == pytest.approx(total(model, ids, len(prefix) + 3), abs=NETWORK)
    assert CHARACTERS.tokens(new) == found.tokens


def test_an_empty_prompt_begins_with_the_start_token() -> None:
    with_prefix, without = language_model((1,)), language_model()
    first, second = (model.generate([""], max_new_tokens=5)[0] for model in (with_prefix, without))
    assert first.text == second.text
    assert first.score == pytest.approx(second.score)


def test_greedy_unless_draws_are_asked_for() -> None:
    model, prompts = language_model(), ["abc", "def"]
    greedy = [g.text for g in model.generate(prompts, max_new_tokens=20)]
    assert [g.text for g in model.generate(prompts, max_new_tokens=20, temperature=0, seed=7)] == greedy
    assert [g.text for g in model.generate(prompts, max_new_tokens=20, top_k=1)] == greedy
    options: list[dict[str, Any]] = [{"temperature": 1.0}, {"top_k": 10}, {"top_p": 0.99}, {"seed": 1}]
    drawn = [[g.text for g in model.generate(prompts, max_new_tokens=20, **option)] for option in options]
    assert greedy not in drawn
    assert drawn[0] == drawn[3], "a seed alone draws at temperature 1, and is 1 where none is given"
    assert [g.text for g in model.generate(prompts, max_new_tokens=20, seed=2)] != drawn[3]
    assert [g.text for g in model.process_lines(prompts[1:], 1, max_new_tokens=20, seed=1)] == drawn[3][1:]
    assert [g.text for g in model.stream(iter(prompts), max_new_tokens=20, seed=1)] == drawn[3]


def test_a_text_beyond_the_positions_is_said_once() -> None:
    model = language_model()
    message = r"^the longest text has 103 tokens, prompt included, and the model has 40 positions: "
    with pytest.warns(UserWarning, match=message) as caught:
        found = model.generate(["abc", "a" * 3, "ab"], max_new_tokens=100)
    assert len(caught) == 1
    assert max(len(g.tokens) for g in found) == 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.generate(["abc"], max_new_tokens=38)  # the last token is not read any more


def test_what_cannot_be_asked_for() -> None:
    model = language_model()
    with pytest.raises(ConfigError, match=r"^`max_new_tokens` \(0\) must be at least 1 and at most 1,048,576$"):
        model.generate(["a"], max_new_tokens=0)
    with pytest.raises(DecodingError, match=r"^`top_p` \(2\.0\)"):
        model.generate(["a"], top_p=2.0, max_new_tokens=5)
    with pytest.raises(DataError, match="not one text of 3 characters"):
        model.generate("abc")


def test_scores() -> None:
    running, lines = language_model(), language_model((1,))
    texts = ["abc", "", "a\nb"]
    ids = [CHARACTERS.encode(text) for text in texts]
    assert running.score(texts) == pytest.approx([total(running, [1, *text]) for text in ids], abs=NETWORK)
    assert lines.score(texts) == pytest.approx([total(lines, [1, *text, 2]) for text in ids], abs=NETWORK)
    assert running.token_scores(texts, as_lines=True) == lines.token_scores(texts)
    assert [len(values) for values in lines.token_scores(texts, as_lines=False)] == [3, 0, 3]


def test_a_prefix_of_several_ids_is_not_scored() -> None:
    model = language_model((1, 5, 6))
    assert model.score(["abc"]) == pytest.approx(
        [total(model, [1, 5, 6, *CHARACTERS.encode("abc"), 2], 3)], abs=NETWORK
    )


def test_a_folder_opens_as_what_it_is(tmp_path: Any) -> None:
    model = language_model((1,))
    save_description(tmp_path / "lm", model.model.config, TOKENIZERS, model.decode, "# a card\n")
    save_weights(tmp_path / "lm", model.model)
    opened = LanguageModel.load(tmp_path / "lm", "cpu")
    assert opened.reads_lines
    assert opened.generate(["abc"], max_new_tokens=9) == model.generate(["abc"], max_new_tokens=9)
    other = tiny_model(src_vocab_size=CHARACTERS.size, tgt_vocab_size=CHARACTERS.size)
    save_description(tmp_path / "mt", other.config, TOKENIZERS, DecodeConfig(), "# a card\n")
    save_weights(tmp_path / "mt", other)
    with pytest.raises(CheckpointError, match=r"mt` holds a translator, not a language model$") as error:
        LanguageModel.load(tmp_path / "mt", "cpu")
    assert "`pellucid translate`" in error.value.hint
