"""How a translator, a classifier and a language model show themselves in an interpreter: in one line."""

from collections.abc import Iterable, Mapping

from pellucid.model.families import Model

FEW = 4


def summary(task: object, model: Model, vocabularies: Mapping[str, int], *more: str) -> str:
    """Returns `Translator(Transformer of 3 + 3 layers, d_model 256, 9,847,808 parameters on cpu; bpe of 8,000; ...)`.

    `vocabularies` are the sizes of the tokenizers' vocabularies, by what each is called; `more` what the task adds.
    """
    config, parameters = model.config, list(model.parameters())
    stacks = [str(n) for n in (config.num_encoder_layers, config.num_decoder_layers) if n]
    about = (
        f"{type(model).__name__} of {' + '.join(stacks)} layers, d_model {config.d_model}, "
        f"{sum(p.numel() for p in parameters):,} parameters on {parameters[0].device}"
    )
    tokens = ", ".join(f"{name} of {size:,}" for name, size in vocabularies.items())
    return f"{type(task).__name__}({'; '.join(part for part in (about, tokens, *more) if part)})"


def listing(names: Iterable[str]) -> str:
    """Returns the first names, and how many more there are."""
    found = list(names)
    return ", ".join(found[:FEW]) + (f" and {len(found) - FEW} more" if len(found) > FEW else "")
