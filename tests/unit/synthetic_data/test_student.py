"""The student's run: whose vocabulary it takes, and what of it a budget leaves alone."""

from pathlib import Path

import pytest

from pellucid.config import DataConfig, Recipe
from pellucid.synthetic_data.distillation import DistilledCorpus, DistillRequest, distill_corpus
from pellucid.synthetic_data.selection import TranslationFilter
from pellucid.synthetic_data.student import set_tokenizer_sizes, student_run
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.text.tokenizers import TokenizerPair
from tests.toy_task import reversed_letters, write_pairs

SMALL = (
    "train.steps=2",
    "train.save_every=1",
    "train.average=1",
    "train.decode_and_evaluate=2",
    "train.batch_tokens=128",
)


@pytest.fixture(scope="module")
def corpus(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> DistilledCorpus:
    folder = tmp_path_factory.mktemp("corpus")
    src, tgt = write_pairs(folder, reversed_letters(60))
    request = DistillRequest(
        teachers=(str(finished_run),),
        data=DataConfig(src=src, tgt=tgt),
        teaching=SearchOptions(),
        selection=TranslationFilter(),
    )
    return distill_corpus(folder / "c", request, device="cpu", log_line=str)


def recipe(*overrides: str) -> Recipe:
    return Recipe.load("student-tiny", [*SMALL, *overrides])


@pytest.mark.slow
def test_the_vocabulary_is_the_teachers(corpus: DistilledCorpus, tmp_path: Path) -> None:
    run = student_run(recipe(), tmp_path / "s", corpus, overrides=SMALL, device="cpu", quiet=True)
    assert corpus.tokenizers is not None
    assert run.tokenizers.source.encode("a b c") == corpus.tokenizers.source.encode("a b c")
    assert run.model.config.tgt_vocab_size == corpus.tokenizers.target.size == run.recipe.data.vocab_size
    assert (run.model.config.num_encoder_layers, run.model.config.num_decoder_layers) == (6, 1)
    run.train()
    again = student_run(recipe(), tmp_path / "s", corpus, overrides=SMALL, device="cpu", quiet=True)
    assert again.train().already_finished


@pytest.mark.parametrize("own", ["data.vocab_size=300", "data.tokenizer=characters"])
def test_a_vocabulary_of_its_own(corpus: DistilledCorpus, tmp_path: Path, own: str) -> None:
    run = student_run(recipe(own), tmp_path / "s", corpus, overrides=[*SMALL, own], device="cpu", quiet=True)
    assert corpus.tokenizers is not None
    assert run.tokenizers.source.kind != corpus.tokenizers.source.kind


def test_what_was_cut_off_the_originals_is_validated_on(corpus: DistilledCorpus, tmp_path: Path) -> None:
    run = student_run(recipe(), tmp_path / "s", corpus, overrides=SMALL, device="cpu", quiet=True)
    assert corpus.valid is not None
    assert (run.recipe.data.valid_src, run.recipe.data.valid_tgt) == tuple(map(str, corpus.valid))


def test_tags_are_in_the_corpus_and_not_put_there_again(corpus: DistilledCorpus, tmp_path: Path) -> None:
    tags = 'data.corpus_tags=["<web>", "<news>"]'
    run = student_run(recipe(tags), tmp_path / "s", corpus, overrides=[*SMALL, tags], device="cpu", quiet=True)
    assert (run.recipe.data.corpus_tags, run.recipe.data.symbols) == ((), ("<web>", "<news>"))


def test_vocabularies_apart_leave_no_embedding_to_tie() -> None:
    sides = [train_tokenizer("characters", [text], vocab_size=300) for text in ("abc", "xyzuvw")]
    found = set_tokenizer_sizes(recipe(), TokenizerPair(*sides), joint=False)
    assert (found.model.tie_embeddings, found.data.joint_vocab) == ("decoder", False)
    assert set_tokenizer_sizes(recipe(), TokenizerPair(sides[0]), joint=True).model.tie_embeddings == "all"


@pytest.mark.slow
def test_two_tokenizers_with_the_same_ids_are_one_vocabulary(
    corpus: DistilledCorpus, finished_run: Path, tmp_path: Path
) -> None:
    """Models of others have one for each side: the student shares its embeddings as the teacher does."""
    one, two = (Translator.load(finished_run, "cpu") for _ in range(2))
    assert one.model.config.tie_embeddings == "all"
    sides = TokenizerPair(one.tokenizers.source, two.tokenizers.source)
    Translator(one.model, sides, one.decode).save(tmp_path / "teacher")
    src, tgt = corpus.src.with_name("source.src"), corpus.src.with_name("original.tgt")
    request = DistillRequest(
        teachers=(str(tmp_path / "teacher"),), data=DataConfig(src=str(src), tgt=str(tgt)), teaching=SearchOptions(),
        selection=TranslationFilter(),
    )  # fmt: skip
    found = distill_corpus(tmp_path / "c", request, device="cpu", log_line=str)
    assert found.tokenizers is not None
    assert (found.tokenizers.joint, found.joint) == (False, True)
    run = student_run(recipe(), tmp_path / "s", found, overrides=SMALL, device="cpu", quiet=True)
    assert run.recipe.model.tie_embeddings == "all"
    run.train()
    assert Translator.load(tmp_path / "s", "cpu").model.config.tie_embeddings == "all"


def test_a_teacher_of_many_languages_keeps_its_vocabulary(
    corpus: DistilledCorpus, finished_run: Path, tmp_path: Path
) -> None:
    """Of it a student would need few words; and the codes of its languages stand in no text that the student reads."""
    one = Translator.load(finished_run, "cpu")
    many = Translator(one.model, one.tokenizers, one.decode, languages={"aa": 5, "bb": 6})
    many.save(tmp_path / "teacher")
    request = DistillRequest(
        teachers=(str(tmp_path / "teacher"),), data=DataConfig(src=str(corpus.src.with_name("source.src"))),
        teaching=SearchOptions(source_language="aa", target_language="bb"),
        selection=TranslationFilter(length_ratio=100.0),
    )  # fmt: skip
    found = distill_corpus(tmp_path / "c", request, device="cpu", log_line=str)
    assert found.tokenizers is None
    sources = (tmp_path / "c" / "source.src").read_text().splitlines()
    spoken = many.translate(sources, source_language="aa", target_language="bb")
    assert set((tmp_path / "c" / "train.tgt").read_text().splitlines()) <= {each.text for each in spoken}
    small = recipe("data.vocab_size=300")
    run = student_run(small, tmp_path / "s", found, overrides=SMALL, device="cpu", quiet=True)
    assert run.tokenizers.source.kind == "bpe"


@pytest.mark.slow
def test_a_budget_plans_neither_shape_nor_dropout(corpus: DistilledCorpus, tmp_path: Path) -> None:
    """They are the student's; the steps, the batches and the rate are the plan's."""
    asked = Recipe.load("student-tiny", ["model.num_encoder_layers=5"])
    own = ["model.num_encoder_layers=5"]
    run = student_run(asked, tmp_path / "s", corpus, overrides=own, budget="1m", device="cpu", quiet=True)
    assert run.plan is not None
    model, planned = run.recipe.model, run.recipe.train
    assert (model.d_model, model.d_ff, model.num_encoder_layers, model.num_decoder_layers) == (64, 256, 5, 1)
    assert (model.dropout, planned.label_smoothing) == (0.05, 0.0)
    assert (planned.schedule, planned.budget) == ("wsd", 60.0)
    assert planned.steps != asked.train.steps
    assert str(run.plan.request) == "`budget=1m` `overrides=model.num_encoder_layers=5`", "what was asked for alone"
