"""Are faults that are planted in a corpus found by their names, and is clean text left alone?

    python benchmarks/cleaning.py --data-dir DATA > benchmarks/results/DATE-cleaning.json

Multi30k's English stands on the source side; its German on the target side, or the English put letter by letter, word
by word, into another script: Cyrillic, Greek, Arabic, Hangul, Han and Kana, whose lines so have the lengths, numbers
and punctuation of real ones. What is named in it as it is, is counted and left out. Into the rest --each faults of
every kind are planted; `pellucid clean` removes them. A row a script and kind: planted, found under its name, taken
out under any, and how many of those that were named so had the fault (precision); a row a script: clean pairs that were
named. Then `pellucid doctor` looks at Multi30k as it is: the levels of its checks. --synthetic N cleans N made-up pairs
besides, and tells pairs a second and the memory. Without --data-dir the words are made up, too. JSON goes to standard
output.
"""

import argparse
import gzip
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report import circumstances, positive, print_json, refusals_in_words

from pellucid.config import DataConfig
from pellucid.data.cleaning import clean
from pellucid.data.doctor import check_corpus
from pellucid.data.lines import read_pairs

Pair = tuple[str, str]
SCRIPTS = ("Latin", "Cyrillic", "Greek", "Arabic", "Hangul", "Japanese")
LETTERS = {
    "Cyrillic": "абцдефгхийклмнопкрстуввхыз", "Greek": "αβκδεφγηιικλμνοπκρστυβωξυζ",
    "Arabic": "ابكدىفغهيجكلمنوپقرستوڤوخيز",
}  # fmt: skip
HANGUL, HAN, KANA = 0xAC00, 0x4E00, 0x3042


def in_script(line: str, script: str, shift: int = 0) -> str:
    """Returns a line of Latin letters in another script. `shift` makes another language of it, with other words."""
    if script == "Latin" and not shift:
        return line
    found = [_word(word, script, shift) for word in line.split()]
    if script != "Japanese":
        return " ".join(found)
    return "".join(found) + ("" if shift else "です。")


def _word(word: str, script: str, shift: int) -> str:
    core = "".join(c for c in word.lower() if "a" <= c <= "z")
    if not core:
        return word
    numbers = [(ord(c) - ord("a") + shift * (place + 3)) % 26 for place, c in enumerate(core)]
    if script == "Latin":
        written = "".join(chr(ord("a") + number) for number in numbers)
    elif script in LETTERS:
        written = "".join(LETTERS[script][number] for number in numbers)
    else:
        pairs = [26 * a + b for a, b in zip(numbers[::2], [*numbers[1::2], 0], strict=False)]
        if script == "Hangul":
            written = "".join(chr(HANGUL + 16 * pair + shift) for pair in pairs)
        elif sum(numbers) % 2 and not shift:  # Japanese; without Kana it is Chinese
            written = "".join(chr(KANA + (pair + shift) % 80) for pair in pairs)
        else:
            written = "".join(chr(HAN + pair + 500 * shift) for pair in pairs[:2])
    return written + "".join(c for c in word if not c.isalnum())


@dataclass
class Planted:
    """A corpus with faults, as bytes a line: which lines have which, by the rule that must name them."""

    script: str
    sources: list[bytes]
    targets: list[bytes]
    valid: list[str]
    test: list[str]
    kinds: dict[int, tuple[str, str]] = field(default_factory=dict)
    """The kind and the rule of each line, from 1, that has a fault."""

    def write(self, folder: Path) -> DataConfig:
        """Writes the corpus; returns the settings that name it."""
        for name, lines in (("a.src", self.sources), ("a.tgt", self.targets)):
            (folder / name).write_bytes(b"".join(line + b"\n" for line in lines))
        for name, held_out in (("valid.src", self.valid), ("test.src", self.test)):
            (folder / name).write_text("".join(f"{line}\n" for line in held_out), encoding="utf-8")
        paths = {name: str(folder / name) for name in ("a.src", "a.tgt", "valid.src", "test.src")}
        return DataConfig(
            src=paths["a.src"], tgt=paths["a.tgt"], valid_src=paths["valid.src"], valid_tgt=paths["a.tgt"],
            test_src=paths["test.src"], test_tgt=paths["a.tgt"],
        )  # fmt: skip


