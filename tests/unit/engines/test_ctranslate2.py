"""The translator on CTranslate2 against Pellucid's own, on the same weights."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid.config import DecodeConfig
from pellucid.engines.ctranslate2 import CTranslate2Engine, keeps_rules
from pellucid.errors import CheckpointError, ConfigError, DataError, DecodingError
from pellucid.evaluation.calibration import Calibration
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from pellucid.weights.folder import read_description
from tests.rounding import NETWORK
from tests.unit.decoding.models import random_decoder, random_model

foreign = pytest.mark.foreign
LETTERS = Vocabulary("characters", tuple(" abcdefghABCDEFGH.!"))
SINGLE = TrainingTextStats(sentence_ends=1.0, several_sentences=0.0, source_length=12)
LINES = ["Bad cab.  Faded!   A bed. ", "", "a bed", "Dead beef. ", "  ", "h", "gag a cab " * 5]


def own(seed: int = 0, **decode: Any) -> Translator:
    """Random weights, too sharp for ties; what may not be written is as improbable as after training."""
    model = random_model(seed, LETTERS.size, sharpness=2.0)
    with torch.no_grad():
        assert model.output_projection.bias is not None
        model.output_projection.bias[[0, 1]] = -30.0
    config = DecodeConfig(**{"beam_size": 3, "max_length": 6, "max_source_length": 20} | decode)
    return Translator(model, TokenizerPair(LETTERS, LETTERS), config, text=SINGLE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("engines") / "model"
    own().save(place)
    return place


@pytest.fixture(scope="module")
def other(folder: Path) -> Translator:
    return Translator.load(folder, engine="ctranslate2", threads=1)


def of(found: list[pellucid.Translation]) -> list[Any]:
    return [(t.text, t.tokens, [(s.source, s.text, s.length) for s in t.sentences]) for t in found]


def scores_of(found: list[pellucid.Translation]) -> list[float]:
    return [value for t in found for value in (t.score, *(s.score for s in t.sentences))]


@foreign
@pytest.mark.parametrize(
    "options", [{}, {"segment": "off"}, {"batch_tokens": 1}, {"max_length": 2}, {"max_length": None}]
)
@pytest.mark.filterwarnings("ignore:.*longer than")  # one line is, so that it is cut into pieces
def test_greedy_outputs_are_those_of_the_own_engine(folder: Path, other: Translator, options: dict[str, Any]) -> None:
    # CTranslate2 has no search without repetitions, so its translations are never repaired.
    ours = Translator.load(folder, "cpu").translate(LINES, beam_size=1, repair="off", **options)
    theirs = other.translate(LINES, beam_size=1, **options)
    assert of(theirs) == of(ours)
    assert scores_of(theirs) == pytest.approx(scores_of(ours), rel=NETWORK)
    assert [len(t.sentences) for t in theirs][:2] == ([1, 0] if "segment" in options else [3, 0])


@foreign
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 1.7])
def test_the_n_best_fall_and_have_the_scores_that_the_model_gives(
    folder: Path, other: Translator, length_penalty: float
) -> None:
    lines = ["a bed", "Dead beef.", "h"]
    ours = Translator.load(folder, "cpu")
    own_best = ours.translate(lines, beam_size=4, n_best=3, length_penalty=length_penalty)
    found = other.translate(lines, beam_size=4, n_best=3, length_penalty=length_penalty)
    for line, translation, best in zip(lines, found, own_best, strict=True):
        assert len(translation.alternatives) == 3
        ranks = [t.score / (len(t.tokens) + 1) ** length_penalty for t in translation.alternatives]
        assert ranks == sorted(ranks, reverse=True)
        texts = [t.text for t in translation.alternatives]
        assert len(set(texts)) == 3
        given = ours.score([line] * 3, texts)
        assert [t.score for t in translation.alternatives] == pytest.approx(given, rel=NETWORK)
        # Its beams stop earlier: what it finds may be worse, and is never better.
        assert ranks[0] <= best.score / (len(best.tokens) + 1) ** length_penalty + NETWORK


@foreign
def test_what_may_not_be_written_is_not_and_scores_are_still_the_models(tmp_path: Path) -> None:
    ours = own(max_length=5)
    with torch.no_grad():
        assert ours.model.output_projection.bias is not None
        ours.model.output_projection.bias[[0, 1]] = 6.0  # padding and start token are the most probable of all
    ours.save(tmp_path / "model")
    theirs = Translator.load(tmp_path / "model", engine="ctranslate2", threads=1)
    lines = ["a bed", "Dead beef.", "h", "cab"]
    found = theirs.translate(lines, beam_size=1)
    assert of(found) == of(ours.translate(lines, beam_size=1))
    assert [t.score for t in found] == pytest.approx(ours.score(lines, [t.text for t in found]), rel=NETWORK)


@foreign
def test_translations_come_while_it_searches_on(other: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    engine = other.engine._translator  # type: ignore[attr-defined]

    class Counting:
        score_batch = engine.score_batch

        def translate_batch(self, batch: list[list[str]], *rest: Any, **options: Any) -> Any:
            asked.append(len(batch))
            return engine.translate_batch(batch, *rest, **options)

    monkeypatch.setattr(other.engine, "_loaded", (os.getpid(), Counting()))
    config = other.configure(SearchOptions(decode=DecodeConfig(beam_size=1, batch_tokens=1)))
    pieces = other.tokenizers.source.encode_lines(["a bed", "h", "bad", "cab", "gag", "fed", "a", "head"])
    found = iter(other.engine.search(pieces, config, None, None))
    next(found)
    assert len(asked) < len(pieces)
    assert len(list(found)) == len(pieces) - 1


@foreign
def test_pytorch_keeps_its_threads(folder: Path) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        Translator.load(folder, engine="ctranslate2", threads=1)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@foreign
def test_scores_of_given_targets(folder: Path, other: Translator) -> None:
    ours = Translator.load(folder, "cpu")
    sources, targets = ["a bed", "", "gag a cab", "b"], ["Dead", "cab", "", "a" * 30]
    assert other.score(sources, targets) == pytest.approx(ours.score(sources, targets), rel=NETWORK)
    too_long = "a" * 5000
    assert [s.fault for s in other.score_sequences(["a"], [too_long])] == [
        s.fault for s in ours.score_sequences(["a"], [too_long])
    ]
    with pytest.raises(DataError, match="the model's limit is"):
        other.score(["a"], [too_long])


@foreign
def test_what_stands_around_sources_and_targets(tmp_path: Path) -> None:
    ours = own(source_prefix=(5,), source_suffix=(6,), target_prefix=(7, 8))
    ours.save(tmp_path / "model")
    theirs = Translator.load(tmp_path / "model", engine="ctranslate2", threads=1)
    lines = ["a bed", "h"]
    for decode in (ours.decode, DecodeConfig(max_length=6, add_source_eos=False)):
        expected = ours.translate(lines, decode=decode, beam_size=1)
        found = theirs.translate(lines, decode=decode, beam_size=1)
        assert of(found) == of(expected)
        assert scores_of(found) == pytest.approx(scores_of(expected), rel=NETWORK)
    assert theirs.score(lines, ["cab", "h"]) == pytest.approx(ours.score(lines, ["cab", "h"]), rel=NETWORK)
    with pytest.raises(DecodingError, match="`target_prefix` holds the id 99"):
        theirs.translate(lines, decode=DecodeConfig(target_prefix=(99,)))


@foreign
def test_its_conversion_has_its_proof_and_is_smaller_in_int8(folder: Path, other: Translator) -> None:
    small = Translator.load(folder, engine="ctranslate2", dtype="int8", threads=1)
    assert "in int8" in repr(small)
    assert "in float32" in repr(other)
    kept = {path.name.split("-")[1]: path / "model" for path in (folder / "cache").iterdir()}
    assert (kept["int8"] / "model.bin").stat().st_size < (kept["float32"] / "model.bin").stat().st_size
    assert '"passed": true' in (kept["float32"] / "conversion.json").read_text(encoding="utf-8")
    assert small.translate(["a bed"])[0].sentences[0].source == "a bed"


@foreign
def test_it_evaluates_streams_and_is_seen_through_like_any_translator(folder: Path, other: Translator) -> None:
    ours = Translator.load(folder, "cpu")
    lines, references = ["a bed", "h"], ["cab", "h"]
    assert other.evaluate(lines, references, beam_size=1).bleu == ours.evaluate(lines, references, beam_size=1).bleu
    assert [t.text for t in other.stream(iter(lines), beam_size=1)] == [
        t.text for t in ours.translate(lines, beam_size=1)
    ]


@foreign
def test_nothing_that_takes_long_is_imported_once_a_conversion_is_kept(
    folder: Path, other: Translator, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("a bed\nh\n", encoding="utf-8")
    how = f"'--engine', 'ctranslate2', '--output', '{tmp_path / 'out'}'"
    python = f"""
