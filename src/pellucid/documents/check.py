"""The check of a translated part: it is read again, and all but the strings must be as in the original."""

from collections import Counter
from collections.abc import Mapping, Sequence

from pellucid.documents.spans import Edit, Editor, Reading, Unit
from pellucid.errors import PellucidError, format_value

_MASK = "\x01"


def check_part(name: str, faults: Mapping[int, str], fault: str, units: Sequence[Unit]) -> None:
    """Raises PellucidError if `find_faults` has found a difference between a translated part and its original."""
    if faults:
        first = next(iter(faults))
        fault = f"{units[first].place}: {faults[first]}"
    if fault:
        raise PellucidError(
            f"the translated part `{format_value(name)}` differs from the original in more than its text: {fault}; "
            "nothing is written",
            "report the document as an error of Pellucid",
        )


def find_faults(
    source: str, before: Reading, output: str, after: Reading, texts: Sequence[str]
) -> tuple[dict[int, str], str]:
    """Returns the faulty units by their index, and the first difference between the units; empty if there is none.

    Args:
        before, after: the readings of the original and of the translated part.
        texts: the text that each unit must have, in the order of `before`.
    """
    if len(before.units) != len(after.units):
        return {}, f"{len(before.units)} units became {len(after.units)}"
    inner, others = _find_inner(before.units), _find_inner(after.units)
    pairs = _pair_units(inner, others, texts, [unit.text for unit in after.units])
    old = Editor(source, _masks(before, inner, texts))
    new = Editor(output, _masks(after, others, [unit.text for unit in after.units]))
    found = {}
    for place, (one, text) in enumerate(zip(before.units, texts, strict=True)):
        if fault := _find_unit_fault((old, one), (new, after.units[pairs[place]]), text):
            found[place] = fault
    rest, now = old.write(), new.write()
    if rest == now:
        return found, ""
    at = next((i for i, (a, b) in enumerate(zip(rest, now, strict=False)) if a != b), min(len(rest), len(now)))
    return found, f"`{format_value(rest[at : at + 40])}` became `{format_value(now[at : at + 40])}`"


def _find_unit_fault(one: tuple[Editor, Unit], other: tuple[Editor, Unit], text: str) -> str:
    before, after = one[1], other[1]
    if _bare(after.text) != _bare(text):
        return f"`{format_value(after.text)}` is read instead of `{format_value(text)}`"
    old, new = _marks(*one), _marks(*other)
    if old != new:
        return _name_change(old, new)
    if not _is_nested(after):
        return "its marks do not nest"
    if extra := {run.key for run in after.runs} - {run.key for run in before.runs}:
        return f"it has a run of other properties: {format_value(extra.pop())}"
    return ""


Inner = dict[int, list[int]]
"""The units directly inside each unit, as a note in a paragraph is, by their index; of -1 the units inside no other."""


def _find_inner(units: Sequence[Unit]) -> Inner:
    found: Inner = {-1: []}
    stack: list[int] = []
    for place in sorted(range(len(units)), key=lambda n: (units[n].start, -units[n].end, n)):
        while stack and units[stack[-1]].end < max(units[place].end, units[place].start + 1):
            stack.pop()
        found.setdefault(stack[-1] if stack else -1, []).append(place)
        stack.append(place)
    return found


def _pair_units(inner: Inner, others: Inner, texts: Sequence[str], read: Sequence[str]) -> dict[int, int]:
    """Returns the unit after the translation of each unit, by their indices.

    Units inside another one move with its marks: they are paired by their texts, all others by their order.
    """
    found = dict[int, int]()
    stack = [(-1, -1)]
    while stack:
        parent, other = stack.pop()
        mine, theirs = inner.get(parent, []), others.get(other, [])
        if len(mine) != len(theirs):  # the check of the parent names the fault
            return {place: place for place in range(len(texts))}
        if parent >= 0 and len(mine) > 1:
            waiting: dict[str, list[int]] = {}
            for place in reversed(theirs):
                waiting.setdefault(_bare(read[place]), []).append(place)
            chosen = [rest.pop() if (rest := waiting.get(_bare(texts[place]))) else -1 for place in mine]
            taken = set(chosen)
            left = iter([place for place in theirs if place not in taken])
            theirs = [next(left) if place < 0 else place for place in chosen]
        found.update(zip(mine, theirs, strict=True))
        stack += zip(mine, theirs, strict=True)
    return found


def _masks(reading: Reading, inner: Inner, texts: Sequence[str]) -> list[Edit]:
    """Returns the edits that replace labels and units; of a unit inside another one the text is left to compare."""
    outer = {*inner[-1]}
    found = [Edit(each.start, each.end, (_MASK,)) for each in reading.labels]
    for place, unit in enumerate(reading.units):
        found.append(Edit(unit.start, unit.end, (_MASK if place in outer else _bare(texts[place]),)))
    return found


def _marks(editor: Editor, unit: Unit) -> Counter[str]:
    return Counter(
        editor.resolve(item.raw).replace(' xml:space="preserve"', "")
        for item in unit.items
        if item.kind != "text" and item.raw
    )


def _name_change(old: Counter[str], new: Counter[str]) -> str:
    lost, added = old - new, new - old
    first = next(iter(lost or added))
    return f"the mark `{format_value(first)}` is {'lost' if lost else 'new'}"


def _is_nested(unit: Unit) -> bool:
    depth = least = 0
    for item in unit.items:
        depth += (item.kind == "open") - (item.kind == "close")
        least = min(least, depth)
    return least == 0 or any(item.kind == "close" for item in unit.items)


def _bare(text: str) -> str:
    return "".join(text.split())
