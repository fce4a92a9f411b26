"""The terms that an output must contain, as an automaton that reads its tokens and tracks the terms that it has met.

It is the automaton of Aho and Corasick (1975) over all spellings of all terms, so terms may overlap, begin with one
another and contain one another. It reads a token in constant time, however many terms there are.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class TermTokens:
    """The tokens of one spelling of a term."""

    ids: tuple[int, ...]
    starts: bool = False
    """If True, it counts only at the very beginning of an output."""
    sought: bool = True
    """If True, the search can force it; if False, it only counts where the model writes it unforced."""
    whole: bool = False
    """If True, no token that continues a word may follow it."""


@dataclass(frozen=True)
class Term:
    """A term that an output contains in one of its spellings: at least one of them is sought and counts anywhere."""

    spellings: tuple[TermTokens, ...]

    @property
    def least(self) -> int:
        """The fewest tokens with which the search can always force it."""
        return min(len(s.ids) for s in self.spellings if s.sought and not s.starts)


class State(NamedTuple):
    """The state of an output in the automaton."""

    node: int
    met: int
    """The terms that it contains, one bit each."""
    pending: int
    """The terms that it contains unless the next token continues their last word."""


ROOT, BEGIN = 0, 1


class TermAutomaton:
    """Reads the tokens of an output; finds its terms, and the number of tokens that the missing terms need."""

    start: State = State(BEGIN, 0, 0)
    """The state of an empty output."""

    def __init__(self, terms: Sequence[Term], continues: Collection[int]) -> None:
        """Takes the terms, and the tokens that continue the word before them."""
        self._least = [term.least for term in terms]
        self._all = (1 << len(terms)) - 1
        self._continues = continues
        self._children: list[dict[int, int]] = [{}, {}]
        self._fail = [ROOT, ROOT]
        self._ended = [0, 0]  # the terms that a node ends, one bit each
        self._waiting = [0, 0]  # the terms that it ends unless the next token continues the word
        self._ahead: list[dict[int, int]] = [{}, {}]  # the tokens that each term's nearest spelling lacks here
        for number, term in enumerate(terms):
            for spelling in term.spellings:
                self._add(number, spelling)
        for node in (*self._below(ROOT), *self._below(BEGIN)):
            back = self._fail[node]
            self._ended[node] |= self._ended[back]
            self._waiting[node] |= self._waiting[back]
            for number, lacking in self._ahead[back].items():
                self._ahead[node][number] = min(lacking, self._ahead[node].get(number, lacking))
        self._next: dict[tuple[State, int], State] = {}
        self._needs: dict[State, int] = {}
        self._named: dict[int, list[int]] = {}

    def _add(self, number: int, spelling: TermTokens) -> None:
        node = BEGIN if spelling.starts else ROOT
        for place, token in enumerate(spelling.ids, start=1):
            if token not in self._children[node]:
                self._children[node][token] = len(self._children)
                self._children.append({})
                self._fail.append(ROOT)
                self._ended.append(0)
                self._waiting.append(0)
                self._ahead.append({})
            node = self._children[node][token]
            if spelling.sought:
                lacking = len(spelling.ids) - place
                self._ahead[node][number] = min(lacking, self._ahead[node].get(number, lacking))
        (self._waiting if spelling.whole else self._ended)[node] |= 1 << number

    def _below(self, root: int) -> Iterator[int]:
        """Yields the nodes below `root` in breadth-first order, after setting the failure link of each."""
        level = [root]
        while level:
            below = []
            for node in level:
                for token, child in self._children[node].items():
                    self._fail[child] = ROOT if node == ROOT else self._go(self._fail[node], token)
                    below.append(child)
                    yield child
            level = below

    def _go(self, node: int, token: int) -> int:
        while token not in self._children[node]:
            if node == ROOT:
                return ROOT
            node = self._fail[node]
        return self._children[node][token]

    def get_term_tokens(self, state: State) -> list[int]:
        """Returns the tokens that continue or begin a term in this state; no other token does."""
        if state.node not in self._named:
            tokens, node = set(self._children[ROOT]), state.node
            while node != ROOT:
                tokens |= set(self._children[node])
                node = self._fail[node]
            self._named[state.node] = sorted(tokens)
        return self._named[state.node]

    def read(self, state: State, token: int) -> State:
        """Returns the state after one more token."""
        if (state, token) not in self._next:
            node = self._go(state.node, token)
            met = self._get_met(state, token in self._continues) | self._ended[node]
            self._next[state, token] = State(node, met, self._waiting[node] & ~met)
        return self._next[state, token]

    def read_other(self, state: State, *, continues: bool) -> State:
        """Returns the state after a token outside of `get_term_tokens`, which continues a word or does not."""
        return State(ROOT, self._get_met(state, continues), 0)

    def _get_met(self, state: State, continues: bool) -> int:
        return state.met if continues else state.met | state.pending

    def count_tokens_left(self, state: State) -> int:
        """Returns the number of tokens of all missing terms without overlap; 0: none is missing."""
        if state not in self._needs:
            lacking = self._all & ~(state.met | state.pending)
            gain = max(
                (
                    self._least[number] - left
                    for number, left in self._ahead[state.node].items()
                    if lacking >> number & 1
                ),
                default=0,
            )
            total = sum(least for number, least in enumerate(self._least) if lacking >> number & 1)
            self._needs[state] = total - max(0, gain)
        return self._needs[state]
