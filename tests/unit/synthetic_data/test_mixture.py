"""The training that pairs are made for: whose text it is, which way, and how often real pairs are seen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DataConfig, Recipe
from pellucid.errors import ConfigError, DataError
from pellucid.synthetic_data.augmentation import AugmentRequest, SyntheticCorpus
from pellucid.synthetic_data.dictionary import Dictionary
from pellucid.synthetic_data.mixture import RealData, Suggestion, load_real_data, reverse_direction, write_recipe
from pellucid.synthetic_data.noise import Noise
from tests.toy_task import reversed_letters, write_pairs


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PELLUCID_DATA", raising=False)
    write_pairs(tmp_path, reversed_letters(40))
    write_pairs(tmp_path, reversed_letters(5, seed=2), "valid")


def parallel(**data: Any) -> RealData:
    texts = {"src": "train.src", "tgt": "train.tgt", "valid_src": "valid.src", "valid_tgt": "valid.tgt"}
    return RealData(Recipe(data=DataConfig(**texts | data)))


def suggested(real: RealData, pairs: int, copies: int = 0, **request: Any) -> Suggestion:
    Path("c").mkdir(exist_ok=True)
    counts = {"pairs": pairs, "copies": copies}
    return write_recipe(
        SyntheticCorpus(Path("c"), counts), AugmentRequest(models=("run",), input="mono", **request), real
    )


@pytest.mark.parametrize(("pairs", "times"), [(10, 1.0), (40, 1.0), (100, 2.5), (10**6, 10.0)])
def test_both_weigh_alike(pairs: int, times: float) -> None:
    found = suggested(parallel(), pairs).recipe
    assert found is not None
    assert (found.data.corpus_weights, found.data.symbols) == ((times, 1.0), ("<bt>",))
    assert (found.data.src, found.data.tgt) == (("train.src", "c/train.src"), ("train.tgt", "c/train.tgt"))
    assert Recipe.load("c/recipe.toml") == found


def test_copies_are_a_corpus_of_their_own_and_blanks_a_symbol() -> None:
    found = suggested(parallel(on_copy="skip"), 60, 20, noise=Noise(blank_words=0.1)).recipe
    assert found is not None
    assert found.data.src == ("train.src", "c/train.src", "c/copied.txt")
    assert found.data.tgt == ("train.tgt", "c/train.tgt", "c/copied.txt")
    assert (found.data.corpus_weights, found.data.symbols) == ((2.0, 1.0, 1.0), ("<bt>", "<blank>"))
    assert found.data.on_copy == "keep"


def test_entries_of_a_dictionary_are_pairs_where_real_text_hardly_has_the_word() -> None:
    Path("train.src").write_text("ein Hund\nein Hund und ein Laufrad\nHunde laufen Gassi\n", encoding="utf-8")
    Path("train.tgt").write_text("a dog\na dog and a balance bike\ndogs go\n", encoding="utf-8")
    entries = [("ein", "a"), ("Hund", "dog"), ("Laufrad", "balance bike"), ("Gassi laufen", "walk the dog")]
    entries += [("gassi", "walkies"), ("Taxi", "Taxi"), ("Taxi", "Taxi"), ("laufrad", "bike")]
    augmented = SyntheticCorpus(Path("c"), {"pairs": 3, "copies": 0})
    Path("c").mkdir()
    request = AugmentRequest(models=("run",), input="mono")
    found = write_recipe(augmented, request, parallel(on_copy="skip"), Dictionary(entries, rare_below=2))
    assert Path("c/dictionary.src").read_text(encoding="utf-8").split("\n") == [
        "Laufrad", "Gassi laufen", "gassi", "Taxi", "laufrad", "",
    ]  # fmt: skip
    assert Path("c/dictionary.tgt").read_text(encoding="utf-8").splitlines()[3] == "Taxi"
    assert found.recipe is not None
    assert found.recipe.data.src == ("train.src", "c/train.src", "c/dictionary.src")
    assert found.recipe.data.corpus_weights == (2.7, 1.0, 1.0)
    assert found.recipe.data.on_copy == "skip", "which leaves out the taxi, as of any text"
    assert "3 synthetic pairs, which <bt> marks, and 5 entries of a dictionary whose words" in found.fragment
    never = write_recipe(augmented, request, parallel(), Dictionary(entries, rare_below=1)).recipe
    assert never is not None
    assert Path("c/dictionary.src").read_text(encoding="utf-8").split() == ["Gassi", "laufen", "Taxi"]
    nothing = write_recipe(augmented, request, parallel(), Dictionary([("ein", "a")], rare_below=2)).recipe
    assert nothing is not None
    assert nothing.data.src == ("train.src", "c/train.src")
    within = [("Hund", "dog"), ("ein Hund", "a dog"), ("und ein", "and a")]
    write_recipe(augmented, request, parallel(), Dictionary(within, rare_below=2))
    assert Path("c/dictionary.src").read_text(encoding="utf-8") == "und ein\n", "a word within a phrase is not rare"
    write_recipe(augmented, request, parallel())
    assert not Path("c/dictionary.src").exists()


def test_a_dictionary_is_for_words_that_are_rare() -> None:
    with pytest.raises(ConfigError, match="`rare_below=0` must be at least 1"):
        Dictionary([("a", "b")], rare_below=0)
    for data, message in (
        (DataConfig(), "are determined from real pairs, and none are given"),
        (parallel(corpus_tags=("<a>",)).recipe.data, r"`data\.corpus_tags` \(\['<a>'\]\) mixes corpora"),
        (parallel(sampling_temperature=2.0).recipe.data, r"`data\.sampling_temperature` \(2\.0\) mixes corpora"),
    ):
        with pytest.raises(ConfigError, match=message):
            Dictionary.check(data)


def test_mixes_that_are_there_stay() -> None:
    two = {"src": ("train.src", "valid.src"), "tgt": ("train.tgt", "valid.tgt")}
    mixed = suggested(parallel(**two, corpus_weights=(1, 2, 0.5, 1), corpus_weights_from=(0, 3)), 90).recipe
    assert mixed is not None
    assert mixed.data.corpus_weights == (2.0, 4.0, 1.0, 1.0, 2.0, 1.0)
    by_temperature = suggested(parallel(**two, sampling_temperature=2.0, corpus_tags=("<a>", "<b>")), 90, tag="").recipe
    assert by_temperature is not None
    assert (by_temperature.data.corpus_weights, by_temperature.data.sampling_temperature) == ((), 2.0)
    assert by_temperature.data.corpus_tags == ("<a>", "<b>", "<synthetic>")


def test_what_is_said() -> None:
    fragment = suggested(parallel(), 100).fragment
    assert fragment.startswith(
        "# 40 real pairs, and 100 synthetic pairs, which <bt> marks: the former are seen 2.5 "
        'times an epoch.\n[data]\nsrc = ["train.src", "c/train.src"]\n'
    )
    assert "each is seen once an epoch" in suggested(parallel(), 40).fragment
    words = suggested(parallel(tokenizer="words"), 40)
    assert "# words does not support symbols: <bt> will be split like other words.\n" in words.fragment
    assert words.recipe is not None
    assert words.recipe.data.symbols == ()
    assert "40 synthetic pairs, which <bt> marks, and 10 copied lines: " in suggested(parallel(), 40, 10).fragment
    alone = suggested(RealData(Recipe()), 40)
    assert (alone.recipe, "add the real pairs before them" in alone.fragment) == (None, True)


def test_a_run_that_translates_the_other_way_has_the_texts(finished_run: Path) -> None:
    """What was held out of its own training is held out of the next one, and not translated."""
    folder = finished_run.parent
    found = load_real_data(str(finished_run), "back")
    assert (found.recipe.data.src, found.recipe.data.tgt) == (str(folder / "train.tgt"), str(folder / "train.src"))
    forward = load_real_data(str(finished_run), "forward")
    assert forward.recipe.data.src == str(folder / "train.src")
    assert found.corpus is not None
    assert forward.corpus is not None
    assert [pair[::-1] for pair in found.corpus.valid] == forward.corpus.valid
    assert (
        found.read_held_out("back")
        == {source for source, _ in forward.corpus.valid}
        == forward.read_held_out("forward")
    )
    Path("c").mkdir()
    data, count = found.write(Path("c"))
    assert (data.src, data.valid_tgt, count) == ("c/parallel.src", "c/valid.tgt", len(found.corpus))
    sources = Path("c/parallel.src").read_text().splitlines()
    assert sources == [source for source, _ in found.corpus.train()]


def test_texts_that_are_given(finished_run: Path) -> None:
    named = {"src": ("train.src",), "tgt": ("train.tgt",), "valid_src": "valid.src", "valid_tgt": "valid.tgt"}
    found = load_real_data(str(finished_run), "back", **named)
    assert (found.recipe.data.src, found.recipe.data.valid_tgt, found.corpus) == ("train.src", "valid.tgt", None)
    assert found.recipe.model.d_model == 16, "all else is as the run has it"
    assert found.read_held_out("back") == {*Path("valid.tgt").read_text().splitlines()}
    assert load_real_data("elsewhere", "back").is_known is False
    with pytest.raises(ConfigError, match=r"`data\.tgt=` is not given"):
        load_real_data(str(finished_run), "back", src=("train.src",))
    with pytest.raises(ConfigError, match=r"`data\.valid_tgt=` is not given"):
        load_real_data(str(finished_run), "back", **named | {"valid_tgt": ""}).read_held_out("back")
    with pytest.raises(DataError, match="no file `none`"):
        load_real_data(str(finished_run), "back", src=("none",), tgt=("train.tgt",))
    with pytest.raises(ConfigError, match='the recipe has `task = "classify"`'):
        load_real_data(str(finished_run), "back", "sst2")


def test_texts_that_are_gone_are_said(finished_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    recipe = Recipe.load(finished_run / "recipe.toml")
    gone = replace(recipe, data=replace(recipe.data, src="gone.src", tgt="gone.tgt"))
    (run / "recipe.toml").write_text(gone.to_toml())
    said: list[str] = []
    assert not load_real_data("run", "back", log_line=said.append).is_known
    assert said[0].startswith("the training text of `run` is not used: no file `gone.tgt`")


def test_the_other_way() -> None:
    data = DataConfig(
        src=("both.tsv", "a.de"),
        tgt=("a.en",),
        valid_src="v.jsonl",
        joint_vocab=False,
        vocab_size=10,
        tgt_vocab_size=20,
    )
    found = reverse_direction(Recipe(data=data, languages=("de", "en")))
    assert (found.data.src, found.data.tgt, found.data.valid_src) == (("both.tsv", "a.en"), "a.de", "v.jsonl")
    assert (found.data.tsv_columns, found.data.jsonl_keys) == ((2, 1), ("tgt", "src"))
    assert (found.data.vocab_size, found.data.tgt_vocab_size, found.languages) == (20, 10, ("en", "de"))
    assert reverse_direction(found) == Recipe(data=data, languages=("de", "en"))
    plain = DataConfig(src="a.de", tgt="a.en", tsv_columns=(3, 4))
    assert reverse_direction(Recipe(data=plain)).data.tsv_columns == (3, 4), "no text has columns"


def test_the_languages_change_about_as_well() -> None:
    data = DataConfig(src="a.de", tgt="a.en", src_lang="de", tgt_lang="en")
    found = reverse_direction(Recipe(data=data))
    assert (found.data.src_lang, found.data.tgt_lang) == ("en", "de")
    assert 'tgt_lang = "fr"' in suggested(parallel(src_lang="de", tgt_lang="fr"), 40).fragment


@pytest.mark.parametrize(
    "setting", ['tgt_lang = ["en", "fr"]\nsrc_lang = "de"', 'add_language = "cs"\nsrc_lang = "cs"\ntgt_lang = "en"']
)
def test_a_training_on_several_pairs_of_languages_is_refused(finished_run: Path, setting: str) -> None:
    texts = '\nsrc = ["train.src", "valid.src"]\ntgt = ["train.tgt", "valid.tgt"]\n'
    Path("many.toml").write_text(f"[data]\n{setting}{texts}", encoding="utf-8")
    with pytest.raises(ConfigError, match="the recipe has several language pairs"):
        load_real_data(str(finished_run), "back", "many.toml")


def test_a_text_to_test_on_that_is_gone_is_said(finished_run: Path) -> None:
    Path("test.toml").write_text(
        '[data]\nsrc = "train.src"\ntgt = "train.tgt"\nvalid_src = "valid.src"\nvalid_tgt = "valid.tgt"\n'
        'test_src = "gone.src"\ntest_tgt = "valid.tgt"\n'
    )
    said: list[str] = []
    found = load_real_data(str(finished_run), "back", "test.toml", log_line=said.append)
    assert said == ["the test text is missing (`gone.src`), so none of its lines is skipped"]
    assert (found.recipe.data.test_src, found.recipe.data.test_tgt) == ("", "")


def test_tagged_corpora_get_one_for_what_is_synthetic() -> None:
    data = {"src": ("train.src", "valid.src"), "tgt": ("train.tgt", "valid.tgt"), "corpus_tags": ("<a>", "<b>")}
    found = suggested(parallel(**data), 40).recipe
    assert found is not None
    assert found.data.corpus_tags == ("<a>", "<b>", "<synthetic>"), "its lines begin with <bt> already"


def test_several_corpora_need_a_text_to_validate_on(finished_run: Path) -> None:
    Path("mix.toml").write_text(
        '[data]\nsrc = ["train.src", "valid.src"]\ntgt = ["train.tgt", "valid.tgt"]\ncorpus_weights = [1, 2]\n'
    )
    with pytest.raises(ConfigError, match="several corpora are mixed, and no validation text is given"):
        load_real_data(str(finished_run), "back", "mix.toml")
