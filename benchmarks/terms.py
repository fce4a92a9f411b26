"""Are the terms that a translation must hold used, and what do they cost or gain?

    python benchmarks/terms.py RUN --data-dir DATA > benchmarks/results/DATE-terms.json

Of each validation pair (with --split test_2016_flickr of each test pair) a noun of the reference is drawn (--count),
and the translation must hold it: the search never sees the rest of the reference. Nouns are told by where words stand
in the training text: half of the times before what ends a noun phrase, one time in ten right behind a determiner. With
--missing only nouns that the free translation lacks are drawn, which is what a person would correct. Told are the share
of terms that stand in the translation as whole words, of the lines with terms BLEU and length, BLEU of all lines,
without and with them, and the seconds of both. JSON goes to standard output.
"""

import argparse
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from report import circumstances, positive, print_json, refusals_in_words
from sacrebleu import corpus_bleu

from pellucid.data.lines import read_lines, read_pairs
from pellucid.tasks.segmenter import LongTextWarning
from pellucid.tasks.translator import Translator
from pellucid.text.words import tokenize_words

DETERMINERS = frozenset(
    tokenize_words("a an the his her their its two three four five some several many this that another")
)
BEHIND = frozenset(
    tokenize_words(". , ; and or is are in on at of with to for from by near under while that who which has")
)
LEAST = 20
"""The times that a word is seen in the training text before it is called a noun."""


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a translator from German to English")
    parser.add_argument("--data-dir", type=Path, required=True, help="where multi30k/train.en.gz and the others lie")
    parser.add_argument("--split", default="val", help="the pairs to translate: val or test_2016_flickr")
    parser.add_argument("--count", type=positive, default=1, help="nouns a line, where it has so many")
    parser.add_argument("--missing", action="store_true", help="only nouns that the free translation lacks")
    parser.add_argument("--limit", type=positive, help="only the first pairs")
    parser.add_argument("--beam-size", type=positive, default=5)
    parser.add_argument("--length-penalty", type=float, help="(the model's own)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore", LongTextWarning)
    folder = arguments.data_dir / "multi30k"
    names = nouns(read_lines(folder / "train.en.gz"))
    files = [str(folder / f"{arguments.split}.{language}.gz") for language in ("de", "en")]
    pairs = list(read_pairs(*files))[: arguments.limit]
    print_json(circumstances(__file__, argv, ()) | {"nouns": len(names)} | measured(pairs, names, arguments))
    return 0


def nouns(lines: Iterable[str]) -> frozenset[str]:
    """Returns the words of a text that stand where nouns stand: half of the times before what ends a noun phrase, and
    now and then right behind a determiner."""
    seen, led, ended = Counter[str](), Counter[str](), Counter[str]()
    for line in lines:
        words = ["", *tokenize_words(line.lower()), "."]
        for before, word, after in zip(words, words[1:], words[2:], strict=False):
            if word.isalpha():
                seen[word] += 1
                led[word] += before in DETERMINERS
                ended[word] += after in BEHIND
    return frozenset(
        word
        for word, count in seen.items()
        if count >= LEAST and ended[word] >= count / 2 and led[word] >= count / 10 and word not in DETERMINERS | BEHIND
    )


def drawn(text: str, free: str, names: frozenset[str], arguments: argparse.Namespace, number: int) -> list[str]:
    """Returns some nouns of a reference, by the seed and the number of its line."""
    words = [word for word in dict.fromkeys(tokenize_words(text)) if word in names]
    if arguments.missing:
        words = [word for word in words if not used(word, free)]
    return random.Random(f"{arguments.seed} {number}").sample(words, min(arguments.count, len(words)))


def used(term: str, text: str) -> bool:
    """Tells whether a term stands in a text as a whole word; at the beginning it may have a capital."""
    return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text[:1].lower() + text[1:]) is not None


def measured(pairs: Sequence[tuple[str, str]], names: frozenset[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns what the translation of the pairs is without and with terms."""
    translator = Translator.load(arguments.model, device="cpu")
    sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
    how = {"beam_size": arguments.beam_size, "length_penalty": arguments.length_penalty}
    begun = time.perf_counter()
    free = [t.text for t in translator.translate(sources, **how)]
    middle = time.perf_counter()
    terms = [drawn(text, own, names, arguments, i) for i, (text, own) in enumerate(zip(references, free, strict=True))]
    asked = [i for i, of_line in enumerate(terms) if of_line]
    print(f"{len(asked):,} of {len(pairs):,} lines have a term", file=sys.stderr)
    again = time.perf_counter()
    found = translator.translate(sources, **how, constraints=terms, segment="off")
    ended = time.perf_counter()
    held = [t.text for t in found]

    def bleu(texts: Sequence[str], places: Sequence[int]) -> float:
        return round(corpus_bleu([texts[i] for i in places], [[references[i] for i in places]]).score, 2)

    def share(texts: Sequence[str]) -> float:
        count = sum(map(len, terms))
        return round(sum(used(term, texts[i]) for i in asked for term in terms[i]) / max(1, count), 4)

    def lengths(texts: Sequence[str]) -> float:
        words = [sum(len(tokenize_words(side[i])) for i in asked) for side in (texts, references)]
        return round(words[0] / max(1, words[1]), 3)

    every = range(len(pairs))
    return {
        "lines": len(pairs),
        "lines with terms": len(asked),
        "terms": sum(map(len, terms)),
        "terms used": {"free": share(free), "held": share(held)},
        "BLEU of lines with terms": {"free": bleu(free, asked), "held": bleu(held, asked)} if asked else None,
        "words for each of the reference": {"free": lengths(free), "held": lengths(held)},
        "BLEU of all lines": {"free": bleu(free, every), "held": bleu(held, every)},
        "other texts without terms": sum(free[i] != held[i] for i in set(every) - set(asked)),
        "seconds": {"free": round(middle - begun, 2), "held": round(ended - again, 2)},
        "examples": [
            {"terms": terms[i], "free": free[i], "held": held[i], "reference": references[i]} for i in asked[:5]
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
