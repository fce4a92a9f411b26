"""`pellucid train`: from a recipe to a run folder, in one command that also resumes."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from pellucid.config import ModelConfig, Recipe
from pellucid.model.transformer import Transformer
from pellucid.tasks.devices import find_device
from pellucid.text.tokenizers import Tokenizers
from pellucid.training.log import RunLog
from pellucid.training.loop import Trainer
from pellucid.weights.folder import CONFIG, read_config, save_description, save_weights
from pellucid.workflow.card import model_card
from pellucid.workflow.locate import locate
from pellucid.workflow.prepare import Corpus, Prepared, open_corpus, prepare, train_tokenizers
from pellucid.workflow.process import keep_freed_memory
from pellucid.workflow.run_folder import RunFolder, RunResult, checkpoints_of
from pellucid.workflow.validate import Validator


def train(
    recipe: Recipe | str | Path,
    out: str | Path = "run",
    *,
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
    device: str = "auto",
    fresh: bool = False,
    quiet: bool = False,
) -> RunResult:
    """Trains a model into the folder `out`; called again with the same recipe, goes on where the run stands.

    On a finished run it does nothing and says so: `RunResult.already_finished`.

    Args:
        recipe: a Recipe, the name of a shipped one, or a TOML file.
        overrides: `section.key=value` settings that win over a named recipe's.
        data_dir: where the recipe's texts are looked for, after the paths as they are.
        fresh: removes an earlier run from `out` first.

    Raises ConfigError, DataError: a setting or a text that cannot be used, before anything is written or trained;
    Interrupted after SIGINT or SIGTERM, with the state saved.
    """
    if not isinstance(recipe, Recipe):
        recipe = Recipe.load(recipe, list(overrides))
    target = find_device(device)
    run = RunFolder(Path(out))
    resuming = run.check(recipe, fresh)
    if resuming and run.result is not None:
        return run.result
    recipe = replace(recipe, data=locate(recipe.data, data_dir))
    corpus = open_corpus(recipe.data)
    keep_freed_memory()
    # All that can be refused is refused before an earlier run is removed.
    tokenizers = _tokenizers(run.path, corpus, resuming, quiet)
    config = resolved_model(recipe.model, tokenizers)
    if not resuming:
        run.begin(recipe)
    log = RunLog(run.path, recipe.train.steps, quiet)
    try:
        prepared = prepare(corpus, tokenizers, run.path / "data", log, run.has_trained)
        return _train(recipe, config, run, prepared, log, target)
    finally:
        log.close()


def _train(
    recipe: Recipe, config: ModelConfig, run: RunFolder, prepared: Prepared, log: RunLog, device: torch.device
) -> RunResult:
    longest = min(recipe.decode.max_source_length, recipe.data.max_length, config.max_positions - 1)
    decode = replace(recipe.decode, max_source_length=longest)
    torch.manual_seed(recipe.train.seed)
    model = Transformer(config).to(device)
    log.say(f"model: {sum(p.numel() for p in model.parameters()):,} parameters on {device}")

    def keep() -> None:
        # What describes the model never changes, and stands only beside weights: so the folder loads at every moment.
        save_weights(run.path, model)
        if not (run.path / CONFIG).is_file():
            save_description(run.path, config, prepared.tokenizers, decode, model_card(recipe, config))

    started = time.perf_counter()
    trainer = Trainer(
        model=model,
        shard=prepared.train,
        config=recipe.train,
        checkpoints=checkpoints_of(run.path, recipe),
        log=log,
        validate=Validator(model, prepared, recipe.train),
        keep=keep,
    )
    state = trainer.train()
    assert state.best_loss is not None  # the last step validates
    result = RunResult(
        folder=str(run.path), steps=state.step, tokens=state.tokens, seconds=round(state.seconds, 1),
        best_step=state.best_step, valid_loss=state.best_loss, valid_bleu=state.best_bleu,
    )  # fmt: skip
    run.finish(result)
    log.say(f"finished after {time.perf_counter() - started:,.0f} s; the model is in {run.path}")
    return result


def resolved_model(config: ModelConfig, tokenizers: Tokenizers) -> ModelConfig:
    """The model's shape with the sizes and special ids of its tokenizers."""
    target = tokenizers.target
    return replace(
        config,
        src_vocab_size=tokenizers.source.size,
        tgt_vocab_size=target.size,
        pad_id=target.pad_id,
        bos_id=target.bos_id,
        eos_id=target.eos_id,
    )


def _tokenizers(folder: Path, corpus: Corpus, resuming: bool, quiet: bool) -> Tokenizers:
    """The run's tokenizers: those in its folder when it goes on, else new ones."""
    if resuming and (folder / CONFIG).is_file():
        return Tokenizers.load(folder, read_config(folder)["tokenizer"])
    if not quiet:
        print(f"training the tokenizer ({corpus.data.tokenizer})", file=sys.stderr)
    tokenizers = train_tokenizers(corpus)
    if not quiet:
        sizes = " and ".join(f"{size:,}" for size in sorted({tokenizers.source.size, tokenizers.target.size}))
        print(f"vocabulary: {sizes} (upper bound {corpus.data.vocab_size:,})", file=sys.stderr)
    return tokenizers
