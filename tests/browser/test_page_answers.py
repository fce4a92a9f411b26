"""A page's model answers as Python does: translations, continuations, classes, traces; its script is run by Node."""

import math
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid.analysis.ablation import Head, disable_heads
from pellucid.config import DecodeConfig, ModelConfig
from pellucid.conversion.pages import Page
from pellucid.errors import DataError
from pellucid.model.families import DecoderOnly, SequenceClassifier
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from pellucid.views.model_page import to_page
from tests.unit.decoding.models import random_decoder, random_model

pytestmark = pytest.mark.browser

CHARACTERS = Vocabulary("characters", tuple("abcdefghi .!?AB"))
TOKENIZERS = TokenizerPair(CHARACTERS, CHARACTERS)
NATS = 2e-5
"""What the log-probability of a token may differ by: roundings of single precision, of logits up to 20."""
SENTENCES = TrainingTextStats(source_length=9, source_longest=12, sentence_ends=1.0, several_sentences=0.0)


def lines(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [
        "".join(draw.choice("abcdefghi ") for _ in range(draw.randrange(1, 14))).strip() or "a" for _ in range(count)
    ]


def translator(seed: int = 3, text: TrainingTextStats | None = None, **decode: Any) -> pellucid.Translator:
    model = random_model(seed, CHARACTERS.size, sharpness=2.0, num_decoder_layers=2, num_encoder_layers=2)
    return pellucid.Translator(model, TOKENIZERS, DecodeConfig(**decode), text=text)


def page_of(model: Any, folder: Path) -> Page:
    return Page(to_page(model, folder / "page.html", "float32"), model.model.config)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> tuple[pellucid.Translator, Page]:
    """A translator, and the page that holds it."""
    model = translator()
    return model, page_of(model, tmp_path_factory.mktemp("page"))


def sums(*texts: pellucid.Translation) -> list[Any]:
    """Scores, as near as sums of so many tokens can be."""
    return [pytest.approx(one.score, abs=NATS * (len(one.tokens) + 1)) for one in texts]


def assert_same(expected: pellucid.Translation, found: dict[str, Any]) -> None:
    assert (found["text"], found["tokens"]) == (expected.text, expected.tokens)
    assert [found["score"]] == sums(expected)
    assert [one["text"] for one in found["alternatives"]] == [one.text for one in expected.alternatives]
    assert [one["score"] for one in found["alternatives"]] == sums(*expected.alternatives)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"beam_size": 1}, {"beamSize": 1}),
        ({"beam_size": 4}, {"beamSize": 4}),
        ({"beam_size": 5, "n_best": 5}, {"beamSize": 5, "nBest": 5}),
        ({"beam_size": 3, "n_best": 2, "length_penalty": 0.0}, {"beamSize": 3, "nBest": 2, "lengthPenalty": 0}),
        ({"beam_size": 4, "length_penalty": 2.5}, {"beamSize": 4, "lengthPenalty": 2.5}),
        ({"beam_size": 4, "length_penalty": -1.0}, {"beamSize": 4, "lengthPenalty": -1}),
        ({"beam_size": 4, "max_length": 3}, {"beamSize": 4, "maxLength": 3}),
        ({"beam_size": 1, "max_length": 1}, {"beamSize": 1, "maxLength": 1}),
    ],
    ids=str,
)
def test_translations(opened: tuple[pellucid.Translator, Page], options: Any, asked: Any) -> None:
    model, page = opened
    sources = lines(25)
    for source, expected in zip(sources, model.translate(sources, **options), strict=True):
        found = page.ask("translate", source, asked)
        assert_same(expected, found)
        # Each token's probability, the end token's last: together they are the score.
        assert [sum(map(math.log, found["probabilities"]))] == sums(expected)
        assert len(found["probabilities"]) == len(found["top"]) == len(found["labels"]) == len(expected.tokens) + 1


