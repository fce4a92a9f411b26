"""`pellucid.check`: names, conventions between parts, errors and time of the learner's code, the table of mistakes."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pellucid
from pellucid.judge import attention as attention_axes
from pellucid.judge import heads, layers, loss, masks, mistakes, norm, positions, schedule, search
from pellucid.judge.check import check, check_parts
from pellucid.judge.exercises import EXERCISES, find_parts
from pellucid.judge.mistakes import MISTAKES
from pellucid.weights.tutorials.layouts import LAYOUTS
from tests.unit.judge.planting import causal_mask, make_file


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Right, with True = may attend."""
    return (q @ k.mT / q.size(-1) ** 0.5).masked_fill(~mask, -torch.inf).softmax(-1) @ v


def hide(n: int) -> Tensor:
    """A mask whose True is hidden."""
    return torch.ones(n, n).triu(1).bool()


def test_the_name_is_the_objects_own_or_given() -> None:
    assert [finding.name for finding in check(attention)] == ["attention"]
    assert check(lambda a, b, c, d: attention(a, b, c, d), "attention")[0].right
    assert pellucid.check is check


@pytest.mark.parametrize(
    ("obj", "name", "message"),
    [
        (attention, "atention", "`atention` is no exercise; did you mean `attention`?"),
        (hide, None, "`hide` is no exercise"),
        (3, "attention", "`obj` (`3`) must be a function, a class or a module"),
    ],
)
def test_what_is_no_exercise_is_refused(obj: Any, name: str | None, message: str) -> None:
    with pytest.raises(pellucid.ConfigError) as caught:
        check(obj, name)
    assert str(caught.value).startswith(message)
    assert caught.value.hint


def test_parts_are_found_by_name_and_by_alias_where_the_file_defines_them() -> None:
    module = make_file(subsequent_mask=causal_mask, attention=attention, MultiheadAttention=nn.MultiheadAttention)
    causal = make_file(causal_mask=hide, subsequent_mask=causal_mask)
    assert find_parts(vars(module), causal_mask.__module__) == {"causal_mask": causal_mask, "attention": attention}
    assert find_parts(vars(module), attention.__module__) == {"attention": attention}
    assert find_parts(vars(causal), causal_mask.__module__)["causal_mask"] is hide


def test_masks_fix_what_true_means() -> None:
    right = check(make_file(causal_mask=causal_mask, attention=attention))
    assert [(each.name, each.right, each.mask) for each in right] == [
        ("causal_mask", True, "keep"),
        ("attention", True, "keep"),
    ]
    assert check(attention)[0].sentence == "it reads a mask as True = may attend"
    wrong = check(make_file(causal_mask=hide, attention=attention), "attention")
    assert [(each.name, each.mistakes) for each in wrong] == [("attention", ("mask-inverted",))]


def test_two_masks_that_disagree() -> None:
    file = make_file(causal_mask=hide, padding_mask=lambda ids, pad_id: (ids != pad_id)[:, None, None])
    assert [each.mistakes for each in check(file)] == [(), ("masks-disagree",)]


def test_nan_in_a_mask() -> None:
    assert check(lambda n: torch.ones(n, n).tril() * -torch.inf, "causal_mask")[0].mistakes == ("causal-nan",)


def test_positions_added_along_the_batch_of_a_file_whose_attention_has_the_batch_first() -> None:
    class PositionalEncoding(nn.Module):
        def __init__(self, d_model: int, max_len: int) -> None:
            super().__init__()
            self.table = positions.compute_table({})

        def forward(self, x: Tensor) -> Tensor:
            return x + self.table[: x.size(0), None]

    alone = check(PositionalEncoding)
    together = check(make_file(MultiHeadAttention=pellucid.MultiHeadAttention, positional_encoding=PositionalEncoding))
    assert alone[0].right
    assert [each.mistakes for each in together] == [(), ("positions-on-batch",)]


