"""A page parts a line into sentences by the browser's Intl.Segmenter, Python by sentencex: on how many lines alike?

    python benchmarks/page_sentences.py --data-dir DATA > page_sentences.json

All lines of Multi30k, training, validation and test, in German, English, French and Czech, with each language's own
code. Both sides have Pellucid's rules besides. Needs Node.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from page_tokens import LANGUAGES, in_node, multi30k_lines
from report import circumstances, positive, print_json, refusals_in_words

from pellucid.text.sentences import split_sentences

IN_NODE = """const { sentences } = await viewer("text/sentences.js");
return a.lines.map((line) => sentences(line, a.language));"""
PARTS = ("train", "val", "test_2016_flickr")


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Compares each language, and names the first lines that are parted otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="a folder with multi30k/train.de.gz and so on")
    parser.add_argument("--limit", type=positive, help="the first lines of each language alone")
    args = parser.parse_args(argv)
    rows = []
    for language in LANGUAGES:
        lines = multi30k_lines(args.data_dir, PARTS, [language])[: args.limit]
        found = in_node(IN_NODE, {"lines": lines, "language": language})
        unlike = [
            (line, mine, page)
            for line, page in zip(lines, found, strict=True)
            if (mine := split_sentences(line, language)) != page
        ]
        rows.append({"language": language, "lines": len(lines), "equal": len(lines) - len(unlike)})
        print(f"{language}: {len(lines) - len(unlike):,} of {len(lines):,} lines parted alike", file=sys.stderr)
        for _, mine, page in unlike[:3]:
            print(f"  {' | '.join(mine)}\n  in the page: {' | '.join(page)}", file=sys.stderr)
    print_json(circumstances(__file__, argv, ["sentencex"]) | {"languages": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