@dataclass(frozen=True)
class Context:
    """What a fault may be made of: the pairs, which are clean, and the one that gets it."""

    random: random.Random
    script: str
    pairs: Sequence[Pair]
    source: str
    target: str

    def other(self) -> Pair:
        """Returns another pair."""
        return self.random.choice(self.pairs)

    def within(self, text: str, piece: str) -> str:
        """Returns a text with a piece between two of its characters."""
        place = self.random.randrange(1, len(text))
        return text[:place] + piece + text[place:]


Made = tuple[str | bytes, str | bytes]


def mojibake(c: Context) -> Made:
    text = c.target if not c.target.isascii() else f"{c.target} für"
    return c.source, text.encode().decode("latin-1")


def exchanged(c: Context) -> Made:
    return c.target, c.source


def foreign_script(c: Context) -> Made:
    other = "Greek" if c.script in ("Latin", "Cyrillic") else "Cyrillic"
    return c.source, in_script(c.source, other)


def too_long(c: Context) -> Made:
    texts = [c.other() for _ in range(250)]
    return " ".join(source for source, _ in texts), " ".join(target for _, target in texts)


def a_part(c: Context) -> Made:
    pairs = [c.other() for _ in range(7)]
    return " ".join([c.source, *(source for source, _ in pairs)]), c.target


def spaces_lost(c: Context) -> Made:
    words = "".join(f"{c.source} {c.other()[0]}".split()).replace(".", "")
    return words, c.target


def nearly_the_same(c: Context) -> Made:
    source, target = c.other()
    return f"{source.upper()} !", f"{target} !"


KINDS: Mapping[str, tuple[str, Callable[[Context], Made]]] = {
    "bytes that are not UTF-8": ("utf8", lambda c: (c.source, c.target.encode() + b" \xe9\xff")),
    "UTF-8 read as Latin-1": ("mojibake", mojibake),
    "a lost character": ("lost", lambda c: (c.source, c.within(c.target, "\ufffd"))),
    "a control character": ("control", lambda c: (c.within(c.source, "\x1b"), c.target)),
    "no source": ("empty", lambda c: ("", c.target)),
    "no target": ("empty", lambda c: (c.source, " \t")),
    "a page in a line": ("too_long", too_long),
    "a validation sentence": ("valid", lambda c: (c.source, c.target)),
    "a test sentence, typed otherwise": ("test", lambda c: (c.source.upper(), c.target)),
    "not translated": ("copy", lambda c: (c.source, c.source)),
    "a pair again": ("duplicate", lambda c: c.other()),
    "another script": ("script", foreign_script),
    "sides exchanged": ("language or script", exchanged),
    "another language": ("language", lambda c: (c.source, in_script(c.source, c.script, shift=3))),
    "tags": ("markup", lambda c: (f"<b>{c.source}</b>", c.target)),
    "entities": ("markup", lambda c: (c.source, f"{c.target} &nbsp;&quot;")),
    "an address": ("address", lambda c: (c.source, f"{c.target} https://www.example.org/a?b=1")),
    "a table": ("letters", lambda c: (c.source, "| 1 | 23 | 456 | 7.8 % | -- | 90 |")),
    "again and again": ("repetition", lambda c: (c.source, " ".join([c.target.split()[0][:12]] * 12))),
    "spaces lost": ("long_word", spaces_lost),
    "a part of a translation": ("ratio", a_part),
    "other numbers": ("numbers", lambda c: (f"{c.source} 1987", f"{c.target} 2345")),
    "a pair again, typed otherwise": ("near_duplicate", nearly_the_same),
}
"""The kinds of faults, each with the rule that must name it."""