import sys, pellucid
from pellucid.cli.main import main
assert main(["translate", {str(folder)!r}, "--input", {str(tmp_path / "in")!r}, {how}, "--threads", "1"]) == 0
assert "numpy" not in sys.modules
t = pellucid.Translator.load({str(folder)!r}, engine="ctranslate2")
t.translate(["a bed"]), t.score(["a"], ["b"]), repr(t)
assert main(["translate", {str(folder)!r}, "--input", {str(tmp_path / "in")!r}, {how}, "--json", "--threads", "1",
             "--fresh"]) == 0
assert main(["score", {str(folder)!r}, "--src", {str(tmp_path / "in")!r}, "--tgt", {str(tmp_path / "in")!r}, {how},
             "--fresh"]) == 0
print(sorted({{"torch", "tokenizers"}} & sys.modules.keys()))
"""
    ran = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "[]\n", "")


@foreign
@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda t: t.model, "has no PyTorch model"),
        (lambda t: t.trace("a"), "cannot be traced"),
        (lambda t: t.save("x"), "cannot be saved"),
        (lambda t: t.sample(["a"]), "does not sample"),
        (lambda t: t.translate(["a"], search=pellucid.beam_search), "does not support `search=`"),
        (lambda t: pellucid.align(t, ["a"], ["b"]), "cannot be traced"),
        (lambda t: pellucid.ablate(t, ["a"], ["b"]), "has no PyTorch model"),
        (lambda t: pellucid.view(t.trace("a")), "cannot be traced"),
    ],
)  # fmt: skip
def test_what_it_cannot_do_is_said_with_what_can(other: Translator, use: Any, said: str) -> None:
    with pytest.raises(ConfigError, match="a translator on CTranslate2 .*" + said) as error:
        use(other)
    assert error.value.hint == 'load it with `engine="torch"`'


@foreign
@pytest.mark.parametrize(
    ("how", "said", "hint"),
    [
        ({"dtype": "int4"}, "dtype `int4` is unknown to CTranslate2; did you mean `int8`", "float32, int8"),
        ({"device": "mps"}, "device `mps` is not available in CTranslate2 here", "auto, cpu"),
        ({"parts": pellucid.Parts()}, "`parts=` are modules of PyTorch", 'engine="torch"'),
        ({"threads": 0}, "`threads=0` must be at least 1", ""),
        ({"source_language": "de"}, '`source_language="de"` has no effect on this model', "leave it out"),
    ],
)
def test_what_cannot_be_opened(folder: Path, how: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        Translator.load(folder, engine="ctranslate2", **how)
    assert said in str(error.value)
    assert hint in error.value.hint


@foreign
def test_a_model_that_it_cannot_express_is_refused_and_nothing_stays(tmp_path: Path) -> None:
    model = random_model(0, LETTERS.size, qk_norm=True)
    Translator(model, LETTERS).save(tmp_path / "model")
    with pytest.raises(ConfigError, match=r"`cross_query_norm` \(True\) is not supported by CTranslate2") as error:
        Translator.load(tmp_path / "model", engine="ctranslate2")
    assert 'engine="torch"' in error.value.hint
    assert not any((tmp_path / "model" / "cache").iterdir())


@foreign
def test_a_model_for_something_else_is_refused(tmp_path: Path) -> None:
    pellucid.LanguageModel(random_decoder(0, LETTERS.size), LETTERS).save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="holds a language model, not a translator"):
        Translator.load(tmp_path / "model", engine="ctranslate2")


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own().save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ConfigError, match="CTranslate2 is not installed") as error:
        Translator.load(tmp_path / "model", engine="ctranslate2")
    assert "[ct2]" in error.value.hint


def test_engines_that_there_are_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='unknown `engine="ctranslate"`; did you mean `ctranslate2`'):
        Translator.load(tmp_path, engine="ctranslate")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="`threads=2` is for the engine ctranslate2"):
        Translator.load(tmp_path, threads=2)


@foreign
def test_a_subclass_opens_on_another_engine(folder: Path, other: Translator) -> None:
    class Mine(Translator):
        pass

    mine = Mine.load(folder, engine="ctranslate2", threads=1)
    assert type(mine) is Mine
    assert of(mine.translate(LINES[:3])) == of(other.translate(LINES[:3]))


FORKED = """
import os, sys
from pellucid import Translator