def test_a_norm_without_eps_and_without_parameters() -> None:
    class LayerNorm(nn.Module):
        def __init__(self, features: int) -> None:
            super().__init__()

        def forward(self, x: Tensor) -> Tensor:
            return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=0)

    assert check(LayerNorm)[0].mistakes == ("norm-no-gamma-beta", "norm-no-eps")


def test_a_loss_that_calls_the_model() -> None:
    def compute(given: slice, wanted: slice) -> Any:
        def loss(model: Any, src: Tensor, tgt: Tensor, pad_id: int) -> Tensor:
            logits = model(src, tgt[:, given])
            return nn.functional.cross_entropy(logits.flatten(0, 1), tgt[:, wanted].flatten(), ignore_index=pad_id)

        return check(loss)[0].mistakes

    assert compute(slice(None, -1), slice(1, None)) == ()
    assert compute(slice(None), slice(None)) == ("loss-not-shifted",)
    assert compute(slice(1, None), slice(None, -1)) == ("loss-shift-reversed",)


def test_a_beam_that_ignores_its_length_penalty() -> None:
    def beam(step: Any, bos: int, eos: int, beam_size: int, max_length: int, length_penalty: float) -> list[int]:
        return search.search_beam(step, {}, norm="none")

    def beam_search(step: Any, bos: int, eos: int, beam_size: int, max_length: int, length_penalty: float) -> list[int]:
        return search.search_beam(step, {}, norm="length")

    assert check(beam)[0].mistakes == ("beam-length-ignored",)
    assert check(beam_search)[0].right


@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_a_search_without_an_end(name: str) -> None:
    def search_on(step: Any, bos: int, eos: int) -> list[int]:
        ids = [bos]
        while True:
            ids.append(int(step(ids).argmax()))

    assert check(search_on, name)[0].mistakes == (f"{name}-never-ends",)


