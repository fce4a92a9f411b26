"""What does text as people type it cost, with and without the restoration of case, diacritics and spelling?

    python benchmarks/typed_text.py RUN --src val.de --ref val.en > benchmarks/results/DATE-typed-text.json

BLEU (sacreBLEU, lower-cased) of a run on the same lines written in other ways, as they are read (`off`) and restored
(`auto`), with the count of lines that the restoration makes equal to the original ones. JSON goes to standard output.

    python benchmarks/typed_text.py RUN --src val.de --ref val.en --spans > benchmarks/results/DATE-spans.json

plants a placeholder, an address, code, a tag or a number with its unit in each of the first 1,000 lines, twelve kinds
in turn, at a place drawn by the line: a line is "kept" if its translation has the planted parts as often as the line,
else "flagged" or "silent". BLEU is that of the translations of the kept lines without the planted parts, and of the
same lines with nothing planted.
"""

import argparse
import re
import sys
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Literal

from report import circumstances, positive, print_json, refusals_in_words
from sacrebleu import corpus_bleu

from pellucid.data.lines import read_pairs
from pellucid.errors import DataError
from pellucid.tasks.segmenter import LongTextWarning
from pellucid.tasks.translator import Translator

DIGRAPHS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"})
SHORTEST = 4


def remove_diacritics(line: str) -> str:
    return unicodedata.normalize(
        "NFC", "".join(c for c in unicodedata.normalize("NFD", line) if not unicodedata.combining(c))
    )


def add_typing_error(line: str) -> str:
    """Returns a line with one error within a word: two letters exchanged, one left out or one doubled."""
    random, words = Random(line), line.split(" ")
    places = [place for place, word in enumerate(words) if len(word) >= SHORTEST and word.isalpha()]
    if not places:
        return line
    place = random.choice(places)
    word, cut = words[place], random.randrange(1, len(words[place]) - 1)
    kinds = (
        word[:cut] + word[cut + 1] + word[cut] + word[cut + 2 :],
        word[:cut] + word[cut + 1 :],
        word[: cut + 1] + word[cut:],
    )
    return " ".join([*words[:place], random.choice(kinds), *words[place + 1 :]])


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as written": str,
    "upper case": str.upper,
    "title case": str.title,
    "lower case": str.lower,
    "without diacritics": remove_diacritics,
    "ä as ae": lambda line: line.translate(DIGRAPHS),
    "one typing error": add_typing_error,
    "without final stops": lambda line: line.rstrip(" .!?"),
}


PLANTED: dict[str, tuple[str, ...]] = {
    "printf": ("%s", "%d", "%1$s", "%.2f"),
    "named printf": ("%(name)s", "%(count)d"),
    "braces": ("{0}", "{name}", "{price:.2f}"),
    "double braces": ("{{name}}", "{{ user.name }}"),
    "sign and braces": ("%{count}", "${total}", "#{name}"),
    "ICU": ("{n, plural, one {# Hund} other {# Hunde}}", "{when, date, short}"),
    "URL": ("https://example.org/a?b=c&d=1", "www.example.org/pfad"),
    "mail": ("anna.b@example.org",),
    "file": ("bericht_2.pdf", "/etc/hosts.conf", "C:\\Daten\\a.txt"),
    "code": ("`x = f(1)`", "`rm -r tmp`"),
    "tag": ("<b>|</b>", '<a href="x.html">|</a>', "<br/>", "&nbsp;"),
    "number, emoji": ("12,5 km", "37 °C", "🙂", "👩‍🚒"),
}
"""The planted parts by kind; `|` stands for the word that a pair of tags surrounds."""


def plant(line: str, kind: str) -> tuple[str, list[str]]:
    """Returns a line with a part of a kind between two of its words, or around one, and the texts of the part."""
    random, words = Random(line), line.split(" ")
    first, _, second = random.choice(PLANTED[kind]).partition("|")
    place = random.randrange(1, len(words)) if len(words) > 1 else 0
    if second:
        word = words[place].rstrip(".,!?")
        return " ".join([*words[:place], f"{first}{word}{second}{words[place][len(word) :]}", *words[place + 1 :]]), [
            first,
            second,
        ]
    return " ".join([*words[:place], first, *words[place:]]), [first]


def measure_spans(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Returns the numbers of lines whose planted parts are kept, flagged and lost silently, and BLEU, by kind."""
    kinds = [name for _, name in zip(sources, cycle(PLANTED), strict=False)]
    planted = [plant(line, kind) for line, kind in zip(sources, kinds, strict=True)]
    plain, found = translator.translate(sources), translator.translate([line for line, _ in planted])
    outcomes, rests = list[str](), list[str]()
    for (line, parts), one in zip(planted, found, strict=True):
        is_kept = all(one.text.count(part) == line.count(part) for part in parts)
        is_flagged = any(flag.name == "spans" for flag in one.flags)
        outcomes.append("flagged" if is_flagged else "kept" if is_kept else "silent")
        if outcomes[-1] == "silent":
            print(f"silent: {line} | {one.text}", file=sys.stderr)
        rest = one.text
        for part in parts:
            rest = rest.replace(part, "" if part.startswith(("<b", "</", "<a")) else " ")
        rests.append(re.sub(r" (?=[.,!?])", "", " ".join(rest.split())))
    rows = {}
    for kind in ["all", *PLANTED]:
        numbers = [n for n, name in enumerate(kinds) if kind in ("all", name)]
        kept = [n for n in numbers if outcomes[n] == "kept"]
        rows[kind] = {"lines": float(len(numbers))} | {
            outcome: float(sum(outcomes[n] == outcome for n in numbers)) for outcome in ("kept", "flagged", "silent")
        }
        of_kept = [references[n] for n in kept]
        rows[kind] |= {
            name: round(corpus_bleu([texts[n] for n in kept], [of_kept]).score, 2)
            for name, texts in (("rest", rests), ("plain", [one.text for one in plain])) if kept
        }  # fmt: skip
        print(f"{kind}: {rows[kind]}", file=sys.stderr)
    return rows


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the run folder of a translator")
    parser.add_argument("--src", required=True, help="sources that the model was not trained on")
    parser.add_argument("--ref", required=True, help="their references")
    parser.add_argument("--spans", action="store_true", help="plant placeholders, addresses, code and tags instead")
    parser.add_argument("--limit", type=positive, help="only the first pairs")
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore", LongTextWarning)
    translator = Translator.load(arguments.run, device="cpu")
    if translator.word_forms is None and not arguments.spans:
        raise DataError(f"the run `{arguments.run}` has no `word_forms.json`", "train it with this version")
    sources, references = zip(*list(read_pairs(arguments.src, arguments.ref))[: arguments.limit], strict=True)
    if arguments.spans:
        spans = measure_spans(translator, sources[:1000], references[:1000])
        print_json(circumstances(__file__, argv, ()) | {"lines": len(sources[:1000]), "spans": spans})
        return 0
    rows = {}
    for name, change in SPELLINGS.items():
        lines = [*map(change, sources)]
        assert translator.word_forms is not None
        restored = [translator.word_forms.restore(line).text for line in lines]
        row: dict[str, float] = {"equal": sum(a == b for a, b in zip(restored, sources, strict=True))}
        modes: tuple[Literal["off", "auto"], ...] = ("off", "auto")
        for repair in modes:
            found = [one.text for one in translator.translate(lines, repair=repair)]
            row[repair] = round(corpus_bleu(found, [references], lowercase=True).score, 2)
        rows[name] = row
        print(f"{name}: {row}", file=sys.stderr)
    print_json(circumstances(__file__, argv, ()) | {"lines": len(sources), "bleu": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
