"""Does the page that holds a model write what Python writes, and what does it cost to round its weights?

    python benchmarks/page_translations.py RUN --src test.de --ref test.en > page-translations.json

The first --limit lines of --src are translated by Python and by the script of a page, in Node, with the
weights that the page carries: greedily and with a beam of 5; in float32, float16 and int8. Counted are the lines that
are equal, and of the others those whose search came so near to another outcome that rounding decides (docs/concepts/
search.md, near ties). BLEU is that of sacreBLEU. JSON goes to standard output.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from report import circumstances, positive, print_json, program, refusals_in_words
from sacrebleu import corpus_bleu

from pellucid.conversion.pages import Page, node
from pellucid.data.lines import read_pairs
from pellucid.decoding.batched_search import NEAR_TIE
from pellucid.tasks.translator import Translator
from pellucid.views.model_page import to_page
from pellucid.weights.export.page_weights import PageWeights

BEAMS = (1, 5)


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a translator's folder")
    parser.add_argument("--src", type=Path, required=True, help="lines to translate")
    parser.add_argument("--ref", type=Path, required=True, help="their references")
    parser.add_argument("--limit", type=positive, default=1000, help="the first lines")
    arguments = parser.parse_args(argv)
    program("node", "nodejs")
    sources, references = zip(*list(read_pairs(str(arguments.src), str(arguments.ref)))[: arguments.limit], strict=True)
    translator = Translator.load(arguments.run, device="cpu")
    ours = {beam: translator.translate(sources, beam_size=beam) for beam in BEAMS}
    rows = []
    with TemporaryDirectory() as workspace:
        for weights in get_args(PageWeights):
            path = to_page(translator, Path(workspace) / f"{weights}.html", weights)
            page = Page(path, translator.model.config)
            for beam, expected in ours.items():
                rows.append(compared(page, sources, references, [t.text for t in expected], beam))
                rows[-1] = {"weights": weights, "beam_size": beam, "megabytes": path.stat().st_size / 1e6} | rows[-1]
                print(rows[-1], file=sys.stderr)
    print_json(circumstances(__file__, argv, ()) | {"engine": node(), "lines": len(sources), "rows": rows})
    return 0


def compared(
    page: Page, sources: Sequence[str], references: Sequence[str], expected: Sequence[str], beam: int
) -> dict[str, Any]:
    """Returns how many lines the page translates as Python does, and BLEU of both."""
    found = [page.ask("translate", source, {"beamSize": beam}) for source in sources]
    texts = [one["text"] for one in found]
    others = [one for one, text, ours in zip(found, texts, expected, strict=True) if text != ours]
    ties = sum(any(part["margin"] < NEAR_TIE for part in one["parts"]) for one in others)
    bleu, of_ours = (corpus_bleu(list(side), [list(references)]).score for side in (texts, expected))
    return {
        "equal": len(sources) - len(others), "near_ties": ties,
        "bleu": round(bleu, 2), "bleu_of_python": round(of_ours, 2),
        "bleu_difference": round(bleu - of_ours, 2),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
