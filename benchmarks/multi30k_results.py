"""What runs on Multi30k score on its test of 2016, as a table: by Pellucid's own scores, and by the papers' multi-bleu.

    python benchmarks/multi30k_results.py --data-dir DATA RUN [RUN ...] > multi30k.json

Runs whose recipes differ in the seed alone are one row: the mean, and the sample standard deviation over the runs. The
languages are those of the recipe's training texts. Every score but the greedy one is of a beam of 5, with the model's
own length penalty, or with the one given; `--text val` has the validation text in place of the test. The Markdown table
goes to standard error; the JSON has each run, with confidence intervals.

Needs sacremoses, of the extra `dev`.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from multi_bleu import LANGUAGES, moses_tokens, multi_bleu
from report import circumstances, print_json, refusals_in_words

from pellucid.config import DataConfig, Recipe
from pellucid.data.lines import read_pairs
from pellucid.data.locate import TEXT_FIELDS, resolve_paths
from pellucid.errors import DataError
from pellucid.evaluation.scores import score_corpus
from pellucid.process import keep_freed_memory
from pellucid.run.folder import RunFolder, read_stored_recipe
from pellucid.tasks.translator import Translator

TEXTS = ("test_2016_flickr", "val")
COLUMNS = {
    "bleu": "sacreBLEU",
    "bleu_lowercase": "lower-cased",
    "bleu_greedy": "greedy",
    "chrf": "chrF",
    "multi_bleu": "multi-bleu",
}


def languages(recipe: Recipe) -> tuple[str, str]:
    """Source and target, by the names of the training texts. Raises DataError where they are not Multi30k's."""
    return _language(recipe.data.files("src")), _language(recipe.data.files("tgt"))


def _language(files: Sequence[str]) -> str:
    """By the first of the files."""
    path = files[0] if files else ""
    language = Path(path).name.removesuffix(".gz").rpartition(".")[2]
    if language not in LANGUAGES:
        raise DataError(f"`{path}` names no language of Multi30k", f"it should end in one of {', '.join(LANGUAGES)}")
    return language


def without_seed(recipe: Recipe) -> str:
    """What runs of one recipe have in common, wherever their texts lay."""
    names: dict[str, Any] = {
        field: " ".join(Path(path).name for path in recipe.data.files(field)) for field in TEXT_FIELDS
    }
    return replace(recipe, train=replace(recipe.train, seed=1), data=replace(recipe.data, **names)).to_toml()


def check_seeds(group: Sequence[tuple[Path, Recipe]]) -> None:
    """Raises DataError where two runs of a recipe have the same seed, and so nothing to take a deviation of."""
    folders: dict[int, Path] = {}
    for folder, recipe in group:
        if recipe.train.seed in folders:
            raise DataError(
                f"`{folders[recipe.train.seed]}` and `{folder}` are runs of one recipe with the same seed "
                f"({recipe.train.seed})",
                "name one of them",
            )
        folders[recipe.train.seed] = folder


def measure(folder: Path, recipe: Recipe, options: argparse.Namespace) -> dict[str, Any]:
    """All scores of one run."""
    src, tgt = languages(recipe)
    text = f"multi30k/{options.text}"
    test = resolve_paths(DataConfig(src=f"{text}.{src}.gz", tgt=f"{text}.{tgt}.gz"), options.data_dir)
    sources, references = zip(*read_pairs(str(test.src), str(test.tgt)), strict=True)
    translator = Translator.load(folder, options.device)
    if options.length_penalty is not None:
        translator.decode = replace(translator.decode, length_penalty=options.length_penalty)
    outputs, greedy = ([t.text for t in translator.translate(sources, beam_size=beam)] for beam in (5, 1))
    scores, greedy_scores = (score_corpus(lines, references) for lines in (outputs, greedy))
    papers = multi_bleu(moses_tokens(outputs, tgt), moses_tokens(references, tgt))
    return {
        "run": str(folder),
        "seed": recipe.train.seed,
        "finished": RunFolder(folder).result is not None,
        "parameters": sum(parameter.numel() for parameter in translator.model.parameters()),
        "length_penalty": translator.decode.length_penalty,
        **scores.to_json(),
        "bleu_greedy": greedy_scores.bleu,
        "bleu_greedy_interval": greedy_scores.bleu_interval,
        "multi_bleu": papers.score,
        "multi_bleu_line": str(papers),
    }


def summarise(recipe: Recipe, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The runs of one recipe: mean and, of two and more, sample standard deviation of each score."""
    columns = {
        name: {
            "mean": statistics.mean(values),
            "standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
        }
        for name, values in ((name, [run[name] for run in runs]) for name in COLUMNS)
    }
    src, tgt = languages(recipe)
    return {"recipe": recipe.name, "direction": f"{src}-{tgt}", **columns, "runs": runs}


def markdown(recipes: Sequence[dict[str, Any]], text: str) -> str:
    """A row a recipe."""
    names = ["recipe", "direction", "runs", "parameters", *COLUMNS.values()]
    rows = [
        [
            recipe["recipe"],
            recipe["direction"],
            str(len(recipe["runs"])),
            " or ".join(sorted({f"{run['parameters'] / 1e6:.2f} M" for run in recipe["runs"]})),
            *(_cell(recipe[name]) for name in COLUMNS),
        ]
        for recipe in recipes
    ]
    lines = ["| " + " | ".join(row) + " |" for row in (names, ["---"] * len(names), *rows)]
    run = recipes[0]["runs"][0]
    notes = [
        f"{text}, beam 5 but for greedy; ± is the sample standard deviation over the runs",
        f"sacreBLEU and greedy: {run['signature']}",
        f"lower-cased: {run['signature_lowercase']}",
        f"chrF: {run['chrf_signature']}",
        "multi-bleu: of lower-cased, normalized, Moses-tokenized text, as in .lc.norm.tok",
    ]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)])


def _cell(column: dict[str, float | None]) -> str:
    spread = column["standard_deviation"]
    return f"{column['mean']:.2f}" + ("" if spread is None else f" ± {spread:.2f}")


def results(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The runs by recipe, in the order in which recipes first come."""
    groups: dict[str, list[tuple[Path, Recipe]]] = {}
    for folder in options.runs:
        recipe = read_stored_recipe(folder)
        languages(recipe)
        groups.setdefault(without_seed(recipe), []).append((folder, recipe))
    for group in groups.values():
        check_seeds(group)
    found = []
    for group in groups.values():
        runs = []
        for folder, recipe in group:
            runs.append(measure(folder, recipe, options))
            state = "" if runs[-1]["finished"] else " (not finished)"
            print(f"{folder}{state}: BLEU {runs[-1]['bleu']:.2f}, {runs[-1]['multi_bleu_line']}", file=sys.stderr)
        found.append(summarise(group[0][1], runs))
    return found


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Measures the runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders")
    parser.add_argument("--data-dir", help="holds multi30k/test_2016_flickr.de.gz and so on; else PELLUCID_DATA")
    parser.add_argument("--text", choices=TEXTS, default=TEXTS[0])
    parser.add_argument("--length-penalty", type=float, help="default: that of each run")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(argv)
    keep_freed_memory()
    recipes = results(options)
    print(f"\n{markdown(recipes, options.text)}", file=sys.stderr)
    print_json(circumstances(__file__, argv, ["sacrebleu", "sacremoses"]) | {"recipes": recipes})
    return 0


if __name__ == "__main__":
    sys.exit(main())