@pytest.mark.parametrize(
    "decode",
    [
        {"target_prefix": (5, 4), "beam_size": 3},
        {"suppress_tokens": (4, 6), "beam_size": 3},
        {"source_prefix": (7,), "source_suffix": (9, 8), "add_source_eos": False, "beam_size": 2},
        {"max_source_length": 4},
    ],
    ids=str,
)
def test_settings_of_the_folder(decode: dict[str, Any], tmp_path: Path) -> None:
    model = translator(5, **decode)
    page, sources = (
        page_of(model, tmp_path),
        [line for line in lines(12, seed=1) if len(line) < 5 or "max" not in str(decode)],
    )
    for source, expected in zip(sources, model.translate(sources), strict=True):
        assert_same(expected, page.ask("translate", source, {}))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_lines_of_several_sentences_and_lines_that_are_too_long(tmp_path: Path) -> None:
    """As Python without repairs, which the page does not make."""
    model = translator(4, SENTENCES, max_source_length=6, beam_size=2)
    page = page_of(model, tmp_path)
    for line in ("Abc. Bad! A bed", "abcdef ghi ab", "", "  ", "A. B.", "Abc.  Bad.", "abcdefghiabcdefghi"):
        (expected,) = model.translate([line], repair="off")
        found = page.ask("translate", line, {})
        assert_same(expected, found)
        assert len(found["parts"]) >= len(expected.sentences)


def test_a_chosen_beginning_is_gone_on_from(opened: tuple[pellucid.Translator, Page]) -> None:
    model, page = opened
    for source in lines(8, seed=2):
        free = page.ask("translate", source, {"beamSize": 3})
        for place, likely in list(enumerate(free["top"]))[:4]:
            other = next((i for i in likely["ids"] if i not in (free["ids"][place : place + 1] or [2])), None)
            if other is None or other == 2:
                continue
            prefix = [*free["ids"][:place], other]
            found = page.ask("translate", source, {"beamSize": 3, "prefix": prefix})
            assert found["ids"][: len(prefix)] == prefix
            total = model.score([source], [CHARACTERS.decode(found["ids"])])[0]
            if CHARACTERS.encode(CHARACTERS.decode(found["ids"])) == found["ids"]:
                assert found["score"] == pytest.approx(total, abs=50 * NATS)
        whole = page.ask("translate", source, {"beamSize": 3, "prefix": free["ids"]})
        assert whole["ids"][: len(free["ids"])] == free["ids"]


def test_scores_of_what_is_given(opened: tuple[pellucid.Translator, Page]) -> None:
    model, page = opened
    sources, targets = lines(10), lines(10, seed=9)
    for source, target, expected in zip(sources, targets, model.score(sources, targets), strict=True):
        found = page.ask("score", source, CHARACTERS.encode(target), {})
        assert sum(found["logProbs"]) == pytest.approx(expected, abs=50 * NATS)


def test_heads_that_are_off(opened: tuple[pellucid.Translator, Page]) -> None:
    model, page = opened
    sources, changed = lines(12), 0
    for head in (Head("encoder.self", 1, 0), Head("decoder.self", 0, 1), Head("cross", 1, 1)):
        off = [f"{head.attention}.{head.layer}.{head.head}"]
        with disable_heads(model.model, head):
            expected = model.translate(sources, beam_size=2)
        for source, one in zip(sources, expected, strict=True):
            found = page.ask("translate", source, {"beamSize": 2, "off": off})
            assert_same(one, found)
            changed += found["text"] != page.ask("translate", source, {"beamSize": 2})["text"]
    assert changed > 5


def test_hidden_words_and_what_their_loss_costs(opened: tuple[pellucid.Translator, Page]) -> None:
    model, page = opened
    source, target = "abc def", "fed"
    src = torch.tensor([[*CHARACTERS.encode(source), 2]])
    tgt = torch.tensor([[1, *CHARACTERS.encode(target)]])
    written = [*CHARACTERS.encode(target), 2]
    mask = torch.ones(1, 1, 1, src.size(1), dtype=torch.bool)
    mask[..., [0, 1, 2]] = False
    with torch.no_grad():
        log_probs = model.model(src, tgt, src_mask=mask)[0].log_softmax(-1)
    expected = [float(row[token]) for row, token in zip(log_probs, written, strict=True)]
    found = page.ask("score", source, CHARACTERS.encode(target), {"hidden": [0, 1, 2]})
    assert found["logProbs"] == pytest.approx(expected, abs=50 * NATS)


