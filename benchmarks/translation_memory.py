"""What does a translation memory bring: equal lines reused, and lines that differ from a unit in one word?

    python benchmarks/translation_memory.py RUN --src val.de --ref val.en > benchmarks/results/DATE-memory.json

The first 1,000 pairs are remembered as corrections. "exact": the number of their sources that are reused. "fuzzy":
of each pair one word is exchanged for another one, where the source has one of the words below once, and the reference
its translation once; the new reference has the translation of the other word. BLEU (sacreBLEU) with and without the
memory, and the paired test of `pellucid evaluate`, for all such lines and for those with terms of the memory. The
references come from the memory, so this is the most that it can bring. "natural", with --memory-src and --memory-ref:
the same for the lines as they are and a memory of other texts. JSON goes to standard output.
"""

import argparse
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from report import circumstances, positive, print_json, refusals_in_words

from pellucid.data.lines import read_pairs
from pellucid.data.memory_file import remember_pairs
from pellucid.errors import DataError
from pellucid.evaluation.comparison import compare_outputs
from pellucid.tasks.segmenter import LongTextWarning
from pellucid.tasks.translator import Translator

EXCHANGED = [
    *[((f"{a}{end}", b), (f"{c}{end}", d))
      for a, b, c, d in (("rot", "red", "blau", "blue"), ("blau", "blue", "grün", "green"),
                         ("grün", "green", "rot", "red"),
                         ("schwarz", "black", "weiß", "white"), ("weiß", "white", "schwarz", "black"),
                         ("gelb", "yellow", "braun", "brown"), ("braun", "brown", "gelb", "yellow"))
      for end in ("en", "es", "er", "em", "e")],
    (("Zwei", "Two"), ("Drei", "Three")), (("zwei", "two"), ("drei", "three")), (("Drei", "Three"), ("Vier", "Four")),
    (("drei", "three"), ("fünf", "five")), (("Mann", "man"), ("Junge", "boy")), (("Hund", "dog"), ("Esel", "donkey")),
    (("Frau", "woman"), ("Katze", "cat")), (("Männer", "men"), ("Hunde", "dogs")),
    (("Frauen", "women"), ("Jungen", "boys")),
]  # fmt: skip
"""Words with their translations, and the words with which they are exchanged, of the same gender and number."""


def exchange(source: str, reference: str) -> tuple[str, str] | None:
    """Returns the pair with one word exchanged; None if it has none of the words."""
    for (word, translated), (other, translated_other) in EXCHANGED:
        sides = [re.compile(rf"\b{each}\b") for each in (word, translated)]
        counts = len(sides[0].findall(source)), len(re.findall(sides[1].pattern, reference, re.IGNORECASE))
        if counts == (1, 1) and sides[1].search(reference):
            return sides[0].sub(other, source), sides[1].sub(translated_other, reference)
    return None


def compare(
    translator: Translator, sources: Sequence[str], references: Sequence[str], memory: Path
) -> dict[str, dict[str, Any]]:
    """Returns BLEU with and without a memory, of all lines and of those with terms of it."""
    without, with_memory = translator.translate(sources), translator.translate(sources, memory=memory)
    has_terms = [bool(one.matches) and one.matches[0].use == "terms" for one in with_memory]
    rows: dict[str, dict[str, Any]] = {}
    for name, chosen in (("all", [True] * len(sources)), ("with terms", has_terms)):
        numbers = [number for number, is_chosen in enumerate(chosen) if is_chosen]
        rows[name] = {"lines": len(numbers), "flagged": sum(bool(with_memory[n].flags) for n in numbers)}
        if numbers:
            sides = [[one[n].text for n in numbers] for one in (with_memory, without)]
            found = compare_outputs(sides[0], sides[1], [references[n] for n in numbers]).bleu
            rows[name] |= {
                "with": found.a, "without": found.b, "interval": found.difference_interval, "p": found.p_value,
                "signature": found.signature,
            }  # fmt: skip
        print(f"{name}: {rows[name]}", file=sys.stderr)
    return rows


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the run folder of a translator")
    parser.add_argument("--src", required=True, help="sources that the model was not trained on")
    parser.add_argument("--ref", required=True, help="their references")
    parser.add_argument("--memory-src", help="sources of a memory of other texts")
    parser.add_argument("--memory-ref", help="their translations")
    parser.add_argument("--limit", type=positive, default=1000, help="the number of corrections")
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore", LongTextWarning)
    translator = Translator.load(arguments.run, device="cpu")
    pairs = list(read_pairs(arguments.src, arguments.ref))[: arguments.limit]
    with TemporaryDirectory(prefix="pellucid-") as folder:
        memory = Path(folder) / "memory.sqlite"
        added = remember_pairs(memory, pairs)
        exact = translator.translate([source for source, _ in pairs], memory=memory)
        last = dict(pairs)
        reused = sum(
            bool(one.matches) and one.matches[0].use == "whole" and one.text == last[source]
            for one, (source, _) in zip(exact, pairs, strict=True)
        )
        known = {source for source, _ in pairs}
        changed = [one for pair in pairs if (one := exchange(*pair)) is not None and one[0] not in known]
        if not changed:
            raise DataError("no line has one of the words that are exchanged", "use German captions with English ones")
        sources, references = map(list, zip(*changed, strict=True))
        rows = {"fuzzy": compare(translator, sources, references, memory)}
        if arguments.memory_src:
            other = Path(folder) / "other.sqlite"
            remember_pairs(other, (one for one in read_pairs(arguments.memory_src, arguments.memory_ref) if all(one)))
            rows["natural"] = compare(translator, [source for source, _ in pairs], [ref for _, ref in pairs], other)
    exact_row = {"corrections": len(pairs), "added": added, "reused": reused}
    print(f"exact: {exact_row}", file=sys.stderr)
    print_json(circumstances(__file__, argv, ("rapidfuzz",)) | {"exact": exact_row} | rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
