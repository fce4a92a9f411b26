"""One model of several pairs of languages: copied, turned round or made small letters, by the tag of the target."""

import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.config import RECIPE, Recipe
from pellucid.data.parallel import list_held_out_texts
from pellucid.data.prepare import open_corpus
from pellucid.errors import ConfigError
from pellucid.evaluation.reranking import RerankingWeights
from pellucid.run.run import train
from pellucid.tasks.languages import ZeroShotWarning
from pellucid.tasks.reranking import Reranker, load_reranker
from pellucid.tasks.translator import Translator
from pellucid.weights.folder import DESCRIPTION
from tests.toy_task import SMALL, metrics
from tests.unit.cli.command_line import CommandLine

PAIRS = (("low", "low"), ("low", "back"), ("up", "low"))
SPOKEN = ('data.src_lang=["low", "low", "up"]', 'data.tgt_lang=["low", "back", "low"]')


def write_texts(folder: Path, name: str, count: int, seed: int) -> tuple[list[str], list[str]]:
    """Writes a text for each pair of languages, and returns the paths of sources and targets."""
    generator = random.Random(seed)
    paths: tuple[list[str], list[str]] = ([], [])
    for source, target in PAIRS:
        rows = [generator.choices("abcdefgh", k=generator.randint(2, 6)) for _ in range(count)]
        spell = {
            "low": " ".join, "back": lambda row: " ".join(reversed(row)), "up": lambda row: " ".join(row).upper()
        }  # fmt: skip
        for side, language in enumerate((source, target)):
            path = folder / f"{name}.{source}-{target}.{side}"
            path.write_text("".join(f"{spell[language](row)}\n" for row in rows), encoding="utf-8")
            paths[side].append(str(path))
    return paths


def recipe_of(folder: Path, *settings: str, valid: bool = True, count: int = 60) -> Recipe:
    texts = dict(zip(("src", "tgt"), write_texts(folder, "train", count, 1), strict=True))
    if valid:
        texts |= zip(("valid_src", "valid_tgt"), write_texts(folder, "valid", 9, 2), strict=True)
    files = [f"data.{name}={json.dumps(paths)}" for name, paths in texts.items()]
    return Recipe.load("default", [*SMALL, *files, *SPOKEN, *settings])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("languages")
    kind = ("data.tokenizer=bpe", "data.vocab_size=300", "train.steps=2", "train.validate_every=2", "train.average=1")
    train(recipe_of(folder, *kind, "train.decode_and_evaluate=6"), folder / "run", device="cpu", quiet=True)
    return folder / "run"


def test_a_model_folder_holds_its_languages(run: Path, pellucid: CommandLine) -> None:
    table = json.loads((run / DESCRIPTION).read_text(encoding="utf-8"))
    assert list(table["languages"]) == ["low", "back"]
    assert table["text"]["pairs"] == ["low-low", "low-back", "up-low"]
    assert table["decode"]["source_prefix"] == []
    assert "3 pairs of languages, low-low, low-back, up-low" in pellucid("info", run).out


def test_the_tag_that_a_translation_gets_is_the_one_of_training(run: Path) -> None:
    translator = Translator.load(run, "cpu", target_language="back")
    encode = translator.tokenizers.source.encode
    assert encode("<2back> a b c") == [*translator.decode.source_prefix, *encode("a b c")]
    corpus = open_corpus(Recipe.load(run / RECIPE).data)
    sources = [source for source, _ in corpus.train()]
    assert [source.split()[0] for source in sources[::60]] == ["<2low>", "<2back>", "<2low>"]


def test_each_pair_is_validated(run: Path) -> None:
    found = next(line for line in metrics(run) if line["event"] == "validation")
    losses = {name: found[f"loss_{name}"] for name in ("low-low", "low-back", "up-low")}
    data = open_corpus(Recipe.load(run / RECIPE).data)
    assert data.valid_languages == ("low-low",) * 9 + ("low-back",) * 9 + ("up-low",) * 9
    # The mean over all tokens is that of the pairs, weighted by their tokens: each letter is one, and the end.
    tokens = dict.fromkeys(losses, 0)
    encode = Translator.load(run, "cpu").tokenizers.target.encode
    for name, (_, target) in zip(data.valid_languages, data.valid, strict=True):
        tokens[name] += len(encode(target)) + 1
    mean = math.fsum(losses[name] * tokens[name] for name in losses) / sum(tokens.values())
    assert found["loss"] == pytest.approx(mean, rel=1e-5)
    scored = Translator.load(run, "cpu").score(
        [source.removeprefix("<2back> ") for source, _ in data.valid[9:18]], [target for _, target in data.valid[9:18]],
        target_language="back",
    )  # fmt: skip
    assert losses["low-back"] == pytest.approx(-math.fsum(scored) / tokens["low-back"], rel=1e-5)
    assert {f"bleu_{name}" for name in losses} <= found.keys()


