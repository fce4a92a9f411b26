"""Which embeddings train better at first: normal with deviation d_model^-0.5, or Xavier uniform as tutorials have them?

    python benchmarks/initialisation.py --data-dir DATA

Trains the recipe multi30k-de-en for its first steps with each, several seeds, and prints validation loss and BLEU as
JSON. Runs through pellucid.train; the runs lie in a temporary folder.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

from report import circumstances, print_json
from torch import nn

import pellucid
from pellucid.model.transformer import Transformer


class XavierEmbeddings(Transformer):
    """The Transformer with Xavier uniform for every matrix, embeddings included."""

    def _initialise(self) -> None:
        super()._initialise()
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.xavier_uniform_(module.weight)


def main(argv: list[str] | None = None) -> int:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", default="")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args(argv)
    found: dict[str, list[dict[str, float | None]]] = {"normal": [], "xavier": []}
    for seed in range(1, options.seeds + 1):
        for name, model in (("normal", Transformer), ("xavier", XavierEmbeddings)):
            found[name].append(_train(model, seed, options.steps, options.data_dir))
            print(f"{name}, seed {seed}: {found[name][-1]}", file=sys.stderr)
    given = sys.argv[1:] if argv is None else argv
    print_json(circumstances(__file__, given) | {"steps": options.steps, "found": found})
    return 0


def _train(model: type[Transformer], seed: int, steps: int, data_dir: str) -> dict[str, float | None]:
    settings = (f"train.seed={seed}", f"train.steps={steps}", f"train.warmup_steps={steps // 4}", "train.average=1",
                f"train.validate_every={steps}")  # fmt: skip
    with patch("pellucid.workflow.train.Transformer", model), tempfile.TemporaryDirectory() as folder:
        result = pellucid.train(
            "multi30k-de-en", Path(folder) / "run", overrides=settings, data_dir=data_dir, quiet=True
        )
    return {"seed": seed, "valid_loss": round(result.valid_loss, 4), "valid_bleu": result.valid_bleu}


if __name__ == "__main__":
    sys.exit(main())
