"""`pellucid train --add-language`: a model learns a language more, and what it knew has the ids and logits it had."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from pellucid.config import Recipe
from pellucid.run.run import Run, train
from pellucid.tasks.translator import Translator
from pellucid.tracing.token_text import parse_pieces
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.weights.export.tokenizer_files import save_tokenizer_files
from tests.rounding import NETWORK
from tests.toy_task import SMALL, metrics
from tests.unit.cli.command_line import CommandLine
from tests.unit.cli.test_languages import recipe_of
from tests.unit.run.test_run import at_step, interrupt
from tests.unit.tasks.test_languages import translator

OLD = ["ein Hund läuft", "zwei Hunde", "die Frau läuft", "zwei Männer", "der Hund und die Frau"] * 8
OURS = ["a dog runs", "two dogs", "the woman runs", "two men", "the dog and the woman"] * 8
NEW = ["pes běží", "dva psi", "žena běží", "dva muži", "pes a žena"] * 8
SETTINGS = (*SMALL, "data.tokenizer=bpe", "data.vocab_size=330", "train.average=1")


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, str]:
    found = {}
    for name, lines in (("de", OLD), ("en", OURS), ("cs", NEW)):
        path = tmp_path / f"text.{name}"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        found[name] = str(path)
    return found


def base(texts: dict[str, str], folder: Path, *settings: str) -> Path:
    """A model of one pair, which has no tag."""
    files = [f'data.src="{texts["de"]}"', f'data.tgt="{texts["en"]}"']
    train(Recipe.load("default", [*SETTINGS, *files, *settings]), folder, device="cpu", quiet=True)
    return folder


STEPS = tuple(setting for setting in SMALL if setting.startswith("train."))


def words(texts: dict[str, str], model: Path, out: Path) -> list[str]:
    """The command that adds Czech and goes on with German."""
    return [
        "train", "--init-from", str(model), "--add-language", "cs", "--src", texts["cs"], "--src", texts["de"],
        "--tgt", texts["en"], "--tgt", texts["en"], "--src-lang", "cs", "--src-lang", "de", "--tgt-lang", "en",
        "--out", str(out), *(part for setting in STEPS for part in ("--set", setting)),
    ]  # fmt: skip


def recipe(texts: dict[str, str]) -> Recipe:
    files = [f'data.src=["{texts["cs"]}", "{texts["de"]}"]', f'data.tgt=["{texts["en"]}", "{texts["en"]}"]']
    codes = ['data.src_lang=["cs", "de"]', "data.tgt_lang=en", "data.add_language=cs", "data.max_new_pieces=40"]
    return Recipe.load("default", [*STEPS, *files, *codes])


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [(), ("data.joint_vocab=false", "model.tie_embeddings=none", "model.output_bias=true")],
    ids=["one vocabulary", "two"],
)
def test_what_it_knew_stays_and_the_rest_begins_in_the_middle(
    texts: dict[str, str], tmp_path: Path, settings: tuple[str, ...]
) -> None:
    before = Translator.load(base(texts, tmp_path / "base", *settings), "cpu")
    run = Run(recipe(texts), None, init_from=tmp_path / "base", device="cpu", quiet=True)
    tokenizers = run.tokenizers
    own = before.tokenizers
    for side, old, lines in ((tokenizers.source, own.source, OLD), (tokenizers.target, own.target, OURS)):
        assert [side.encode(line) for line in lines] == [old.encode(line) for line in lines]
    lengths = [sum(len(side.encode(line)) for line in NEW) for side in (tokenizers.source, own.source)]
    assert lengths[0] < 0.7 * lengths[1]
    model, size = run.model.eval(), own.target.size
    source, target = torch.tensor([own.source.encode(OLD[0])]), torch.tensor([[own.target.bos_id]])
    with torch.no_grad():
        assert torch.equal(model(source, target)[..., :size], before.model(source, target))
        new = model.src_embedding.tokens.weight[own.source.size :]
    assert new.shape[0] > 5
    old_rows = before.model.src_embedding.tokens.weight
    assert (new.amin(0) >= old_rows.amin(0)).all()
    assert (new.amax(0) <= old_rows.amax(0)).all()


@pytest.mark.slow
def test_the_command(texts: dict[str, str], tmp_path: Path, pellucid: CommandLine) -> None:
    model = base(texts, tmp_path / "base")
    done = pellucid(*words(texts, model, tmp_path / "more"))
    assert done.status == 0, done.err
    assert re.search(r"the vocabulary gets \d+ pieces for cs\n", done.err)
    assert "forget" not in done.err
    assert "2 pairs of languages, de-en, cs-en" in pellucid("info", tmp_path / "more").out
    assert pellucid("translate", tmp_path / "more", "pes běží", "--src-lang", "cs").status == 0


@pytest.mark.parametrize("gone", [pytest.param(False, marks=pytest.mark.slow), True])
def test_it_resumes_exactly(texts: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool) -> None:
    model = base(texts, tmp_path / "base")
    begin = {"init_from": model, "device": "cpu", "quiet": True}
    train(recipe(texts), tmp_path / "unbroken", **begin)
    with monkeypatch.context() as patch:
        at_step(3, interrupt, patch)
        with pytest.raises(TrainingInterrupted):
            train(recipe(texts), tmp_path / "run", **begin)
    if gone:
        shutil.rmtree(model)
    train(recipe(texts), tmp_path / "run", **begin)
    found, wanted = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "unbroken"))
    assert found == wanted


@pytest.mark.slow
def test_what_cannot_be_added(texts: dict[str, str], tmp_path: Path, pellucid: CommandLine) -> None:
    model = base(texts, tmp_path / "base")
    command = words(texts, model, tmp_path / "more")
    at = command.index("--init-from")
    assert pellucid(*command[:at], *command[at + 2 :]).error == (
        "`--add-language` has cs, but no initial model is given"
    )
    unnamed = [*command]
    unnamed[unnamed.index("--add-language") + 1] = "pl"
    assert pellucid(*unnamed).error == "`add_language` has 'pl', which `src_lang` and `tgt_lang` do not have"
    assert pellucid(*command).status == 0
    alone = pellucid("train", "--out", tmp_path / "more", "--add-language", "pl")
    assert alone.error == "`add_language` has 'pl', which `src_lang` and `tgt_lang` do not have", "not left unheard"
    again = words(texts, tmp_path / "more", tmp_path / "again")
    assert pellucid(*again).error == f"`--add-language` has cs, which `{tmp_path / 'more'}` already has"
    other = base(texts, tmp_path / "unigram", "data.tokenizer=unigram", "data.vocab_size=300")
    assert pellucid(*words(texts, other, tmp_path / "no")).error == (
        "pieces of another language can only be appended to a bpe tokenizer, and this one is unigram"
    )
    assert not (tmp_path / "no").exists()


def opened(folder: Path, codes: tuple[str, ...] = (), kind: str = "marian", **fields: object) -> Path:
    """A folder of a model whose tokenizers are somebody else's, with random weights."""
    model = translator(folder / "theirs", kind, codes, **{"tie_embeddings": "all", "output_bias": True} | fields)
    model.save(folder / "opened")
    return folder / "opened"