def test_validation_text_that_is_cut_off_knows_its_pair(tmp_path: Path) -> None:
    data = open_corpus(recipe_of(tmp_path, valid=False).data)
    assert len(data.valid_languages) == len(data.valid) == 18
    tags = {"low-low": "<2low>", "low-back": "<2back>", "up-low": "<2low>"}
    for name, (source, target) in zip(data.valid_languages, data.valid, strict=True):
        tag, text = source.split(" ", 1)
        assert tag == tags[name]
        assert (text.isupper(), text.lower() == target) == (name == "up-low", name != "low-back" or text == target)


def test_languages_are_asked_for_and_refused(run: Path, pellucid: CommandLine) -> None:
    missing = pellucid("translate", run, "a b")
    assert missing.error == "this model translates into 2 languages, and `--tgt-lang` is not given"
    assert missing.hint == "name one of low, back"
    wrong = pellucid("evaluate", run, "--src", run / RECIPE, "--ref", run / RECIPE, "--tgt-lang", "bak")
    assert (wrong.status, "`--tgt-lang bak`; similar codes are back" in wrong.error) == (2, True)
    unread = pellucid("translate", run, "a b", "--src-lang", "back", "--tgt-lang", "low")
    assert (unread.error, unread.hint) == (
        "`--src-lang back` is not a source language of the model",
        "its source languages are low, up",
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("always::pellucid.tasks.languages.ZeroShotWarning")
@pytest.mark.usefixtures("unflagged")
def test_a_pair_that_was_never_trained_is_told(run: Path, pellucid: CommandLine) -> None:
    done = pellucid("translate", run, "A B", "--src-lang", "up", "--tgt-lang", "back")
    told = "`up` to `back` is zero-shot: the model was never trained on this pair, but on low-low, low-back, up-low"
    assert (done.status, done.err.splitlines()) == (0, [f"warning: {told}"])
    assert pellucid("translate", run, "A B", "--src-lang", "up", "--tgt-lang", "low").err == ""
    translator = Translator.load(run, "cpu")
    with pytest.warns(ZeroShotWarning, match="`up` to `back`") as warned:
        translator.translate(["A B"], source_language="up", target_language="back")
    assert warned[0].filename == __file__


def test_words_are_aligned_without_the_tag(run: Path, pellucid: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a b\n", encoding="utf-8")
    done = pellucid("align", run, "--src", tmp_path / "a", "--tgt", tmp_path / "a", "--tgt-lang", "low", "--layer", "0")
    assert {int(place) for link in done.out.split() for place in link.split("-")} <= {0, 1}
    assert done.status == 0


@pytest.mark.slow
def test_heads_are_judged_by_texts_that_have_their_tags(run: Path, pellucid: CommandLine) -> None:
    assert "27 sentences of the run's validation set" in pellucid("heads", run).out
    assert pellucid("heads", run, "--tgt-lang", "low").error.startswith("languages are given (`low`), but the run's")


@pytest.mark.slow
def test_a_model_of_one_target_needs_no_code(tmp_path: Path, pellucid: CommandLine) -> None:
    recipe = recipe_of(tmp_path, 'data.src_lang=["x", "y", "z"]', 'data.tgt_lang="low"', "train.steps=1")
    train(recipe, tmp_path / "run", device="cpu", quiet=True)
    own, named = (pellucid("translate", tmp_path / "run", "a b", *more) for more in ((), ("--tgt-lang", "low")))
    assert (own.status, own.out) == (0, named.out)
    translator = Translator.load(tmp_path / "run", "cpu")
    assert translator.decode.source_prefix == tuple(translator.tokenizers.source.encode("<2low>"))
    # A training that begins with it puts the tag there once, whoever names the languages.
    again = Recipe.load(tmp_path / "run" / RECIPE, ["train.steps=1"])
    train(again, tmp_path / "more", init_from=str(tmp_path / "run"), device="cpu", quiet=True)
    table = json.loads((tmp_path / "more" / DESCRIPTION).read_text(encoding="utf-8"))
    assert tuple(table["decode"]["source_prefix"]) == translator.decode.source_prefix


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (['data.tgt_lang=""'], r"`src_lang` \(low, low, up\) requires `tgt_lang`"),
        (
            ['data.tgt_lang=["a", "b"]'],
            r"`data.tgt_lang` \(\['a', 'b'\]\) must be one code, or one for each corpus \(3\)",
        ),
        (['data.tgt_lang="pt-BR"'], "`tgt_lang` has `?['\"]?pt-BR.*not a language code"),
        (
            ['data.corpus_tags=["<a>", "<b>", "<c>"]'],
            r"`corpus_tags` .* and `tgt_lang` \(low, back, low\) exclude each other",
        ),
        (["data.concatenate=0.5"], r"`concatenate` \(0.5\) would join .* `tgt_lang` is low, back, low"),
        (["data.tokenizer=words"], "splits `<2low>`, the tag of `--tgt-lang`, into `< 2low >`"),
        (["task=generate"], 'are for `task = "translate"`, not for `task = "generate"`'),
    ],
)
def test_languages_that_do_not_go_together(
    tmp_path: Path, pellucid: CommandLine, settings: list[str], error: str
) -> None:
    (tmp_path / "r.toml").write_text(recipe_of(tmp_path).to_toml(), encoding="utf-8")
    options = [part for setting in settings for part in ("--set", setting)]
    done = pellucid("train", tmp_path / "r.toml", "--out", tmp_path / "run", *options)
    assert done.status == 2
    assert re.search(f"error: .*{error}", done.err)


