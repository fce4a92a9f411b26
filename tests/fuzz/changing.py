"""Changes that a damaged disk, a careless hand or an enemy makes: to bytes, to JSON, to the files of a folder."""

import copy
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 5, 255, 4096, 2**22, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.5, 1e308, -1e308,
    float("nan"), float("inf"), -float("inf"), "", "x", "none", "\x1b[31m", "\ud800", "\0", "../x", "x" * 100_000,
    [], [1], [[1]], [None], ["x"], {}, {"a": 1}, {"type": "Sequence"}, [0] * 10_000, 10**4000,
)  # fmt: skip


def changed_table(table: Any, draw: random.Random) -> Any:
    """A copy of a JSON table with one to three changes somewhere in it."""
    table = copy.deepcopy(table)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        places = list(_places(table))
        if not places:
            return copy.deepcopy(draw.choice(ODD))
        holder, key = draw.choice(places)
        kind = draw.random()
        if kind < 0.65:
            holder[key] = copy.deepcopy(draw.choice(ODD))
        elif kind < 0.8:
            del holder[key]
        elif kind < 0.9:
            holder[key] = copy.deepcopy(draw.choice(places)[0])
        elif isinstance(holder, dict):
            holder[draw.choice(("x", "", "\x1b", *map(str, list(holder)[:5])))] = holder.pop(key)
        else:
            holder.extend([copy.deepcopy(holder[key])] * draw.choice((1, 100)))
    return table


def as_json(table: Any) -> bytes:
    """A table in JSON, with what JSON has no word for."""
    return json.dumps(table, default=str).encode("utf-8", "surrogatepass")


def _places(table: Any) -> Any:
    """Each value in a table with what holds it; of a long list a few."""
    keys = (
        list(table) if isinstance(table, dict) else list(range(min(len(table), 20))) if isinstance(table, list) else []
    )
    for key in keys:
        yield table, key
        yield from _places(table[key])


def changed_bytes(data: bytes, draw: random.Random) -> bytes:
    """Bytes with one to four changes; most are of single bits, which leave the rest readable."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        place = draw.randrange(len(changed) + 1)
        kind = draw.random()
        if kind < 0.7 and place < len(changed):
            changed[place] ^= 1 << draw.randrange(8)
        elif kind < 0.78:
            del changed[place : place + draw.choice((1, 4, 100))]
        elif kind < 0.86:
            changed[place:place] = draw.randbytes(draw.choice((1, 4, 100)))
        elif kind < 0.95:
            changed[place : place + 8] = draw.choice((b"\xff" * 8, bytes(8), (2**40).to_bytes(8, "little")))
        else:
            del changed[place:]
    return bytes(changed)


def damage(folder: Path, draw: random.Random) -> str:
    """Damages one file of a folder, and says which and how."""
    path = draw.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    data, kind = path.read_bytes(), draw.randrange(8)
    path.unlink()
    if kind == 0:
        return f"{path.name} is gone"
    if kind == 1:
        path.mkdir()
        return f"{path.name} is a folder"
    if kind == 2:
        path.symlink_to(path.name)
        return f"{path.name} is a loop"
    if kind == 3:
        os.mkfifo(path)
        return f"{path.name} is a pipe"
    if kind == 4 and path.suffix == ".json":
        path.write_bytes(as_json(changed_table(json.loads(data), draw)))
        return f"{path.name} says something else"
    path.write_bytes(changed_bytes(data, draw))
    return f"{path.name} has other bytes"


def copied(folder: Path, to: Path) -> Path:
    """A copy of a folder to damage."""
    shutil.copytree(folder, to)
    return to
