"""Estimates the time of a sweep from its finished runs, else by training each setting for a moment."""

from statistics import fmean

import torch

from pellucid.data.locate import resolve_paths
from pellucid.data.prepare import Corpus, open_corpus, train_tokenizers
from pellucid.planning.pace import measure_throughput, sample_shard
from pellucid.planning.settings import find_model_config
from pellucid.sweep.experiment import Experiment
from pellucid.sweep.file import Sweep, Trial

SECONDS = 1.0
"""The time for which each setting trains."""
SAMPLE = 5_000  # pairs


def estimate_seconds(experiment: Experiment) -> dict[str, float]:
    """Returns the estimated seconds of training per setting, by its name; settings without an estimate are left out.

    The estimate excludes validation and scoring, and other work on the machine increases it.
    """
    sweep, found = experiment.sweep, dict[str, float]()
    for setting in sweep.settings:
        trials = [trial for trial in sweep.trials if trial.setting is setting]
        results = [run.seconds for t in trials if (run := experiment.summarize_runs().get(t.name)) and run.seconds]
        if results:
            found[setting.name] = fmean(results)
        elif (
            trials[0].recipe.task == "translate"
            and not trials[0].recipe.train.init_from
            and (measured := _measure_seconds(sweep, trials[0])) is not None
        ):
            found[setting.name] = measured
    return found


def _measure_seconds(sweep: Sweep, trial: Trial) -> float | None:
    """Returns the seconds of a training run; None if the first pairs are all too long or empty."""
    recipe, threads = trial.recipe, torch.get_num_threads()
    corpus = open_corpus(resolve_paths(recipe.data, sweep.data_dir or None), recipe.task)
    assert isinstance(corpus, Corpus), "a translator's texts are pairs"
    tokenizers = train_tokenizers(corpus)
    pairs = [pair for _, pair in zip(range(SAMPLE), corpus.train(), strict=False)]
    longest = recipe.data.max_length
    encoded = [(tokenizers.source.encode(a), tokenizers.target.encode(b), a, b) for a, b in pairs]
    kept = [each for each in encoded if 0 < len(each[0]) <= longest and 0 < len(each[1]) <= longest]
    if not kept:
        return None
    sources, targets, source_texts, target_texts = zip(*kept, strict=True)
    torch.set_num_threads(sweep.threads)
    try:
        pace = measure_throughput(
            find_model_config(recipe, tokenizers), recipe.train,
            sample_shard(sources, targets, source_texts, target_texts), None, torch.device("cpu"), SECONDS,
        )  # fmt: skip
    finally:
        torch.set_num_threads(threads)
    train = recipe.train
    return train.steps * train.accumulate * pace.tokens_per_batch / pace.tokens_per_second