def test_drawn_translations_are_of_the_models_distribution(opened: tuple[pellucid.Translator, Page]) -> None:
    _, page = opened
    greedy = page.ask("translate", "abc", {"beamSize": 1})
    drawn = [page.ask("translate", "abc", {"seed": seed, "maxLength": 1}) for seed in range(400)]
    first = greedy["top"][0]
    for token, probability in zip(first["tokens"][:2], first["probabilities"][:2], strict=True):
        seen = sum((one["tokens"] or ["</s>"])[0] == token for one in drawn) / len(drawn)
        # Four standard deviations of a share of 400 draws, which are the same each time.
        assert seen == pytest.approx(probability, abs=4 * math.sqrt(probability * (1 - probability) / 400) + 0.003)
    again = page.ask("translate", "abc", {"seed": 5})
    assert again == page.ask("translate", "abc", {"seed": 5})
    assert page.ask("translate", "abc", {"temperature": 0})["text"] == page.ask("translate", "abc", {})["text"]
    assert page.ask("translate", "abc", {"topK": 1})["text"] == greedy["text"]
    assert page.ask("translate", "abc", {"topP": 1e-9, "seed": 3})["text"] == greedy["text"]


@pytest.mark.filterwarnings("ignore:the longest text")
@pytest.mark.parametrize("beam", [1, 3])
def test_continuations(beam: int, tmp_path: Path) -> None:
    model = pellucid.LanguageModel(random_decoder(1, CHARACTERS.size, sharpness=2.0, max_positions=9), TOKENIZERS)
    page = page_of(model, tmp_path)
    prompts = ["ab", "c", "", *lines(6)]
    for prompt, expected in zip(
        prompts, model.generate(prompts, max_new_tokens=20, beam_size=beam, n_best=beam), strict=True
    ):
        found = page.ask("generate", prompt, {"maxNewTokens": 20, "beamSize": beam, "nBest": beam})
        assert (found["text"], found["tokens"], found["ended"]) == (expected.text, expected.tokens, expected.ended)
        assert [one["text"] for one in found["alternatives"]] == [one.text for one in expected.alternatives]
        assert found["score"] == pytest.approx(expected.score, abs=50 * NATS)


@pytest.mark.parametrize("segments", [0, 2])
def test_classes(segments: int, tmp_path: Path) -> None:
    torch.manual_seed(2)
    shape = {"d_model": 16, "d_ff": 16, "num_heads": 2, "norm": "pre", "max_positions": 16, "num_segments": segments}
    config = ModelConfig.encoder(vocab_size=CHARACTERS.size, num_layers=2, num_classes=3, **shape)
    model = pellucid.Classifier(SequenceClassifier(config), TOKENIZERS, ("bad", "good", "so so"))
    page = page_of(model, tmp_path)
    for text in ("abc", "", "a", "abcdefgh abc"):
        (expected,) = model.classify([text])
        found = page.ask("classify", text, {})
        assert found["label"] == expected.label
        assert {one["label"]: one["probability"] for one in found["probabilities"]} == pytest.approx(
            expected.probabilities, abs=1e-5
        )
    if segments:
        with pytest.warns(UserWarning, match="truncated"):
            (expected,) = model.classify([("abcdefghi", "abc abc abc")])
        found = page.ask("classify", "abcdefghi", {"second": "abc abc abc"})
        assert found["probability"] == pytest.approx(expected.probability, abs=1e-5)
    else:
        with pytest.raises(DataError, match="the model tells no segments apart"):
            page.ask("classify", "a", {"second": "b"})


def test_a_trace_is_pythons(opened: tuple[pellucid.Translator, Page]) -> None:
    model, page = opened
    expected = model.trace("abc def", beam_size=3)
    found = page.ask("trace", "abc def", None, {"search": True, "beamSize": 3})["trace"]
    for name, tokens in expected.sequences.items():
        assert [one["piece"] for one in found["sequences"][name]] == [token.piece for token in tokens], name
    described = {one["name"]: one for one in found["attentions"]}
    assert set(described) == set(expected.attentions)
    assert expected.search is not None
    nodes = [(n.parent, n.token.id, n.status, n.row) for n in expected.search.nodes]
    assert [(n["parent"], n["token"]["id"], n["status"], n["row"]) for n in found["search"]["nodes"]] == nodes
    assert [n["score"] for n in found["search"]["nodes"]] == pytest.approx(
        [n.score for n in expected.search.nodes], abs=50 * NATS
    )
    for row, guessed in enumerate(found["predictions"]["rows"]):
        assert guessed["chosen"]["id"] == expected.sequences["out"][row].id
        assert all(a["probability"] >= b["probability"] for a, b in pairwise(guessed["top"]))


