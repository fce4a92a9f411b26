"""Which initial weights train better at first?

    python benchmarks/initialisation.py --data-dir DATA [--recipe tiny-shakespeare --steps 300] > initialisation.json

Trains the first steps of a recipe with each, several seeds, and prints the validation losses as JSON: `ours`;
`xavier`, tutorials' Xavier uniform for embeddings, too; `shrunk` and `full`, what a pre-norm sublayer adds divided by
the root of the number of sums in its stack, or not; `gpt2`, all of GPT-2's (normal, deviation 0.02, sums shrunk).
docs/decisions/0004-initialisation.md draws on it.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

from report import circumstances, positive, print_json, refusals_in_words
from torch import nn

import pellucid
from pellucid.config import ModelConfig
from pellucid.model.initialisation import initialise
from pellucid.model.layers import Decoder, Encoder

Initialiser = Callable[[nn.Module, ModelConfig], None]


def xavier(model: nn.Module, config: ModelConfig) -> None:
    """Xavier uniform for embeddings as well."""
    initialise(model, config)
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.xavier_uniform_(module.weight)


def shrunk(model: nn.Module, config: ModelConfig) -> None:
    """Sublayers' last matrices divided by the root of their number, in all models."""
    full(model, config)
    for matrix, count in ends_of_sublayers(model):
        matrix.data *= count**-0.5


def full(model: nn.Module, config: ModelConfig) -> None:
    """None of them divided."""
    initialise(model, config)
    if config.norm == "pre" and not config.scale_embeddings:
        for matrix, count in ends_of_sublayers(model):
            matrix.data *= count**0.5


def gpt2(model: nn.Module, config: ModelConfig) -> None:
    """GPT-2's: normal with deviation 0.02, sublayers' last matrices divided."""
    initialise(model, config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    for matrix, count in ends_of_sublayers(model):
        matrix.data *= count**-0.5


def ends_of_sublayers(model: nn.Module) -> list[tuple[nn.Parameter, int]]:
    """The matrices that the sublayers of each stack end with, and how many there are."""
    found = []
    for stack in (module for module in model.modules() if isinstance(module, Encoder | Decoder)):
        ends = [p for name, p in stack.named_parameters() if name.endswith(("out_proj.weight", "down_proj.weight"))]
        found += [(matrix, len(ends)) for matrix in ends]
    return found


VARIANTS: dict[str, Initialiser] = {
    "ours": initialise, "xavier": xavier, "shrunk": shrunk, "full": full, "gpt2": gpt2,
}  # fmt: skip


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default="")
    parser.add_argument("--recipe", default="multi30k-de-en")
    parser.add_argument("--steps", type=positive, default=600)
    parser.add_argument("--warmup", type=int, help="steps of warm-up (default: the recipe's own)")
    parser.add_argument("--seeds", type=positive, default=2)
    parser.add_argument("--set", action="append", default=[], help="a setting of the recipe, section.key=value")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    options = parser.parse_args(argv)
    found: dict[str, list[float]] = {name: [] for name in options.variants}
    for seed in range(1, options.seeds + 1):
        for name in options.variants:
            found[name].append(validation_loss(VARIANTS[name], seed, options))
            print(f"{name}, seed {seed}: {found[name][-1]}", file=sys.stderr)
    print_json(circumstances(__file__, argv) | {"validation_loss": found})
    return 0


def validation_loss(variant: Initialiser, seed: int, options: argparse.Namespace) -> float:
    """After the first steps, nats a token."""
    steps: int = options.steps
    settings = [f"train.seed={seed}", f"train.steps={steps}", "train.average=1", f"train.validate_every={steps}"]
    settings += options.set
    settings += [] if options.warmup is None else [f"train.warmup_steps={options.warmup}"]
    places = [f"pellucid.model.{name}.initialise" for name in ("transformer", "families")]
    with patch(places[0], variant), patch(places[1], variant), tempfile.TemporaryDirectory() as folder:
        result = pellucid.train(
            options.recipe, Path(folder) / "run", overrides=settings, data_dir=options.data_dir, quiet=True
        )
    return round(result.valid_loss, 4)


if __name__ == "__main__":
    sys.exit(main())
