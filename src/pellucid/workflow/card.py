"""The model card: README.md of a model folder."""

from pathlib import Path

from pellucid.config import ModelConfig, Recipe

USES = {
    "translate": ("translation", "A translator", "pellucid translate FOLDER < source.txt > target.txt"),
    "classify": ("text-classification", "A classifier", "pellucid classify FOLDER < texts.txt > labels.txt"),
    "generate": ("text-generation", "A language model", "pellucid generate FOLDER < prompts.txt"),
}
"""The hubs' name of a task, what its model is, and how it is used."""


def model_card(recipe: Recipe, config: ModelConfig) -> str:
    """The card, in Markdown with the YAML head that model hubs read. It names no path, host or time."""
    data, digest = recipe.data, recipe.train.init_sha256
    tag, what, use = USES[recipe.task]
    sides = ("src",) if recipe.task == "generate" else ("src", "tgt")
    start = f"\n| started from | weights with SHA-256 {digest} |" if digest else ""
    return f"""---
library_name: pellucid
pipeline_tag: {tag}
---

# {recipe.name}

{recipe.description or f"{what} trained with Pellucid."}

| | |
| --- | --- |
| encoder / decoder layers | {config.num_encoder_layers} / {config.num_decoder_layers} |
| d_model, d_ff, heads | {config.d_model}, {config.d_ff}, {config.num_heads} |
| vocabulary | {config.src_vocab_size:,} / {config.tgt_vocab_size:,} ({Path(data.tokenizer).name}) |
| trained on | {", ".join(Path(path).name for side in sides for path in data.files(side))} |
| steps | at most {recipe.train.steps:,}, of about {recipe.train.batch_tokens:,} tokens |{start}

    {use}
"""