def test_validation_texts_are_one_for_each_pair(tmp_path: Path) -> None:
    data = recipe_of(tmp_path).data
    assert [text.pair for text in list_held_out_texts(data, "valid")] == ["low-low", "low-back", "up-low"]
    two = replace(data, valid_src=data.valid_src[:2], valid_tgt=data.valid_tgt[:2])
    with pytest.raises(ConfigError, match=r"`data.valid_src=` names 2 texts for 3 pairs of languages: low-low, low-b"):
        list_held_out_texts(two, "valid")
    # Two corpora of a pair have one text, or one each.
    same = replace(data, src_lang="low", tgt_lang=("low", "low", "back"), valid_src=data.valid_src[:2])
    assert [t.pair for t in list_held_out_texts(replace(same, valid_tgt=data.valid_tgt[:2]), "valid")] == [
        "low-low", "low-back",
    ]  # fmt: skip


@pytest.mark.slow
def test_one_model_learns_to_copy_and_to_turn_round(tmp_path: Path) -> None:
    learning = (
        "train.steps=700", "train.batch_tokens=1000", "train.schedule=inverse_sqrt", "train.learning_rate=5e-3",
        "train.warmup_steps=50", "train.validate_every=700", "train.decode_and_evaluate=27", "model.d_model=32",
        "model.dropout=0.0", "data.sampling_temperature=2",
    )  # fmt: skip
    train(recipe_of(tmp_path, *learning, count=1000), tmp_path / "run", device="cpu", quiet=True)
    found = next(line for line in metrics(tmp_path / "run") if line["event"] == "validation")
    assert min(found[f"bleu_{name}"] for name in ("low-low", "low-back", "up-low")) > 60
    translator = Translator.load(tmp_path / "run", "cpu")
    line = ["a b c"]
    assert [translator.translate(line, target_language=to)[0].text for to in ("low", "back")] == ["a b c", "c b a"]
    assert translator.translate(["A B C"], source_language="up", target_language="low")[0].text == "a b c"


