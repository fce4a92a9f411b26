"""A search as it goes: every continuation that it weighs, and where each live hypothesis looks at each step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from pellucid.config import DecodeConfig
from pellucid.decoding.hypothesis import Hypothesis, Weighed
from pellucid.model.transformer import Transformer
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.recorder import Call, gather, largest_difference, record
from pellucid.tracing.search import SearchNode, SearchTrace
from pellucid.tracing.tokens import Token

Label = Callable[[Sequence[int]], Sequence[Token]]
"""The tokens of a sequence of ids."""

CONTEXT = 3  # tokens before one that may be a part of the same character


@dataclass(frozen=True)
class _Node:
    """A SearchNode whose token is an id."""

    parent: int | None
    token: int
    log_prob: float
    score: float
    ranked_by: float
    status: str
    row: int
    length: int
    """Tokens behind the start token."""


class SearchRecorder:
    """Observes the attentions of one sentence's search, and watches its steps.

        recorder = SearchRecorder(model, config)
        with watched(model, recorder.observe) as copied:
            found = search(copied, [ids], config, watch=recorder.watch)[0]

    A step has as many rows as live hypotheses; a forced beginning of the output counts as steps of a single one.
    """

    def __init__(self, model: Transformer, config: DecodeConfig) -> None:
        self._config = config
        self._calls: dict[int, list[Call]] = {}  # of each layer, a call a step
        self._rows: list[int] = []  # how many hypotheses were live at each step
        self._nodes = [_Node(None, model.config.bos_id, 0.0, 0.0, 0.0, "live", 0, 0)]
        for token in config.target_prefix:
            self._add_forced(token)
        self._live = [len(self._nodes) - 1]
        self._readers = list(range(len(self._nodes)))  # the node whose token each row's hypothesis has read last

    def _add_forced(self, token: int) -> None:
        length = len(self._nodes)
        self._nodes.append(_Node(length - 1, token, 0.0, 0.0, 0.0, "live", length - 1, length))

    def observe(
        self,
        name: str,
        layer: int,
        block: nn.Module,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        output: Tensor,
    ) -> None:
        """Records what is attended to in the memory at each step."""
        if name == "cross":
            calls = self._calls.setdefault(layer, [])
            calls.append(record(q, k, v, mask, bias, output, block, with_values=not calls))

    def watch(self, weighed: list[Weighed]) -> None:
        """Adds what a step weighed to the tree."""
        parents, first_row = self._live, len(self._readers) - len(self._live)
        self._live = []
        for one in weighed:
            parent = parents[one.parent]
            length = self._nodes[parent].length + 1
            ranked_by = one.score / length**self._config.length_penalty
            row = first_row + one.parent
            if one.fate == "live":
                self._live.append(len(self._nodes))
            node = _Node(parent, one.token, one.log_prob, one.score, ranked_by, one.fate, row, length)
            self._nodes.append(node)
        self._rows.append(len(parents))
        self._readers += self._live

    def saw(self, best: Hypothesis) -> bool:
        """Tells whether it was told of every step of the search, and of the end of the hypothesis that was found best.

        A search of one's own need not tell.
        """
        steps = len(self._config.target_prefix) + len(self._rows)
        told = bool(self._rows) and all(len(calls) == steps for calls in self._calls.values())
        return told and self._end_of(best) is not None

    @property
    def widest(self) -> int:
        """The most hypotheses that were live at a step: a search of one's own may keep fewer than it was told."""
        return max(self._rows)

    @property
    def faithfulness(self) -> float:
        """The largest difference of all steps and layers."""
        return largest_difference(call for calls in self._calls.values() for call in calls)

    def attentions(self) -> dict[str, AttentionTrace]:
        """Returns "search.cross", a row a step and live hypothesis; nothing where no layer called attention()."""
        rows = [1] * len(self._config.target_prefix) + self._rows
        layers = [self._layer(self._calls[number], rows) for number in sorted(self._calls)]
        return {"search.cross": gather("search.cross", "search", "src", layers)} if layers else {}

    def _layer(self, calls: Sequence[Call], rows: Sequence[int]) -> Call:
        """Returns the calls of a layer in all steps as one."""
        first, count = calls[0], sum(rows)
        q = torch.cat([call.q[:, :live] for call, live in zip(calls, rows, strict=True)], dim=1)
        mask = None if first.mask is None else first.mask[:1].expand(count, -1)
        return replace(first, q=q, mask=mask, v=None)  # the values are those of the attention "cross"

    def search(self, best: Hypothesis, label: Label) -> tuple[SearchTrace, tuple[Token, ...]]:
        """Returns the tree, in which the hypothesis that was found `best` is marked, and the tokens of the rows."""
        chosen = self._end_of(best)
        assert chosen is not None, "Pellucid's own searches tell of every end"
        continued = {node.parent for node in self._nodes}
        tokens = self._tokens(chosen, continued, label)
        nodes = []
        for place, node in enumerate(self._nodes):
            left = node.status == "live" and place not in continued  # the search ended before it went on
            status = "best" if place == chosen else "pruned" if left else node.status
            nodes.append(
                SearchNode(
                    node.parent, tokens[place], node.log_prob, node.score, node.ranked_by, status, node.row  # type: ignore[arg-type]
                )
            )  # fmt: skip
        readers = self._readers[: len(self._config.target_prefix) + sum(self._rows)]
        search = SearchTrace(self._config.beam_size, self._config.length_penalty, tuple(nodes))
        return search, tuple(tokens[place] for place in readers)

    def _end_of(self, best: Hypothesis) -> int | None:
        """Returns the node at which a hypothesis ended; None where no step told of it."""
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
        """Returns each node's token as its branch shows it, the best branch first; words mean nothing in a tree."""
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