def test_statistics_of_heads_are_pythons(opened: tuple[pellucid.Translator, Page]) -> None:
    from pellucid.analysis.statistics import compute_trace_statistics

    model, page = opened
    expected = compute_trace_statistics(model.trace("abc def", "fed"))
    found = page.ask("trace", "abc def", CHARACTERS.encode("fed"), {})["trace"]
    for described in found["attentions"]:
        for name, values in expected[described["name"]].items():
            ours = torch.tensor(described["statistics"][name])
            assert torch.allclose(ours, torch.from_numpy(values), atol=1e-5), (described["name"], name)


@pytest.mark.parametrize(
    ("method", "args", "told"),
    [
        ("translate", ["a", {"beamSize": 0}], "`beamSize` (0) must be a whole number from 1 to 64"),
        ("translate", ["a", {"beamSize": 2, "nBest": 3}], "`nBest` (3) cannot exceed `beamSize` (2)"),
        ("translate", ["a", {"maxLength": 0}], "`maxLength` (0) must be at least 1"),
        ("translate", ["a", {"lengthPenalty": "x"}], "`lengthPenalty` (x) must be a number"),
        ("translate", ["a", {"temperature": -1}], "`temperature` (-1) must be above 0"),
        ("translate", ["a", {"topP": 0}], "`topP` (0) must be above 0 and at most 1"),
        ("translate", ["a", {"topK": -1}], "`topK` (-1) must be at least 0"),
        ("translate", ["a", {"beam_size": 3}], "There is no option `beam_size`; there are beamSize"),
        ("translate", ["a", {"off": ["x"]}], "The model has no head `x`; the first is `encoder.self.0.0`"),
        ("translate", ["a", {"off": ["cross.9.9"]}], "The model has no head `cross.9.9`"),
        ("translate", ["a", {"off": "cross.0.0"}], "`off` must be a list, not cross.0.0"),
        ("translate", ["a", {"layersOff": ["encoder.2"]}], "The model has no layer `encoder.2`; there are"),
        ("translate", ["a", {"hidden": [-1]}], "Places that are hidden are counted from 0, but one is -1"),
        ("translate", ["a", {"prefix": "A"}], "`prefix` must be a list, not A"),
        ("translate", ["a", {"prefix": [2]}], "A text cannot begin with the id 2: it is not written"),
        ("translate", [5, {}], "A text is needed, not 5"),
        ("encode", [None], "A text is needed, not null"),
        ("classify", ["a"], "The model of this page does not classify: its task is `translate`"),
        ("generate", ["a"], "The model of this page does not generate"),
        ("nothing", [], "The page's model has no `nothing`"),
        ("constructor", [], "The page's model has no `constructor`"),
        ("trace", ["", None, {}], "The text is empty"),
    ],
)
def test_what_cannot_be_is_refused(
    opened: tuple[pellucid.Translator, Page], method: str, args: list[Any], told: str
) -> None:
    _, page = opened
    with pytest.raises(DataError) as caught:
        page.ask(method, *args)
    assert told in str(caught.value)
    assert page.ask("translate", "a", {"beamSize": 1})["text"] is not None  # it goes on answering


def test_a_decoder_alone_is_traced(tmp_path: Path) -> None:
    torch.manual_seed(4)
    config = ModelConfig.decoder(
        vocab_size=CHARACTERS.size, num_layers=2, d_model=16, d_ff=16, num_heads=4, num_kv_heads=2, positions="relative"
    )
    model = pellucid.LanguageModel(DecoderOnly(config), TOKENIZERS)
    expected = model.trace("abc ab")
    found = page_of(model, tmp_path).ask("trace", "abc ab", None, {})["trace"]
    assert [t["piece"] for t in found["sequences"]["tgt"]] == [t.piece for t in expected.sequences["tgt"]]
    assert [t["piece"] for t in found["sequences"]["out"]] == [t.piece for t in expected.sequences["out"]]
    assert [one["name"] for one in found["attentions"]] == ["decoder.self"]