@pytest.mark.slow
def test_validation_texts_are_named_by_options(tmp_path: Path, pellucid: CommandLine) -> None:
    texts = {"": write_texts(tmp_path, "train", 60, 1), "valid-": write_texts(tmp_path, "valid", 9, 2)}
    options = [
        word
        for name, sides in texts.items()
        for side, paths in zip(("src", "tgt"), sides, strict=True)
        for path in paths
        for word in (f"--{name}{side}", path)
    ]
    codes = [word for source, target in PAIRS for word in ("--src-lang", source, "--tgt-lang", target)]
    small = [word for setting in SMALL for word in ("--set", setting)]
    outcome = pellucid("train", *options, *codes, *small, "--out", tmp_path / "run")
    assert outcome.status == 0, outcome.error
    trained = Recipe.load(tmp_path / "run" / "recipe.toml")
    assert [trained.data.files(f"valid_{side}") for side in ("src", "tgt")] == [
        tuple(paths) for paths in texts["valid-"]
    ]
    assert {"bleu_low-low", "bleu_low-back", "bleu_up-low"} <= {key for row in metrics(tmp_path / "run") for key in row}


@pytest.mark.slow
def test_factors_are_of_one_pair(run: Path, tmp_path: Path, pellucid: CommandLine) -> None:
    """The model is its own other direction, from small letters to themselves."""
    sources, targets = write_texts(tmp_path, "held", 12, 4)
    path, low = tmp_path / "rerank.json", ("--src-lang", "low", "--tgt-lang", "low")
    held = ["--src", sources[0], "--tgt", targets[0], "--n-best", "3", "--device", "cpu", "--out", path]
    given = ["fit-reranker", run, "--reverse", run, *held]
    outcome = pellucid(*given, *low)
    assert outcome.status == 0, outcome.error
    table = json.loads(path.read_text(encoding="utf-8"))
    assert (table["reverse"]["source_language"], table["reverse"]["target_language"]) == ("low", "low")
    table["factors"] = {"reverse": 5.0, "lm": 0.0, "length": 0.0}
    path.write_text(json.dumps(table), encoding="utf-8")
    translator, reranker = Translator.load(run, "cpu", target_language="low"), load_reranker(path, "cpu")
    assert isinstance(reranker.reverse, Translator)
    assert reranker.reverse.decode == translator.decode
    by_hand = Reranker(translator, factors=RerankingWeights(reverse=5.0), n_best=3)
    lines = ["a b c", "d e", "h g f e"]
    found, expected = (translator.translate(lines, rerank=one) for one in (path, by_hand))
    assert [t.text for t in found] == [t.text for t in expected]
    assert pellucid(*given).error == "this model translates into 2 languages, and `--tgt-lang` is not given"
    not_read = pellucid(*given, "--src-lang", "low", "--tgt-lang", "back")
    assert not_read.error == f"the reverse direction, `{run}`: `--tgt-lang back` is not a source language of the model"
    not_written = pellucid(*given, "--src-lang", "up", "--tgt-lang", "low")
    assert not_written.error.startswith(f"the reverse direction, `{run}`: unknown `--src-lang up`")
    for name in ("source_language", "weights"):
        path.write_text(json.dumps(table | {"reverse": table["reverse"] | {name: 3}}), encoding="utf-8")
        refused = pellucid("translate", run, "a", *low, "--rerank", path)
        assert refused.error == f"`{path}` is not a file of reranking factors"


@pytest.mark.slow
def test_a_model_of_one_pair_stands_beside_one_of_several(run: Path, tmp_path: Path, pellucid: CommandLine) -> None:
    (sources, targets), one = write_texts(tmp_path, "test", 9, 3), tmp_path / "one"
    alone = recipe_of(tmp_path, "data.tokenizer=bpe", "data.vocab_size=300")
    train(replace(alone, data=replace(alone.data, src=sources[2], tgt=targets[2], src_lang="", tgt_lang="",
          valid_src=sources[2], valid_tgt=targets[2])), one, device="cpu", quiet=True)  # fmt: skip
    test = ["--src", sources[2], "--ref", targets[2], "--src-lang", "up", "--tgt-lang", "low", "--json"]
    found = json.loads(pellucid("evaluate", run, "--baseline", one, *test).out)
    assert (found["a"], found["b"]) == (str(run), str(one))
    by_itself = json.loads(pellucid("evaluate", one, *test[:4], "--json").out)
    assert found["bleu"]["b"] == pytest.approx(by_itself["bleu"])
    refused = pellucid("evaluate", one, "--baseline", run, *test)
    assert refused.error == f"`--src-lang up` has no effect on `{one}`, which has no languages"
    assert refused.hint == "name the multilingual model first, and this one with `--baseline`"
