"""What do several sentences on a line cost, and what mends it: cutting the line, or training on such lines?

    for part in 0.0 0.1; do for seed in 1 2; do
      OMP_NUM_THREADS=1 pellucid train multi30k-de-en --data-dir DATA --out runs/c$part-s$seed \
        --set model.d_model=64 --set model.d_ff=256 --set model.dropout=0.1 --set train.steps=2200 \
        --set train.batch_tokens=1024 --set train.schedule=wsd --set train.warmup_steps=176 \
        --set train.save_every=66 --set train.optimizer=adam --set train.precision=float32 --set train.seed=$seed \
        --set data.concatenate=$part
    done; done
    python benchmarks/sentences_a_line.py runs/* > benchmarks/results/DATE-sentences.json

BLEU of each given run on its own validation pairs, or on those of --src and --ref, one, two, three and five a line,
read whole (`off`) and sentence by sentence (`auto`). Neighbouring pairs are joined with a space, in the order of the
file; what is left at its end is not used. With --spellings the pairs are also typed in other ways, one a line, which
must not change a translation: the count of those that change. The search is greedy unless --beam-size says otherwise.
JSON goes to standard output.
"""

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from report import circumstances, positive, print_json, refusals_in_words
from sacrebleu import corpus_bleu
from scripts import SPELLINGS

from pellucid.data.lines import read_pairs
from pellucid.errors import DataError
from pellucid.run.folder import RunFolder, read_stored_recipe
from pellucid.tasks.segmenter import LongTextWarning
from pellucid.tasks.translator import Translator

SENTENCES = (1, 2, 3, 5)


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="finished run folders of translators")
    parser.add_argument("--src", type=Path, help="sources; without them the run's own validation pairs")
    parser.add_argument("--ref", type=Path, help="their references")
    parser.add_argument("--limit", type=positive, help="only the first pairs")
    parser.add_argument("--beam-size", type=positive, default=1)
    parser.add_argument("--spellings", action="store_true", help="count translations that other spaces change")
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore", LongTextWarning)
    rows = [measured(run, arguments) for run in arguments.runs]
    print_json(circumstances(__file__, argv, ()) | {"runs": rows})
    return 0


def lines_of(pairs: Sequence[tuple[str, str]], sentences: int) -> list[tuple[str, str]]:
    """Returns lines, source and target, of so many pairs each."""
    groups = zip(*[iter(pairs)] * sentences, strict=False)
    return [(" ".join(s.strip() for s, _ in group), " ".join(t.strip() for _, t in group)) for group in groups]


def measured(run: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns what a run was trained with, its validation loss, its BLEU by sentences a line, and by spelling how many
    translations are others."""
    recipe, result = read_stored_recipe(run), RunFolder(run).result
    if result is None:
        raise DataError(f"the run `{run}` has not finished", "give the command that began it once more")
    texts = (arguments.src, arguments.ref) if arguments.src else (recipe.data.valid_src, recipe.data.valid_tgt)
    pairs = list(read_pairs(*map(str, texts)))[: arguments.limit]
    translator = Translator.load(run, device="cpu")
    bleu: dict[Literal["off", "auto"], dict[int, float]] = {"off": {}, "auto": {}}
    for segment, scores in bleu.items():
        for sentences in SENTENCES:
            sources, references = zip(*lines_of(pairs, sentences), strict=True)
            found = translator.translate(sources, beam_size=arguments.beam_size, segment=segment)
            scores[sentences] = round(corpus_bleu([t.text for t in found], [references]).score, 2)
            print(f"{run.name}, {segment}, {sentences} a line: {scores[sentences]}", file=sys.stderr)
    lines = [source for source, _ in pairs]
    texts_of = {"as written": lambda line: line} | SPELLINGS if arguments.spellings else {}
    found_for = {
        name: [t.text for t in translator.translate([*map(change, lines)], beam_size=arguments.beam_size)]
        for name, change in texts_of.items()
    }
    return {
        "concatenate": recipe.data.concatenate,
        "seed": recipe.train.seed,
        "steps": result.steps,
        "target_tokens": result.tokens,
        "valid_loss": round(result.valid_loss, 4),
        "pairs": len(pairs),
        "bleu": bleu,
        "other translations": {
            name: sum(a != b for a, b in zip(found, found_for["as written"], strict=True))
            for name, found in found_for.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
