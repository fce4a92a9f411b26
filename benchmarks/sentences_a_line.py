"""BLEU of runs on lines of one, two, three and five sentences, read whole (`off`) and sentence by sentence (`auto`).

    for part in 0.0 0.1; do for seed in 1 2; do
      OMP_NUM_THREADS=1 pellucid train multi30k-de-en --data-dir DATA --out runs/c$part-s$seed \
        --set model.d_model=64 --set model.d_ff=256 --set model.dropout=0.1 --set train.steps=2200 \
        --set train.batch_tokens=1024 --set train.schedule=stable --set train.warmup_steps=176 \
        --set train.save_every=66 --set train.precision=float32 --set train.seed=$seed --set data.concatenate=$part
    done; done
    python benchmarks/sentences_a_line.py runs/* --out benchmarks/results/DATE-sentences-a-line.json

Neighbouring validation pairs are joined with a space, in the order of the file; what is left at its end is not used.
The search is greedy.
"""

import argparse
import json
import warnings
from pathlib import Path

from sacrebleu import corpus_bleu

from pellucid.data.corpus import read_pairs
from pellucid.tasks.translator import LongText, Translator
from pellucid.workflow.run_folder import RunFolder, stored_recipe

SENTENCES = (1, 2, 3, 5)


def lines_of(pairs: list[tuple[str, str]], sentences: int) -> list[tuple[str, str]]:
    """Returns as many pairs a line, source and target."""
    groups = zip(*[iter(pairs)] * sentences, strict=False)
    return [(" ".join(s.strip() for s, _ in group), " ".join(t.strip() for _, t in group)) for group in groups]


def measured(run: Path, count: int | None) -> dict[str, object]:
    """Returns what a run was trained with, its validation loss, and its BLEU by sentences a line."""
    recipe, result = stored_recipe(run), RunFolder(run).result
    assert result is not None, f"{run} has not finished"
    pairs = list(read_pairs(recipe.data.valid_src, recipe.data.valid_tgt))[:count]
    translator = Translator.load(run, device="cpu")
    bleu: dict[str, dict[str, float]] = {}
    for segment in ("off", "auto"):
        bleu[segment] = {}
        for sentences in SENTENCES:
            sources, references = zip(*lines_of(pairs, sentences), strict=True)
            found = translator.translate(sources, beam_size=1, segment=segment)
            score = corpus_bleu([t.text for t in found], [references]).score
            bleu[segment][str(sentences)] = round(score, 2)
            print(f"{run.name} {segment} {sentences}: {bleu[segment][str(sentences)]}")
    return {
        "concatenate": recipe.data.concatenate,
        "seed": recipe.train.seed,
        "steps": result.steps,
        "tokens": result.tokens,
        "valid_loss": round(result.valid_loss, 4),
        "pairs": len(pairs),
        "bleu": bleu,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--pairs", type=int, help="only so many validation pairs")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore", LongText)
    rows = [measured(run, args.pairs) for run in args.runs]
    if args.out:
        args.out.write_text(json.dumps({"format": "pellucid-sentences/1", "runs": rows}, indent=2) + "\n")
