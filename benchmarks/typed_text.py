"""What does text as people type it cost, with and without the restoration of case, diacritics and spelling?

    python benchmarks/typed_text.py RUN --src val.de --ref val.en > benchmarks/results/DATE-typed-text.json

BLEU (sacreBLEU, lower-cased) of a run on the same lines written in other ways, as they are read (`off`) and restored
(`auto`), with the count of lines that the restoration makes equal to the original ones. JSON goes to standard output.
"""

import argparse
import sys
import unicodedata
import warnings
from collections.abc import Callable, Sequence
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


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the run folder of a translator")
    parser.add_argument("--src", required=True, help="sources that the model was not trained on")
    parser.add_argument("--ref", required=True, help="their references")
    parser.add_argument("--limit", type=positive, help="only the first pairs")
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore", LongTextWarning)
    translator = Translator.load(arguments.run, device="cpu")
    if translator.word_forms is None:
        raise DataError(f"the run `{arguments.run}` has no `word_forms.json`", "train it with this version")
    sources, references = zip(*list(read_pairs(arguments.src, arguments.ref))[: arguments.limit], strict=True)
    rows = {}
    for name, change in SPELLINGS.items():
        lines = [*map(change, sources)]
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
