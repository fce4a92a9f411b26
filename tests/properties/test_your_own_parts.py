"""The eight things of docs/guides/your-own-parts.md, each to the end: the guide's own code, with public names alone.

Each script trains on a toy task, is killed in the middle, and goes on to the bytes of an undisturbed run; its
model is refused without what is its own, opened by the line in the message, translates, is traced, and saved again.
Deaths between the files of a checkpoint, and all eight in one script, are in test_resume_own.
"""

import os
import re
import signal
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from tests.docs.pages import ROOT, Page
from tests.processes import run_python
from tests.rounding import NETWORK
from tests.toy_task import SMALL, metrics, reversed_letters, write_pairs

GUIDE = Page(ROOT / "docs" / "guides" / "your-own-parts.md").fences("python")
SETTINGS = (*SMALL, "train.steps=7", "train.save_every=3", "train.validate_every=4")
DEATH = 5
"""The step in which a script dies, after checkpoints of the steps 3 and 4."""
LINES = ["a b c", "d", "h g f e d c"]


@dataclass(frozen=True)
class Case:
    """A script: code of the guide, found by a line of it, and what follows there or here."""

    line: str = ""
    """Of the guide's code; empty: there is none."""
    more: str = ""
    """What comes after it; of code that makes no run, the run."""
    without_weights: tuple[str, ...] = ()
    """The kinds of attention of which a trace has no weights."""
    search: str = ""
    """A search of the script's own, by an expression."""

    @property
    def script(self) -> str:
        """All of it."""
        codes = [code for code in GUIDE if self.line in code] if self.line else [""]
        assert len(codes) == 1, f"the guide has {len(codes)} pieces of code with {self.line!r}"
        return codes[0] + textwrap.dedent(self.more)


def with_parts(parts: str) -> str:
    return f"""
        parts = pellucid.Parts({parts})
        run = pellucid.Run("pellucid-demo/run/recipe.toml", "run", parts=parts, device="cpu", quiet=True)
        run.train()
        """


ALL = ("encoder.self", "decoder.self", "cross")
CASES = {
    # 1. Attention.
    "windowed attention": Case("class Windowed", with_parts("attention=Windowed.from_config")),
    "linear attention": Case("class LinearAttention", with_parts("attention=LinearAttention"), ALL),
    "mixer": Case("class Averaging", with_parts("attention=Averaging"), ALL),
    # 2. Positions.
    "ALiBi": Case("class Alibi", with_parts("positions=Alibi")),
    # 3. A layer and a norm, a feed-forward network.
    "layer and norm": Case("class Forgetting", with_parts("decoder_layer=layer, norm=ScaleNorm"), ("decoder.self",)),
    "feed-forward": Case("class Squared"),
    # 4. to 7.
    "loss": Case("def focal"),
    "loss with parameters": Case(
        more="""
        import torch
        import pellucid

        class Balanced(torch.nn.Module):
            "Cross-entropy and R-Drop, weighed by what is learned; counts its calls."

            def __init__(self):
                super().__init__()
                self.balance = torch.nn.Parameter(torch.zeros(2))
                self.register_buffer("calls", torch.tensor(0))

            def forward(self, model, batch):
                self.calls += 1
                plain, dropped = pellucid.CrossEntropy(0.1)(model, batch), pellucid.RDrop(1.0)(model, batch)
                minimised = plain.minimised / self.calls.sqrt() * self.balance[0].exp()
                minimised = minimised + dropped.minimised * self.balance[1].exp()
                return pellucid.Losses(minimised - batch.num_tokens * self.balance.sum(), plain.reported)

        run = pellucid.Run("pellucid-demo/run/recipe.toml", "run", device="cpu", quiet=True)
        run.loss = Balanced()
        run.train()
        """,
    ),
    "optimizer and schedule": Case("torch.optim.SGD"),
    "optimizer by a function": Case(
        more="""
        import torch
        import pellucid

        run = pellucid.Run("pellucid-demo/run/recipe.toml", "run", device="cpu", quiet=True)
        run.optimizer = lambda model: torch.optim.NAdam(model.parameters(), weight_decay=0.1)
        run.train()
        """,
    ),
    "callbacks": Case("def slow_down"),
    "callbacks that stop": Case(
        more="""
        import pellucid

        run = pellucid.Run("pellucid-demo/run/recipe.toml", "run", device="cpu", quiet=True)
        run.on_step(lambda event: {"odd": event.step % 2})
        run.on_validation(lambda event: event.scale_rate(0.25))
        run.on_checkpoint(lambda event: {"kept": len(event.folder.name)})
        run.on_end(lambda event: {"ended": event.loss})

        @run.on_step
        def enough(event):
            if event.step == 6:
                event.stop()

        run.train()
        assert [stored["step"] for stored in lines() if "ended" in stored] == [6]
        assert [stored["odd"] for stored in lines() if "odd" in stored] == [1, 0] * 3
        """,
    ),
    "data": Case("class Sums"),
    "data set": Case(
        more="""
        import pellucid
        from tests.toy_task import reversed_letters

        class Dataset:
            "Behaves as a data set of Hugging Face's: rows are tables, made anew each time."

            def __init__(self, pairs):
                self.pairs, self.features = pairs, {"translation": None}

            def __len__(self):
                return len(self.pairs)

            def __iter__(self):
                return ({"id": str(i), "translation": {"en": t, "de": s}} for i, (s, t) in enumerate(self.pairs))

        sets = {"train": Dataset(reversed_letters(60)), "validation": Dataset(reversed_letters(9, seed=2))}
        run = pellucid.Run("pellucid-demo/run/recipe.toml", "run", data=sets, device="cpu", quiet=True)
        assert run.data.valid[0] == reversed_letters(9, seed=2)[0]
        run.train()
        """,
    ),
    # 8. A tokenizer and a search.
    "tokenizer": Case("class Bytes"),
    "search": Case(
        "def diverse",
        """
        run = pellucid.Run("pellucid-demo/run/recipe.toml", "run", device="cpu", quiet=True)
        run.train()
        """,
        search="diverse(5.0)",
    ),
}
FAST = "windowed attention", "optimizer and schedule", "callbacks that stop"