def test_projections_that_are_missing_shared_or_swapped() -> None:
    class Mha(nn.Module):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__()
            self.maps = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
            self.num_heads = num_heads

        def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
            projected = self.project(q, k, v)
            q, k, v = (each.view(*each.shape[:2], self.num_heads, -1).transpose(1, 2) for each in projected)
            return self.end(attention(q, k, v, mask).transpose(1, 2).flatten(2))

        def project(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return self.maps[0](q), self.maps[1](k), self.maps[2](v)

        def end(self, joined: Tensor) -> Tensor:
            return self.maps[3](joined)

    def vary(**methods: Any) -> set[str]:
        return set(check(type("MultiHeadAttention", (Mha,), methods))[0].mistakes)

    assert vary() == set()
    assert vary(project=lambda self, q, k, v: (q, k, v)) == {"unused-part", "no-projection"}
    assert vary(project=lambda self, q, k, v: (self.maps[0](q), k, self.maps[2](v))) == {
        "unused-part",
        "projection-missing",
    }
    assert vary(project=lambda self, q, k, v: (self.maps[0](q), self.maps[1](v), self.maps[2](k))) == {
        "keys-values-swapped"
    }
    assert vary(project=lambda self, q, k, v: (self.maps[0](k), self.maps[1](q), self.maps[2](v))) == {
        "queries-keys-swapped"
    }
    assert vary(project=lambda self, q, k, v: (self.maps[0](q), self.maps[1](q), self.maps[2](q))) == {
        "cross-attends-to-itself"
    }
    shared = vary(project=lambda self, q, k, v: (self.maps[0](q), self.maps[1](k), self.maps[1](v)))
    assert shared == {"unused-part", "two-share-a-projection"}
    assert vary(end=lambda self, joined: joined) == {"unused-part", "no-output-projection"}


def test_matrices_that_are_no_linear_modules() -> None:
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__()
            self.W_q, self.W_k, self.W_v, self.W_o = (nn.Parameter(torch.randn(d_model, d_model)) for _ in range(4))
            self.bias = nn.Parameter(torch.zeros(d_model))
            self.heads = num_heads

        def forward(self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
            memory = x if memory is None else memory
            q, k, v = x @ self.W_q + self.bias, memory @ self.W_k, torch.einsum("bmd,de->bme", memory, self.W_v)
            q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (q, k, v))
            mask = torch.ones(1, 1, 1, 1).bool() if mask is None else mask
            return attention(q, k, v, mask).transpose(1, 2).flatten(2) @ self.W_o

    assert check(MultiHeadAttention)[0].right


def test_an_error_has_its_line() -> None:
    def broken(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return q @ k

    (finding,) = check(broken, "attention")
    line = broken.__code__.co_firstlineno + 1
    assert finding.mistakes == ("raises",)
    assert re.fullmatch(rf"it raises RuntimeError: .* \(test_check\.py, line {line}\)", finding.sentence)
    assert finding.list_lines() == [f"wrong attention: raises: {finding.sentence}"]


def test_a_loop_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def spin(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        while True:
            try:
                pass
            except Exception:
                return q

    monkeypatch.setattr("pellucid.judge.check.SECONDS", 0.2)
    (finding,) = check(spin, "attention")
    assert finding.mistakes == ("out-of-time",)
    assert "0.2 seconds" in finding.sentence


def test_what_the_judge_does_not_know() -> None:
    (finding,) = check(lambda q, k, v, mask: attention(1.3 * q, k, v, mask), "attention")
    assert finding.is_unknown
    assert finding.list_lines() == ["unknown attention"]
    assert re.fullmatch(r"the judge does not know: \[0, 0, 0, 0\]: -?[\d.]+ != -?[\d.]+", finding.sentence)
    asked = check(type("MultiHeadAttention", (nn.Module,), {"__init__": lambda self, a, b, colour: None}))[0]
    assert asked.sentence == "the judge does not know: `colour`?"
    bare = check(type("MultiHeadAttention", (nn.Module,), {"__init__": lambda self: None}))[0]
    assert bare.is_unknown
    assert "AttributeError" in bare.sentence


def test_the_default_dtype_and_the_random_numbers_are_restored() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    check(attention)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_default_dtype() == torch.float32


def test_parts_are_judged_in_the_order_of_the_exercises() -> None:
    begun: list[str] = []
    found = check_parts({"attention": attention, "causal_mask": causal_mask}, begin=begun.append)
    assert [each.name for each in found] == begun == ["causal_mask", "attention"]


# The table.

AXES = [
    attention_axes.AXES,
    heads.AXES,
    masks.CAUSAL_AXES,
    masks.PADDING_AXES,
    positions.AXES,
    norm.AXES,
    layers.ENCODER_AXES,
    layers.DECODER_AXES,
    loss.AXES,
    schedule.AXES,
    search.GREEDY_AXES,
    search.BEAM_AXES,
]


def test_each_wrong_choice_has_its_row_in_both_languages() -> None:
    ids = {id for axes in AXES for values in axes.values() for id in values.values()}
    assert ids <= set(MISTAKES)
    assert len(ids) >= 60
    assert len(MISTAKES) == len(mistakes._ROWS)
    for row in MISTAKES.values():
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", row.id)
        assert re.search("[가-힣]", row.korean)
        assert not re.search("[가-힣]", row.english)
        assert ("{detail}" in row.english) == ("{detail}" in row.korean)
        assert set(row.posts) <= set(LAYOUTS)


def test_sentences_in_korean() -> None:
    finding = pellucid.Finding("attention", False, ("unused-part",), ("fc_o",))
    assert finding.describe("ko") == "한 번도 쓰이지 않아 학습되지 않습니다: fc_o"
    assert finding.list_lines("ko") == ["wrong attention: unused-part: 한 번도 쓰이지 않아 학습되지 않습니다: fc_o"]
    assert next(iter(EXERCISES)) == "causal_mask"
