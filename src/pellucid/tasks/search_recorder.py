"""Records a search: every continuation that it considers, and the attention of each live hypothesis at each step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from pellucid.config import DecodeConfig
from pellucid.decoding.hypothesis import Continuation, Hypothesis
from pellucid.model.transformer import Transformer
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.recorder import (
    AttentionCall,
    AttentionRecord,
    build_attention_trace,
    largest_difference,
    record_attention,
)
from pellucid.tracing.search import SearchNode, SearchTrace
from pellucid.tracing.tokens import Token

Label = Callable[[Sequence[int]], Sequence[Token]]
"""The tokens of a sequence of ids."""

CONTEXT = 3  # preceding tokens that may be part of the same character


@dataclass(frozen=True)
class _SearchNode:
    """A SearchNode whose token is an id."""

    parent: int | None
    token: int
    log_prob: float
    score: float
    ranked_by: float
    status: str
    row: int
    length: int
    """The number of tokens after the start token."""


class SearchRecorder:
    """Records the attentions and the steps of one sentence's search.

        recorder = SearchRecorder(model, config)
        with observe_model(model, recorder.observe) as copied:
            found = search(copied, [ids], config, watch=recorder.watch)[0]

    A step has one row per live hypothesis; each token of a forced prefix counts as a step of one hypothesis.
    """

    def __init__(self, model: Transformer, config: DecodeConfig) -> None:
        self._config = config
        self._calls: dict[int, list[AttentionRecord]] = {}  # per layer, one call per step
        self._rows: list[int] = []  # the number of live hypotheses at each step
        self._nodes = [_SearchNode(None, model.config.bos_id, 0.0, 0.0, 0.0, "live", 0, 0)]
        for token in config.target_prefix:
            self._add_forced(token)
        self._live = [len(self._nodes) - 1]
        self._readers = list(range(len(self._nodes)))  # the node of the last token read, per row

    def _add_forced(self, token: int) -> None:
        length = len(self._nodes)
        self._nodes.append(_SearchNode(length - 1, token, 0.0, 0.0, 0.0, "live", length - 1, length))

    def observe(self, call: AttentionCall) -> None:
        """Records the cross-attention of each step."""
        if call.name == "cross":
            calls = self._calls.setdefault(call.layer, [])
            calls.append(record_attention(call, with_values=not calls))

    def watch(self, weighed: list[Continuation]) -> None:
        """Adds the continuations of a step to the tree."""
        parents, first_row = self._live, len(self._readers) - len(self._live)
        self._live = []
        for one in weighed:
            parent = parents[one.parent]
            length = self._nodes[parent].length + 1
            ranked_by = one.score / length**self._config.length_penalty
            row = first_row + one.parent
            if one.status == "live":
                self._live.append(len(self._nodes))
            node = _SearchNode(parent, one.token, one.log_prob, one.score, ranked_by, one.status, row, length)
            self._nodes.append(node)
        self._rows.append(len(parents))
        self._readers += self._live

    def saw(self, best: Hypothesis) -> bool:
        """Returns True if `watch` was called at every step, and with the end of the best hypothesis.

        A custom search may not call it.
        """
        steps = len(self._config.target_prefix) + len(self._rows)
        told = bool(self._rows) and all(len(calls) == steps for calls in self._calls.values())
        return told and self._find_end(best) is not None

    @property
    def widest(self) -> int:
        """The largest number of live hypotheses at a step: a custom search may keep fewer than `beam_size`."""
        return max(self._rows)

    @property
    def faithfulness(self) -> float:
        """The largest difference of all steps and layers."""
        return largest_difference(call for calls in self._calls.values() for call in calls)

    def attentions(self) -> dict[str, AttentionTrace]:
        """Returns "search.cross", with a row per step and live hypothesis; empty if no layer called attention()."""
        rows = [1] * len(self._config.target_prefix) + self._rows
        layers = [self._layer(self._calls[number], rows) for number in sorted(self._calls)]
        return {"search.cross": build_attention_trace("search.cross", "search", "src", layers)} if layers else {}

    def _layer(self, calls: Sequence[AttentionRecord], rows: Sequence[int]) -> AttentionRecord:
        """Returns the calls of a layer in all steps as one call."""
        first, count = calls[0], sum(rows)
        q = torch.cat([call.q[:, :live] for call, live in zip(calls, rows, strict=True)], dim=1)
        mask = None if first.mask is None else first.mask[:1].expand(count, -1)
        return replace(first, q=q, mask=mask, v=None)  # the attention "cross" has the values

    def search(self, best: Hypothesis, label: Label) -> tuple[SearchTrace, tuple[Token, ...]]:
        """Returns the tree, in which the hypothesis `best` is marked, and the tokens of the rows."""
        chosen = self._find_end(best)
        assert chosen is not None, "Pellucid's searches report every end"
        continued = {node.parent for node in self._nodes}
        tokens = self._tokens(chosen, continued, label)
        nodes = []
        for place, node in enumerate(self._nodes):
            left = node.status == "live" and place not in continued  # the search ended before it was continued
            status = "best" if place == chosen else "pruned" if left else node.status
            nodes.append(
                SearchNode(
                    node.parent, tokens[place], node.log_prob, node.score, node.ranked_by, status, node.row  # type: ignore[arg-type]
                )
            )  # fmt: skip
        readers = self._readers[: len(self._config.target_prefix) + sum(self._rows)]
        search = SearchTrace(self._config.beam_size, self._config.length_penalty, tuple(nodes))
        return search, tuple(tokens[place] for place in readers)

    def _find_end(self, best: Hypothesis) -> int | None:
        """Returns the node at which a hypothesis ended; None if no step reported it."""
        ends = (place for place, node in enumerate(self._nodes) if node.status == "finished")
        prefix = len(self._config.target_prefix)
        return next((place for place in ends if self._path(place)[1 + prefix : -1] == best.ids), None)

    def _path(self, place: int | None) -> list[int]:
        """Returns the ids from the start token to a node."""
        ids = []
        while place is not None:
            ids.append(self._nodes[place].token)
            place = self._nodes[place].parent
        return ids[::-1]

    def _tokens(self, best: int, continued: set[int | None], label: Label) -> list[Token]:
        """Returns the token of each node, decoded in its branch, the best branch first; without word numbers."""
        found: dict[int, Token] = {}
        leaves = [best, *(place for place in range(len(self._nodes)) if place not in continued)]
        for leaf in leaves:
            branch: list[int] = []
            place: int | None = leaf
            known = 0
            while place is not None and known < CONTEXT:
                branch.append(place)
                known += place in found
                place = self._nodes[place].parent
            branch.reverse()
            tokens = label([self._nodes[place].token for place in branch])
            for place, token in zip(branch, tokens, strict=True):
                found.setdefault(place, replace(token, word=None))
        return [found[place] for place in range(len(self._nodes))]