def plant(pairs: Sequence[Pair], script: str, each: int, seed: int) -> Planted:
    """Returns pairs whose second sides are in `script`, with so many faults of each kind among them."""
    generator = random.Random(seed)
    held_out = each * 2
    clean_pairs, rest = list(pairs[:-held_out]), list(pairs[-held_out:])
    places = iter(generator.sample(range(len(clean_pairs)), each * len(KINDS)))
    taken = [next(places) for _ in range(each * len(KINDS))]
    whole = [pair for place, pair in enumerate(clean_pairs) if place not in set(taken)]
    # A pair that is repeated stands before its repetition.
    early = [pair for place, pair in enumerate(clean_pairs[: len(clean_pairs) // 8]) if place not in set(taken)]
    found = Planted(
        script, [source.encode() for source, _ in clean_pairs], [target.encode() for _, target in clean_pairs],
        [source for source, _ in rest[:each]], [source for source, _ in rest[each:]],
    )  # fmt: skip
    remaining, again = {"valid": iter(rest[:each]), "test": iter(rest[each:])}, iter(generator.sample(early, 2 * each))
    order = [kind for kind in KINDS for _ in range(each)]
    late = [place for place in taken if place >= len(clean_pairs) // 8]
    soon = [place for place in taken if place < len(clean_pairs) // 8]
    for kind in sorted(order, key=lambda kind: "again," not in kind and "a pair again" not in kind):
        rule, make = KINDS[kind]
        place = (late or soon).pop()
        source, target = next(remaining[rule]) if rule in remaining else clean_pairs[place]
        repeats = "duplicate" in rule
        context = Context(generator, script, [next(again)] if repeats else whole, source, target)
        made = make(context)
        found.sources[place], found.targets[place] = (
            text if isinstance(text, bytes) else text.encode() for text in made
        )
        if rule == "language or script":
            rule = "language" if script == "Latin" else "script"
        found.kinds[place + 1] = kind, rule
    return found


def found_in(planted: Planted) -> tuple[dict[int, str], Counter[str]]:
    """Returns the rule that took out each line, and how many pairs are named by each rule."""
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "report.tsv"
        cleaned = clean(planted.write(Path(name)), None, report=report, repair=False)
        rows = [line.split("\t") for line in report.read_text(encoding="utf-8").split("\n")[1:-1]]
    return {int(row[1]): row[2] for row in rows}, Counter({str(rule): n for rule, n in cleaned.counts.items()})


def clean_ones(pairs: Sequence[Pair], script: str) -> list[Pair]:
    """Returns the pairs that no rule names before anything is planted among them."""
    named, _ = found_in(Planted(script, [s.encode() for s, _ in pairs], [t.encode() for _, t in pairs], [], []))
    return [pair for line, pair in enumerate(pairs, start=1) if line not in named]


def rows_of(planted: Planted) -> Iterator[dict[str, Any]]:
    """Yields a row a kind: planted, found under its name, and the precision of that name; at last the false alarms."""
    named, _ = found_in(planted)
    for kind, (_, rule) in {kind: (kind, rule) for kind, rule in planted.kinds.values()}.items():
        lines = [line for line, (its, _) in planted.kinds.items() if its == kind]
        right = [line for line in lines if named.get(line) == rule]
        so_named = [line for line, name in named.items() if name == rule]
        truly = [line for line in so_named if planted.kinds.get(line, ("", ""))[1] == rule]
        yield {
            "script": planted.script, "kind": kind, "rule": rule, "planted": len(lines), "found": len(right),
            "taken_out": sum(line in named for line in lines),
            "precision": round(len(truly) / len(so_named), 3) if so_named else None,
            "otherwise": sorted({named.get(line, "nothing") for line in lines if line not in right}),
        }  # fmt: skip
    alarms = {line: rule for line, rule in named.items() if line not in planted.kinds}
    yield {"script": planted.script, "kind": "clean", "false_alarms": dict(Counter(alarms.values())),
           "of": len(planted.sources) - len(planted.kinds)}  # fmt: skip


def made_up(count: int, seed: int) -> Iterator[Pair]:
    """Yields pairs of made-up words, the frequent ones frequent, and a translation for each of them."""
    generator = random.Random(seed)

    def word() -> str:
        syllables = range(generator.randint(1, 4))
        return "".join(generator.choice("bdfgklmnprstvz") + generator.choice("aeiou") for _ in syllables)

    words = list(dict.fromkeys(word() for _ in range(900)))
    weights = [1 / (rank + 3) for rank in range(len(words))]
    for _ in range(count):
        found = generator.choices(words, weights, k=generator.randint(6, 18))
        found[1::3] = generator.choices(words[:12], k=len(found[1::3]))  # what stands in each sentence, as "the" does
        yield f"{' '.join(found).capitalize()}.", f"{in_script(' '.join(found), 'Latin', 5).capitalize()}."


def multi30k(data_dir: Path, script: str) -> list[Pair]:
    """Returns Multi30k's English with its German, or with itself in another script."""
    folder = data_dir / "multi30k"
    pairs = list(read_pairs(folder / "train.en.gz", folder / "train.de.gz"))
    return [(source, target if script == "Latin" else in_script(source, script)) for source, target in pairs]


def levels(data_dir: Path, language: str) -> dict[str, Any]:
    """Returns how many checks of the doctor come out how for Multi30k as it is, and what is worse than a note."""
    folder = data_dir / "multi30k"
    src, tgt = (str(folder / f"train.{code}.gz") for code in ("en", language))
    valid, test = (str(folder / f"{name}.en.gz") for name in ("val", "test_2016_flickr"))
    checks = check_corpus(
        src=src, tgt=tgt, valid_src=valid, valid_tgt=str(folder / f"val.{language}.gz"),
        test_src=test, test_tgt=str(folder / f"test_2016_flickr.{language}.gz"),
    )  # fmt: skip
    return {"corpus": f"Multi30k en-{language}", **Counter(check.level for check in checks),
            "above_a_note": [check.text for check in checks if check.level == "BAD"]}  # fmt: skip


def synthetic(pairs: int) -> dict[str, Any]:
    """Returns how long it takes to clean so many made-up pairs, in a process of its own, and its memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = list(made_up(min(pairs, 20_000), 1))
        with gzip.open(folder / "a.src.gz", "wt", 1) as sources, gzip.open(folder / "a.tgt.gz", "wt", 1) as targets:
            for number in range(pairs):
                source, target = texts[number % len(texts)]
                tail = in_script(f"{number:x}".translate(str.maketrans("0123456789", "ghijklmnop")), "Latin", 1)
                sources.write(f"{source} {tail}\n")
                targets.write(f"{target} {tail}\n")
        started = time.perf_counter()
        command = [sys.executable, "-m", "pellucid", "clean", "--src", str(folder / "a.src.gz"), "--tgt",
                   str(folder / "a.tgt.gz"), "--out", str(folder / "out")]  # fmt: skip
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        seconds = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {"pairs": pairs, "seconds": round(seconds, 1), "pairs_a_second": round(pairs / seconds),
            "most_memory": memory, "said": said[-1].partition(";")[0]}  # fmt: skip


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="the folder that holds multi30k; without it made-up words")
    parser.add_argument("--each", type=positive, default=50, help="faults of each kind")
    parser.add_argument("--pairs", type=positive, default=29_000, help="pairs of each corpus at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--synthetic", type=positive, help="made-up pairs to clean besides")
    arguments = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    for script in SCRIPTS:
        if arguments.data_dir:
            pairs = multi30k(arguments.data_dir, script)
        else:
            pairs = [(s, t if script == "Latin" else in_script(s, script)) for s, t in made_up(arguments.pairs, 2)]
        whole = pairs[: arguments.pairs]
        sound = clean_ones(whole, script)
        rows.append({"script": script, "kind": "before", "pairs": len(whole), "named": len(whole) - len(sound)})
        rows += rows_of(plant(sound, script, arguments.each, arguments.seed))
    found: dict[str, Any] = {"rows": rows}
    if arguments.data_dir:
        found["multi30k"] = [levels(arguments.data_dir, language) for language in ("de", "fr", "cs")]
    if arguments.synthetic:
        # The larger one last: the memory is the most that any process had.
        found["synthetic"] = [synthetic(min(20_000, arguments.synthetic)), synthetic(arguments.synthetic)]
    for row in rows:
        print("  ".join(f"{value}" for value in row.values()), file=sys.stderr)
    print_json(circumstances(__file__, argv, ()) | found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
