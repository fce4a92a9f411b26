"""The benchmark of time budgets: what the command is asked with, and what is written down of it."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.slow


def test_a_budget_that_teachers_share_on_the_first_pairs(
    data: Path, script: Callable[[str], ModuleType], run_script: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def command(*args: object) -> str:
        words = [str(arg) for arg in args]
        asked.append(words)
        if words[0] == "train":
            run = Path(words[words.index("--out") + 1])
            run.mkdir(parents=True)
            (run / "plan.json").write_text('{"plan": ["plan"], "expected_bleu": null}', encoding="utf-8")
            (run / "result.json").write_text('{"steps": 9, "tokens": 99, "valid_bleu": 1.5}', encoding="utf-8")
        return json.dumps({"bleu": 2.5})

    monkeypatch.setattr(script("time_budget"), "pellucid", command)
    options = ["--data-dir", data, "--out", data / "out", "--budget", "5m", "--seed", 2]
    share = ["--pairs", 12, "--teachers", 3, "--back-teachers", 2]
    result, _ = run_script("time_budget", *options, *share)
    train, *scored = asked
    assert train[train.index("--teachers") :] == [
        "--teachers", "3", "--back-teachers", "2", "--set", "train.seed=2",
    ]  # fmt: skip
    texts = {name: Path(train[train.index(name) + 1]) for name in ("--src", "--tgt", "--valid-src", "--valid-tgt")}
    assert [len(texts[name].read_text(encoding="utf-8").splitlines()) for name in ("--src", "--tgt")] == [12, 12]
    assert [texts[name].name for name in ("--valid-src", "--valid-tgt")] == ["val.de.gz", "val.en.gz"]
    assert [Path(words[words.index("--src") + 1]).name for words in scored] == ["val.de.gz", "test_2016_flickr.de.gz"]
    (run,) = result["runs"]
    assert (run["steps"], run["validation"], run["test"]) == (9, {"bleu": 2.5}, {"bleu": 2.5})
    assert (data / "out/5m-2-pairs-12-teachers-3-back-teachers-2").is_dir()