@pytest.mark.slow
def test_an_opened_model_gets_tags_and_keeps_its_pieces(
    texts: dict[str, str], tmp_path: Path, pellucid: CommandLine
) -> None:
    (tmp_path / "theirs").mkdir()
    before = Translator.load(opened(tmp_path), "cpu")
    asked = Run(recipe(texts), None, init_from=tmp_path / "opened", device="cpu", quiet=True)
    own, size = before.tokenizers, before.tokenizers.source.size
    for side, old in ((asked.tokenizers.source, own.source), (asked.tokenizers.target, own.target)):
        assert [side.encode(line) for line in (*OLD, *NEW)] == [old.encode(line) for line in (*OLD, *NEW)]
        assert side.encode("<2en> der Hund") == [size, *old.encode("der Hund")]
        assert side.decode([size, *old.encode("der Hund")]) == "der Hund"
        assert side.encode("der <2en>")[-1] != size
        assert side.size == size + 1
    source, target = torch.tensor([[*own.source.encode(OLD[0]), before.config.eos_id]]), torch.tensor([[5, 6]])
    with torch.no_grad():
        logits = asked.model.eval()(source, target)
        torch.testing.assert_close(logits[..., :size], before.model(source, target), rtol=NETWORK, atol=NETWORK)
        row = asked.model.src_embedding.tokens.weight[size]
        spelled = before.model.src_embedding.tokens.weight[own.source.encode("<2en>")]
        torch.testing.assert_close(row, spelled.mean(0))
    done = pellucid(*words(texts, tmp_path / "opened", tmp_path / "more"))
    assert done.status == 0, done.err
    assert "the vocabulary gets <2en>, and the ids of its pieces stay the same\n" in done.err
    after = Translator.load(tmp_path / "more", "cpu")
    assert (after.languages, after.decode.source_prefix) == ({"en": size}, (size,))
    assert after.tokenizers.source.encode("<2en> pes") == [size, *own.source.encode("pes")]
    assert pellucid("translate", tmp_path / "more", "der Hund", "--src-lang", "cs").status == 0
    (tmp_path / "written").mkdir()
    save_tokenizer_files(after.tokenizers, tmp_path / "written", after.config, after.decode, marian=True)
    written = json.loads((tmp_path / "written" / "tokenizer.json").read_text(encoding="utf-8"))
    assert [token["content"] for token in written["added_tokens"] if token["id"] == size] == ["<2en>"]
    assert [piece.special for piece in parse_pieces(after.tokenizers.source, [size, 5])] == [True, False]
    third = words(texts | {"cs": texts["de"]}, tmp_path / "more", tmp_path / "third")
    third[third.index("--add-language") + 1 : third.index("--add-language") + 2] = ["pl"]
    third[third.index("--src-lang") + 1] = "pl"
    assert pellucid(*third).status == 0, "and a further source needs no tag more"
    assert Translator.load(tmp_path / "third", "cpu").tokenizers.source.size == size + 1


