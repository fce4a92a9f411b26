"""The model card: README.md of a model folder."""

from pathlib import Path

from pellucid.config import ModelConfig, Recipe


def model_card(recipe: Recipe, config: ModelConfig) -> str:
    """The card, in Markdown with the YAML head that model hubs read. It names no path, host or time."""
    data, digest = recipe.data, recipe.train.init_sha256
    start = f"\n| started from | weights with SHA-256 {digest} |" if digest else ""
    return f"""---
library_name: pellucid
pipeline_tag: translation
---

# {recipe.name}

{recipe.description or "A translator trained with Pellucid."}

| | |
| --- | --- |
| encoder / decoder layers | {config.num_encoder_layers} / {config.num_decoder_layers} |
| d_model, d_ff, heads | {config.d_model}, {config.d_ff}, {config.num_heads} |
| vocabulary | {config.src_vocab_size:,} / {config.tgt_vocab_size:,} ({Path(data.tokenizer).name}) |
| trained on | {", ".join(Path(path).name for side in ("src", "tgt") for path in data.files(side))} |
| steps | at most {recipe.train.steps:,}, of about {recipe.train.batch_tokens:,} tokens |{start}

    pellucid translate FOLDER < source.txt > target.txt
"""
