"""Claim: BLEU by `13a` tells bad from good neither in Chinese nor in Korean; by the tokenizer that we choose it does.

    python benchmarks/bleu_tokenizers.py > tokenizers.json

The references are the Korean words of the lines of this repository's Korean documentation, the same with a space
between no two words, and random Chinese characters in as many clauses. Of each character 60 to 95 of 100 are kept, the
others replaced by a character of the same text: what a score says of text that is right to that degree. Korean by the
dictionary (`ko-mecab`) stands beside it where that is installed.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from report import circumstances, positive, print_json

from pellucid.errors import ConfigError
from pellucid.evaluation.scores import corpus_scores
from pellucid.evaluation.tokenization import bleu_metric, script_of, tokenizer_for

ROOT = Path(__file__).parents[1]
KEPT = (0.6, 0.7, 0.8, 0.9, 0.95)
TOKENIZERS = ("13a", "intl", "zh", "char", "ko-mecab")


def main(argv: Sequence[str] | None = None) -> int:
    """Scores all, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=positive, help="only the first lines of each text, a trial of the script")
    options = parser.parse_args(argv)
    found = {name: scores_of(lines[: options.lines]) for name, lines in texts().items()}
    print_json(circumstances(__file__, argv, ["sacrebleu"]) | {"kept": KEPT, "found": found})
    return 0


def texts() -> dict[str, list[str]]:
    """References by the name of their script."""
    pages = sorted((ROOT / "docs" / "ko").rglob("*.md"))
    lines = [line.split() for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    words = [[word for word in line if script_of([word]) == "korean" and "`" not in word] for line in lines]
    korean = [" ".join(line) for line in words if len(line) > 5]
    draw = random.Random(1)
    characters = [chr(draw.randrange(0x4E00, 0x9FA5)) for _ in range(1500)]

    def clause() -> str:
        return "".join(draw.choices(characters, k=draw.randint(4, 9)))

    chinese = ["，".join(clause() for _ in range(draw.randint(1, 3))) + "。" for _ in korean]
    return {"korean": korean, "korean without spaces": ["".join(line.split()) for line in korean], "chinese": chinese}


def scores_of(references: list[str]) -> dict[str, object]:
    """BLEU by each tokenizer and chrF, of each degree of right characters; and what we choose."""
    draw = random.Random(2)
    inventory = sorted({char for line in references for char in line if char.isalpha()})
    outputs = [
        ["".join(c if not c.isalpha() or draw.random() < kept else draw.choice(inventory) for c in line)
         for line in references]
        for kept in KEPT
    ]  # fmt: skip
    table: dict[str, object] = {"lines": len(references), "chosen": tokenizer_for(references)}
    for tokenizer in TOKENIZERS:
        try:
            metric = bleu_metric(tokenizer)
        except ConfigError:
            continue
        table[tokenizer] = [round(float(metric.corpus_score(lines, [references]).score), 2) for lines in outputs]
    table["chrF"] = [round(corpus_scores(lines, references)[1], 2) for lines in outputs]
    print(table, file=sys.stderr)
    return table


if __name__ == "__main__":
    sys.exit(main())