@pytest.mark.slow
def test_an_opened_model_with_codes_of_its_own_gets_no_tags(
    texts: dict[str, str], tmp_path: Path, pellucid: CommandLine
) -> None:
    for name, codes, kind in (("opus", ("fra", "por"), "marian"), ("m2m", (), "m2m_100")):
        (tmp_path / name / "theirs").mkdir(parents=True)
        model = opened(tmp_path / name, codes, kind)
        command = ["xx" if word == "cs" else word for word in words(texts, model, tmp_path / "more")]
        refused = pellucid(*command)
        assert re.search(r"has built-in codes for \d+ languages, so no tag can be added", refused.error), refused.err
    (tmp_path / "theirs").mkdir()
    wider = opened(tmp_path, src_vocab_size=400, tgt_vocab_size=400)
    assert "a tag would not get the next id" in pellucid(*words(texts, wider, tmp_path / "more")).error


@pytest.mark.slow
def test_a_model_of_several_gets_a_tag_more(tmp_path: Path) -> None:
    kind = ("data.tokenizer=bpe", "data.vocab_size=300", "train.steps=2", "train.average=1")
    train(recipe_of(tmp_path, *kind), tmp_path / "base", device="cpu", quiet=True)
    before = Translator.load(tmp_path / "base", "cpu", target_language="low")
    more = recipe_of(tmp_path, *kind[2:], 'data.tgt_lang=["low", "back", "new"]', "data.add_language=new")
    train(more, tmp_path / "more", init_from=tmp_path / "base", device="cpu", quiet=True)
    after = Translator.load(tmp_path / "more", "cpu", target_language="new")
    assert list(after.languages) == ["low", "back", "new"]
    assert after.decode.source_prefix == tuple(after.tokenizers.source.encode("<2new>"))
    assert after.decode.source_prefix[-1] >= before.tokenizers.source.size
    assert [line["step"] for line in metrics(tmp_path / "more") if line["event"] == "validation"]
