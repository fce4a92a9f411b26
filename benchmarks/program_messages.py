"""Writes a parallel corpus of what programs say to their users, from catalogs of messages (.mo) in one language.

    apt-get download inkscape vlc-l10n evolution-common digikam-data gimp-data audacity-data gnucash-common
    for package in *.deb; do dpkg -x "$package" catalogs; done
    python benchmarks/program_messages.py catalogs --language ko --out DATA/messages

Each catalog has the English message and its translation; Debian's packages bring tens of thousands, in most languages.
Left out are messages of several lines, of fewer than three words, those whose translation has other placeholders or is
no other text, and what was there before. The files are named as those of Multi30k, `train.ko.gz` and so on, in an order
that a hash decides: so the first 5,000 pairs are any 5,000. A thousand pairs each are for validation and for the test.
JSON says how many there are, and from which programs.
"""

import argparse
import gettext
import gzip
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from report import circumstances, print_json, refusals_in_words

from pellucid.errors import ConfigError

HELD_OUT = 1000
FEWEST_WORDS = 3
CONTEXT = "\x04"
"""What parts the context of a message from its text in a catalog."""
PLACEHOLDER = re.compile(r"%(?:\d+\$)?[-+ #0]*\d*(?:\.\d+)?(?:l{0,2}|z|h)[diouxXeEfgGcsp]|\{\w*\}|%\d+")
ACCELERATOR = re.compile(r"\s*\(_\w\)")
"""The letter of a key, as translations of other scripts have it behind the words."""


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Reads the catalogs, writes the corpus, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where catalogs lie, at any depth: LANGUAGE/LC_MESSAGES/*.mo")
    parser.add_argument("--language", required=True, help="a code, as `ko`")
    parser.add_argument("--out", type=Path, required=True, help="the folder for train, val and test")
    options = parser.parse_args(argv)
    catalogs = sorted(options.folder.glob(f"**/{options.language}/LC_MESSAGES/*.mo"), key=lambda path: path.name)
    if not catalogs:
        raise ConfigError(
            f"`{options.folder}` has no catalog of `{options.language}`", "unpack Debian packages there by `dpkg -x`"
        )
    pairs: dict[str, str] = {}
    programs: Counter[str] = Counter()
    for catalog in catalogs:
        for english, translation in messages(catalog):
            if english.casefold() not in pairs:
                pairs[english.casefold()] = f"{english}\t{translation}"
                programs[catalog.stem] += 1
    if len(pairs) <= 2 * HELD_OUT:
        raise ConfigError(
            f"the catalogs have {len(pairs):,} messages, and {2 * HELD_OUT:,} are held out", "unpack more packages"
        )
    ordered = sorted(pairs.values(), key=lambda pair: sha256(pair.encode()).digest())
    parts = {"val": ordered[:HELD_OUT], "test": ordered[HELD_OUT : 2 * HELD_OUT], "train": ordered[2 * HELD_OUT :]}
    options.out.mkdir(parents=True, exist_ok=True)
    for part, lines in parts.items():
        sides = zip(*(line.split("\t") for line in lines), strict=True)
        for side, texts in zip(("en", options.language), sides, strict=True):
            text = "".join(f"{line}\n" for line in texts)
            (options.out / f"{part}.{side}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    counts = {part: len(lines) for part, lines in parts.items()}
    print_json(circumstances(__file__, argv) | {"pairs": counts, "programs": dict(programs.most_common())})
    return 0


def messages(catalog: Path) -> Iterator[tuple[str, str]]:
    """Yields the messages of a catalog with their translations, as plain text: no context, no letters for keys."""
    for message, translation in entries(catalog):
        english, other = plain(message), plain(translation)
        if is_pair(english, other):
            yield english, other


def entries(catalog: Path) -> Iterator[tuple[str, str]]:
    """Yields the messages of a catalog with their translations as they stand there, but without context."""
    with catalog.open("rb") as file:
        try:
            found = gettext.GNUTranslations(file)
        except (OSError, UnicodeDecodeError) as error:
            print(f"{catalog.name} is left out: {error}", file=sys.stderr)
            return
    for message, translation in found._catalog.items():  # type: ignore[attr-defined]  # all of it, which has no name
        if isinstance(message, tuple):  # a plural: its first form
            message, number = message
            if number:
                continue
        if message:  # the empty one is the catalog's head
            yield message.split(CONTEXT)[-1], translation


def plain(text: str) -> str:
    """Returns a message without the marks of keys, as `_Open` and `(_O)` have them."""
    return ACCELERATOR.sub("", text.strip()).replace("_", "").strip()


def is_pair(english: str, translation: str) -> bool:
    """Tells whether a translation is one line, of another spelling, with the same placeholders."""
    if any(mark in text for text in (english, translation) for mark in "\n\t\r") or not translation:
        return False
    if len(english.split()) < FEWEST_WORDS or english.casefold() == translation.casefold():
        return False
    placeholders = [Counter(PLACEHOLDER.findall(text)) for text in (english, translation)]
    return placeholders[0] == placeholders[1]


if __name__ == "__main__":
    sys.exit(main())
