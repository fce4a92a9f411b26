"""The answers of the course with a mistake of a learner in them: each has the name that its lesson promises."""

from pathlib import Path
from typing import Any

import pytest

from pellucid.judge.check import check
from tests.unit.judge.planting import make_file

ANSWERS = Path(__file__).parents[3] / "docs" / "course" / "answers.py"


@pytest.fixture(autouse=True)
def _without_a_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not change a judgement."""
    monkeypatch.setattr("pellucid.judge.check.SECONDS", 300.0)


def plant(exercise: str, *changes: tuple[str, str]) -> tuple[str, ...]:
    """The mistakes of an exercise in the answers with these changes, each at its first place."""
    code = ANSWERS.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in code
        code = code.replace(old, new, 1)
    names: dict[str, Any] = {"__name__": "learner"}
    exec(compile(code, "mine.py", "exec"), names)
    (finding,) = check(make_file(**names), exercise)
    return finding.mistakes


CONTINUED = "continued = [hypothesis for hypothesis in hypotheses if hypothesis[1][-1] == eos]"


@pytest.mark.parametrize(
    ("exercise", "mistakes", "changes"),
    [
        ("attention", ("scale-no-root",), [("/ math.sqrt(q.size(-1))", "/ q.size(-1)")]),
        ("attention", ("mask-inverted",), [("masked_fill(~mask.bool()", "masked_fill(mask.bool()")]),
        ("attention", ("softmax-over-queries",), [("scores.softmax(dim=-1)", "scores.softmax(dim=-2)")]),
        ("attention", ("softmax-over-heads",), [("scores.softmax(dim=-1)", "scores.softmax(dim=1)")]),
        ("attention", ("weights-returned",), [("scores.softmax(dim=-1) @ v", "scores.softmax(dim=-1)")]),
        ("causal_mask", ("causal-reversed",), [(".tril()", ".triu()")]),
        ("causal_mask", ("causal-diagonal-hidden",), [(".tril()", ".tril(-1)")]),
        ("padding_mask", ("padding-of-queries",), [("[:, None, None, :]", "[:, None, :, None]")]),
        (
            "MultiHeadAttention",
            ("split-without-transpose",),
            [
                (
                    "x.view(x.size(0), x.size(1), self.num_heads, -1).transpose(1, 2)",
                    "x.view(x.size(0), self.num_heads, x.size(1), -1)",
                )
            ],
        ),
        (
            "MultiHeadAttention",
            ("join-without-transpose",),
            [(".transpose(1, 2).flatten(2))", ".reshape(*x.shape))")],
        ),
        ("MultiHeadAttention", ("softmax-over-queries",), [("scores.softmax(dim=-1)", "scores.softmax(dim=-2)")]),
        ("MultiHeadAttention", ("softmax-over-heads",), [("scores.softmax(dim=-1)", "scores.softmax(dim=1)")]),
        ("MultiHeadAttention", ("cross-attends-to-itself",), [("x if memory is None else memory", "x")]),
        ("positional_encoding", ("positions-multiplied",), [("position / 10000", "position * 10000")]),
        (
            "positional_encoding",
            ("property-positions-length",),
            [("[:, None]\n    angle", "[:, None] / length\n    angle")],
        ),
        ("LayerNorm", ("norm-sample-deviation",), [("unbiased=False", "unbiased=True")]),
        (
            "EncoderLayer",
            ("unused-part", "norm-shared"),
            [("self.feed_forward(self.feed_forward_norm(x))", "self.feed_forward(self.attention_norm(x))")],
        ),
        (
            "EncoderLayer",
            ("returns-nothing",),
            [("        return x + self.feed_forward(", "        x + self.feed_forward(")],
        ),
        (
            "EncoderLayer",
            ("residual-of-normed",),
            [
                (
                    "x = x + self.attention(self.attention_norm(x), mask=mask)",
                    "x = self.attention_norm(x)\n        x = x + self.attention(x, mask=mask)",
                )
            ],
        ),
        ("DecoderLayer", ("cross-mask-causal",), [("memory, mask=src_mask", "memory, mask=tgt_mask")]),
        ("loss", ("loss-counts-pads",), [("ignore_index=pad_id, ", "")]),
        ("loss", ("smoothing-ignored",), [(", label_smoothing=smoothing", "")]),
        (
            "loss",
            ("property-loss-pads", "property-loss-order"),
            [("logits.flatten(0, 1)", "logits.transpose(0, 1).flatten(0, 1)")],
        ),
        ("learning_rate", ("rate-max", "rate-step-zero"), [("* min(step", "* max(step")]),
        ("greedy", ("greedy-least-likely",), [("argmax", "argmin")]),
        ("greedy", ("greedy-ignores-end",), [(" and ids[-1] != eos:", ":")]),
        ("greedy", ("property-search-length",), [("len(ids) < max_length and ids", "ids")]),
        pytest.param(
            "beam", ("beam-last-score",), [("(score + value, [*ids", "(value, [*ids")], marks=pytest.mark.slow
        ),
        pytest.param("beam", ("beam-raw-logits",), [(".log_softmax(dim=-1).topk", ".topk")], marks=pytest.mark.slow),
        pytest.param(
            "beam",
            ("beam-ended-continue",),
            [
                (CONTINUED, "continued = []"),
                ("            if ids[-1] != eos:", "            if True:"),
                ("any(ids[-1] != eos for _, ids in hypotheses) and ", ""),
            ],
            marks=pytest.mark.slow,
        ),
        pytest.param("beam", ("property-beam-choice",), [(CONTINUED, "continued = []")], marks=pytest.mark.slow),
        pytest.param(
            "beam",
            ("beam-length-ignored",),
            [("beam_size, max_length)", "beam_size, max_length, length_penalty)")],
            marks=pytest.mark.slow,
        ),
        pytest.param("beam", ("property-beam-size",), [("[0])[:beam_size]", "[0])")], marks=pytest.mark.slow),
    ],
)
def test_a_mistake_in_an_answer(exercise: str, mistakes: tuple[str, ...], changes: list[tuple[str, str]]) -> None:
    assert plant(exercise, *changes) == mistakes


@pytest.mark.slow
def test_the_answers_are_right() -> None:
    names: dict[str, Any] = {"__name__": "learner"}
    exec(compile(ANSWERS.read_text(encoding="utf-8"), "mine.py", "exec"), names)
    found = check(make_file(**names))
    assert len(found) == 12
    assert all(finding.right for finding in found)
