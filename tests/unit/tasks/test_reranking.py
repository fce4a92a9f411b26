"""The n best are ranked by what further models say, each line alone or beside others."""

import json
from pathlib import Path

import pytest

from pellucid.config import DecodeConfig
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.evaluation.reranking import RerankingWeights
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.reranking import Reranker, load_reranker, save_reranking
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from tests.unit.decoding.models import random_decoder, random_model

LETTERS = Vocabulary("characters", tuple(" abcdefgh."), byte_fallback=False)
OTHERS = Vocabulary("characters", tuple("hgfedcba. x"), byte_fallback=False)
LINES = ["bad cab", "", "faded", "head. bed. egg.", "abc", "cab"]


def model(seed: int, letters: Vocabulary = LETTERS) -> Translator:
    return Translator(
        random_model(seed, letters.size, sharpness=2.0),
        TokenizerPair(letters, letters),
        DecodeConfig(beam_size=4, max_length=9),
        text=TrainingTextStats(source_length=9, source_longest=9, sentence_ends=0.9, several_sentences=0.0),
    )


@pytest.fixture(scope="module")
def translator() -> Translator:
    return model(1)


@pytest.fixture(scope="module")
def reranker() -> Reranker:
    lm = LanguageModel(random_decoder(3, LETTERS.size, max_positions=32), LETTERS)
    return Reranker(model(2, OTHERS), lm, RerankingWeights(reverse=0.7, lm=0.4, length=0.3), n_best=6)


def test_the_order_is_that_of_the_sum(translator: Translator, reranker: Reranker) -> None:
    found = translator.translate(LINES, rerank=reranker, n_best=3)
    pool = translator.translate(LINES, n_best=6, beam_size=6)
    assert reranker.reverse is not None
    assert reranker.lm is not None
    for line in (0, 2, 4, 5):
        scored = []
        for one in pool[line].alternatives:
            read = reranker.reverse.score_sequences([one.text], [LINES[line]])[0]
            fluent = reranker.lm.token_scores([one.text])[0]
            count = len(one.tokens) + 1
            total = one.score / count + 0.7 * read.score / read.tokens + 0.4 * sum(fluent) / max(1, len(fluent))
            scored.append((total + 0.3 * count / (len(LINES[line]) + 1), one))
        scored.sort(key=lambda pair: -pair[0])
        assert [t.tokens for t in found[line].alternatives] == [one.tokens for _, one in scored[:3]]
        assert found[line].score == pytest.approx(scored[0][1].score, abs=1e-4)
    assert [found[i].text for i in range(6)] != [pool[i].text for i in range(6)]


@pytest.mark.slow
def test_neighbours_change_nothing(translator: Translator, reranker: Reranker) -> None:
    together = translator.translate(LINES, rerank=reranker, n_best=2)
    assert len(together[3].sentences) == 3
    for line, wanted in zip(LINES, together, strict=True):
        (alone,) = translator.translate([line], rerank=reranker, n_best=2)
        assert [t.text for t in alone.alternatives] == [t.text for t in wanted.alternatives]


@pytest.mark.slow
def test_a_file_opens_as_the_reranker(translator: Translator, tmp_path: Path) -> None:
    model(2).save(tmp_path / "reverse")
    made = Reranker(model(2), n_best=5)
    lines = ["bad cab", "faded", "abc", "cab"]
    fit = made.fit(translator, [*lines, "\u200b"], ["dad", "cab", "a bad", "fade", "bed"])
    assert made.factors == fit.factors
    path = tmp_path / "rerank.json"
    save_reranking(path, made, str(tmp_path / "reverse"), None, fit)
    assert json.loads(path.read_text(encoding="utf-8"))["reverse"]["model"] == "reverse"
    (tmp_path / "here").mkdir()
    for name in ("reverse", "rerank.json"):
        (tmp_path / name).rename(tmp_path / "here" / name)  # both may move together
    path = tmp_path / "here" / "rerank.json"
    opened = load_reranker(path)
    assert (opened.factors, opened.n_best, opened.lm) == (made.factors, 5, None)
    wanted = [t.text for t in translator.translate(lines, rerank=made)]
    assert [t.text for t in translator.translate(lines, rerank=path)] == wanted
    table = json.loads(path.read_text(encoding="utf-8"))
    table["factors"] = {name: str(value) for name, value in table["factors"].items()}  # by somebody's hand
    path.write_text(json.dumps(table), encoding="utf-8")
    assert [t.text for t in translator.translate(lines, rerank=path)] == wanted
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "er")
    save_reranking(tmp_path / "link" / "rerank.json", made, str(tmp_path / "here" / "reverse"), None, fit)
    assert load_reranker(tmp_path / "link" / "rerank.json").factors == made.factors
    half = Reranker(Translator.load(tmp_path / "here" / "reverse", "cpu", "bfloat16"), n_best=5)
    save_reranking(tmp_path / "half.json", half, str(tmp_path / "here" / "reverse"), None, fit)
    assert load_reranker(tmp_path / "half.json", "cpu").n_best == 5
    model(4).save(tmp_path / "here" / "reverse")
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    with pytest.raises(CheckpointError, match="has different weights from the model that"):
        load_reranker(path)
    for text in (
        "[]",
        "{}",
        '{"rerank": 1, "factors": {"reverse": NaN}, "n_best": 2}',
        '{"rerank": 1, "factors": {"x": 1}}',
        '{"rerank": 1, "factors": {}, "reverse": {"model": "m", "weights": "w"}, "n_best": Infinity}',
        '{"rerank": 1, "factors": {}, "reverse": {"model": "m", "weights": "w"}, "n_best": [2]}',
        '{"rerank": 1, "factors": {}, "reverse": {"model": "m", "weights": "w"}, "n_best": 1000000}',
        "[" * 20_000,
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(CheckpointError, match="is not a file of reranking factors"):
            load_reranker(path)
    path.write_text('{"rerank": 9}', encoding="utf-8")
    with pytest.raises(CheckpointError, match="is of version 9, and this is 1"):
        load_reranker(path)


def test_what_cannot_be(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="neither `reverse=` nor `lm=` is given"):
        Reranker()
    with pytest.raises(ConfigError, match="`lm=` is a Translator, and must be a LanguageModel"):
        Reranker(lm=translator)  # type: ignore[arg-type]
    for n_best in (1, True, 2.5, 5000):
        with pytest.raises(ConfigError, match=r"`n_best=.*` must be from 2 to 1,000"):
            Reranker(translator, n_best=n_best)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="`rerank=` is a int"):
        translator.translate(["a"], rerank=3)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="2 sources and 1 references"):
        Reranker(translator).fit(translator, ["a", "b"], ["a"])


def test_more_are_asked_for_than_the_beam_has(translator: Translator, reranker: Reranker) -> None:
    few = DecodeConfig(beam_size=2)
    (found,) = translator.translate(LINES[:1], rerank=reranker, n_best=5, decode=few)
    assert 2 < len(found.alternatives) <= 5
    with pytest.raises(ConfigError, match=r"`n_best` \(0\)"):
        translator.translate(LINES[:1], rerank=reranker, n_best=0)
    with pytest.raises(ConfigError, match=r"^`beam_size=5` is smaller than the 6 best that are reranked$"):
        translator.translate(LINES[:1], rerank=reranker, beam_size=5)
    assert translator.translate(LINES[:1], rerank=reranker, beam_size=6)[0].text == found.text


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"^no file `{tmp_path}/none.json`$"):
        load_reranker(tmp_path / "none.json", "cpu")