DYING = """
import os, runpy, signal, sys
import torch
import pellucid.run.run

torch.cuda.is_available = torch.backends.mps.is_available = lambda: False
train = pellucid.Run.train

def dies(event):
    if event.step == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

def dying_train(run):
    run.on_step(dies)
    return train(run)

pellucid.Run.train = dying_train
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def kill(script: Path, step: int) -> subprocess.CompletedProcess[str]:
    """Runs a script in its folder up to a step, in which it is killed; returns how it ended."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return run_python("-c", DYING, script, step, cwd=script.parent, env=os.environ | {"PYTHONPATH": path})


@pytest.fixture(autouse=True)
def _on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the same sums come to the same bits."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


def prepare(folder: Path) -> Path:
    """Makes a folder as `pellucid demo` leaves it, with a toy in place of the dates; returns it."""
    (folder / "pellucid-demo" / "run").mkdir(parents=True)
    src, tgt = write_pairs(folder / "pellucid-demo", reversed_letters(60))
    texts = [f"data.{side}={Path(path).relative_to(folder).as_posix()}" for side, path in (("src", src), ("tgt", tgt))]
    recipe = pellucid.Recipe.load("default", [*SETTINGS, *texts])
    (folder / "pellucid-demo" / "run" / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    return folder


def go(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Runs a script in a folder, here; returns what it has made."""
    monkeypatch.chdir(folder)
    made: dict[str, Any] = {"__name__": "__main__", "lines": lambda: metrics(made["run"].folder.path)}
    torch.manual_seed(0)
    exec(compile(case.script, "script.py", "exec"), made)
    return made


def opened(made: dict[str, Any]) -> pellucid.Translator:
    """Opens the model of a script: refused without what is its own, and opened by the line that the message has."""
    folder, parts, tokenizers = made["run"].folder.path, made.get("parts"), made.get("Bytes")
    if parts is None and tokenizers is None:
        return pellucid.Translator.load(folder, "cpu")
    with pytest.raises(pellucid.CheckpointError) as caught:
        pellucid.Translator.load(folder, "cpu")
    assert "<locals>" not in str(caught.value) + caught.value.hint
    line = re.fullmatch(r"from Python: import pellucid; (pellucid\.Translator\.load\(.*\))", caught.value.hint)
    assert line, caught.value.hint
    found = eval(line[1], made)
    assert isinstance(found, pellucid.Translator)
    return found


def train(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Trains undisturbed, and killed and gone on with; returns what the latter made, which is the same to the byte."""
    unbroken = go(case, prepare(folder / "unbroken"), monkeypatch)
    broken = prepare(folder / "broken")
    (broken / "script.py").write_text(case.script, encoding="utf-8")
    run = unbroken["run"].folder.path
    expected, found = (folder / name / run for name in ("unbroken", "broken"))
    ended = kill(broken / "script.py", DEATH)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert sorted(os.listdir(found / "checkpoints")) == ["step-00000003", "step-00000004"]
    resumed = go(case, broken, monkeypatch)
    for file in ("model.safetensors", "pellucid.json", "README.md", "recipe.toml", "corpus.json"):
        assert (found / file).read_bytes() == (expected / file).read_bytes(), file
    assert metrics(found) == metrics(expected)
    assert resumed["run"].train().already_finished
    return resumed


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in CASES])
def test_to_the_end(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    resumed = train(case, tmp_path, monkeypatch)
    translator = opened(resumed)
    trained = pellucid.Translator(resumed["run"].model, resumed["run"].tokenizers, translator.decode)
    scores = pytest.approx(trained.score(LINES, LINES[::-1]), rel=NETWORK)  # an engine may be compiled
    assert translator.score(LINES, LINES[::-1]) == scores
    options = {"beam_size": 3, "n_best": 3, "search": eval(case.search, resumed) if case.search else None}
    translations = translator.translate(LINES, **options)
    assert [t.text for t in translations] == [t.text for t in trained.translate(LINES, **options)]
    assert all(len({tuple(one.tokens) for one in t.alternatives}) == 3 for t in translations)

    trace = translator.trace("a b c d", "d c b a")
    layers = {"encoder.self": (0,), "decoder.self": (0,), "cross": (0,)}
    assert trace.without_weights == {kind: layers[kind] for kind in case.without_weights}
    assert set(trace) == set(ALL) - set(case.without_weights)
    assert trace.faithfulness < 1e-5
    for kind in case.without_weights:
        assert f"{kind}: no weights of layer 0" in repr(trace)
        with pytest.raises(pellucid.DataError, match=f"no weights of `{kind}`: none of its layers called attention"):
            trace[kind]
    trace.save("x.trace")
    assert pellucid.load_trace("x.trace").without_weights == trace.without_weights

    translator.save("saved")
    own = {"parts": resumed.get("parts")} | ({"tokenizer": resumed["Bytes"]()} if "Bytes" in resumed else {})
    again = pellucid.Translator.load("saved", "cpu", **own)
    assert again.score(LINES, LINES[::-1]) == scores
    weights = [folder / "model.safetensors" for folder in (Path("saved"), resumed["run"].folder.path)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


OTHER_TASKS = """
import pellucid
from tests.other_tasks import CLASSIFY, GENERATE, labelled_letters
from tests.properties.test_your_own_parts import SETTINGS

parts = pellucid.Parts({parts})
run = pellucid.Run(
    "default", "run", data={data}, parts=parts, overrides=[*SETTINGS, *{task}], device="cpu", quiet=True
)
run.optimizer = lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
run.train()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "parts", "without_weights"),
    [
        ("class LinearAttention", "attention=LinearAttention", {"decoder.self": (0,)}),
        ("class Windowed", "attention=Windowed.from_config", {}),
        ("class Alibi", "positions=Alibi", {}),
    ],
)
def test_a_language_model_to_the_end(
    line: str, parts: str, without_weights: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = "[source for source, _ in labelled_letters(80)]"
    script = OTHER_TASKS.format(parts=parts, data=data, task="GENERATE")
    made = train(Case(line, script), tmp_path, monkeypatch)
    with pytest.raises(pellucid.CheckpointError) as caught:
        pellucid.LanguageModel.load("run", "cpu")
    model = eval(caught.value.hint.removeprefix("from Python: import pellucid; "), made)
    trained = pellucid.LanguageModel(made["run"].model, made["run"].tokenizers, model.decode)
    for options in ({}, {"beam_size": 3}, {"seed": 5}, {"search": pellucid.beam_search, "beam_size": 2}):
        texts, expected = (each.generate(["a b", "c"], max_new_tokens=9, **options) for each in (model, trained))
        assert [one.score for one in texts] == [one.score for one in expected]
    assert model.trace("a b c").without_weights == without_weights


@pytest.mark.slow
def test_a_classifier_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = OTHER_TASKS.format(parts="attention=Averaging", data="labelled_letters(80)", task="CLASSIFY")
    made = train(Case("class Averaging", script), tmp_path, monkeypatch)
    with pytest.raises(pellucid.CheckpointError) as caught:
        pellucid.Classifier.load("run", "cpu")
    model = eval(caught.value.hint.removeprefix("from Python: import pellucid; "), made)
    trained = pellucid.Classifier(made["run"].model, made["run"].tokenizers, ("early", "late"))
    found, expected = (each.classify(LINES) for each in (model, trained))
    assert [one.probabilities for one in found] == [one.probabilities for one in expected]
    assert model.trace("a b c").without_weights == {"encoder.self": (0,)}
