"""Claim: a sentence's translation does not depend on the batch it stands in.

    python benchmarks/batch_invariance.py MODEL --input SOURCE > invariance.json

Translates every line one at a time and in batches of several budgets, greedily and with a beam of 5; counts the lines
whose text differs, and takes the largest difference of a score. Exits with 1 where a text differs, or a score by more
than 1e-4.
"""

import argparse
import sys
from collections.abc import Sequence

from report import circumstances, print_json, refusals_in_words

from pellucid.data.lines import read_lines
from pellucid.process import keep_freed_memory
from pellucid.tasks.translator import Translator

BUDGETS = (200, 1000, 4096, 20_000)


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--input", required=True)
    options = parser.parse_args(argv)
    keep_freed_memory()
    translator, lines = Translator.load(options.model, engine="torch"), list(read_lines(options.input))
    found = {}
    for beam_size in (1, 5):
        alone = translator.translate(lines, beam_size=beam_size, batch_tokens=1)
        for budget in BUDGETS:
            together = translator.translate(lines, beam_size=beam_size, batch_tokens=budget)
            pairs = list(zip(alone, together, strict=True))
            found[f"beam {beam_size}, {budget} tokens"] = {
                "lines": len(lines),
                "texts that differ": sum(a.text != b.text for a, b in pairs),
                "largest difference of a score": max(abs(a.score - b.score) for a, b in pairs),
            }
            print(
                f"beam {beam_size}, {budget} tokens:",
                *found[f"beam {beam_size}, {budget} tokens"].values(),
                file=sys.stderr,
            )
    print_json(circumstances(__file__, argv) | {"found": found})
    return int(any(f["texts that differ"] or f["largest difference of a score"] > 1e-4 for f in found.values()))


if __name__ == "__main__":
    sys.exit(main())