translator = Translator.load(sys.argv[1], engine="ctranslate2", threads=2)
before = [t.text for t in translator.translate(["Bad cab", "a bed"])]
if not (child := os.fork()):
    print([t.text for t in translator.translate(["Bad cab", "a bed"])] == before)
    sys.exit(0)  # as a program ends: what is left of the parent's engine is not waited for
os.waitpid(child, 0)
print([t.text for t in translator.translate(["Bad cab", "a bed"])] == before)
"""


@foreign
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_loads_an_engine_of_its_own(folder: Path, other: Translator) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, folder], capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.stdout, done.stderr) == ("True\nTrue\n", "")


@foreign
def test_a_conversion_whose_vocabulary_is_too_short(folder: Path, other: Translator, tmp_path: Path) -> None:
    place = shutil.copytree(next((folder / "cache").iterdir()), tmp_path / "kept")
    words = place / "model" / "shared_vocabulary.json"
    words.write_text(json.dumps(json.loads(words.read_text(encoding="utf-8"))[:5]), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"damaged|cannot load"):
        CTranslate2Engine(read_description(place).config, place / "model", device="cpu")


@foreign
def test_a_stale_calibration_is_warned_of_once(folder: Path, tmp_path: Path) -> None:
    mine = shutil.copytree(folder, tmp_path / "model", ignore=shutil.ignore_patterns("cache"))
    Calibration(
        weights="0", coefficients=(0.5, 1.0, 0.0, 0.0, 0.0), lines=2, words=100, right=0.5, error=0.1, error_before=0.2,
        log_probability=-3.0, length_ratio=(0.5, 2.0), copied=0.25, numbers_kept=1.0,
    ).save(mine)  # fmt: skip
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        Translator.load(mine, engine="ctranslate2", threads=1)
    assert len([each for each in told if "was fitted with other weights" in str(each.message)]) == 1


@pytest.mark.parametrize(
    ("ids", "settings", "kept"),
    [
        ([3, 4, 3, 4], {"no_repeat_ngram_size": 2}, False),
        ([3, 4, 3, 5], {"no_repeat_ngram_size": 2}, True),
        ([3, 5], {"no_repeat_ngram_size": 2, "target_prefix": (3, 5)}, False),
        ([3, 4], {"min_length": 3}, False),
        ([3, 4], {"min_length": 9, "max_length": 2}, True),
        ([3, 4, 5], {"banned": ((4, 5),)}, False),
        ([5], {"banned": ((4, 5),), "target_prefix": (4,)}, False),
        ([3, 5, 4], {"banned": ((4, 5),)}, True),
    ],
)
def test_the_rules_that_an_output_of_the_engine_may_break(ids: list[int], settings: Any, kept: bool) -> None:
    config = DecodeConfig(**settings)
    assert keeps_rules(ids, config, config.limit(9)) == kept
