"""`pellucid rerank`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Device, Dtype, Model, Threads, flag, optional, prepare_process


def rerank(
    model: Model,
    /,
    *,
    reverse: Annotated[
        str | None, optional("MODEL", "a translator of the other direction, with any tokenizer", "none")
    ] = None,
    lm: Annotated[str | None, optional("MODEL", "a language model of the target language, the same", "none")] = None,
    src: Annotated[str, tyro.conf.arg(metavar="FILE", help="source sentences that no model was trained on")],
    tgt: Annotated[str | None, optional("FILE", "their translations, line by line", "none")] = None,
    ref: Annotated[str | None, optional("FILE", "the same as --tgt", "none")] = None,
    out: Annotated[str, tyro.conf.arg(metavar="FILE", help="where to write what `translate --rerank` reads")],
    n_best: Annotated[
        int, tyro.conf.arg(metavar="N", help="hypotheses among which is chosen; the beam is as wide")
    ] = 10,
    json: Annotated[bool, flag("print one JSON object")] = False,
    device: Device = "auto",
    dtype: Dtype = None,
    threads: Threads = None,
) -> int:
    """Find on held-out text how much a translator of the other direction and a language model count where the best of
    several translations is chosen (noisy channel), and write that to a file, by which `translate --rerank` chooses.

    example: pellucid rerank run --reverse en-de --lm english --src valid.de --tgt valid.en --out rerank.json
    """
    import sys
    from dataclasses import asdict
    from json import dumps
    from pathlib import Path

    from pellucid.data.lines import read_pairs
    from pellucid.errors import ConfigError
    from pellucid.files.writing import refusals_in_words, writable
    from pellucid.tasks.language_model import LanguageModel
    from pellucid.tasks.reranking import Reranker, save_reranking
    from pellucid.tasks.translator import Translator

    if tgt is not None and ref is not None:
        raise ConfigError("`--ref` is the same as `--tgt`, and both are given", "leave one out")
    tgt = ref if tgt is None else tgt
    if tgt is None:
        raise ConfigError("the translations are not given: `--tgt FILE`", "name their file")
    prepare_process(threads)
    pairs, path = list(read_pairs(src, tgt)), Path(out)
    writable(path)  # before it translates for minutes
    translator = Translator.load(model, device, dtype)
    reranker = Reranker(
        None if reverse is None else Translator.load(reverse, device, dtype),
        None if lm is None else LanguageModel.load(lm, device, dtype),
        n_best=n_best,
    )
    if sys.stderr.isatty():
        print(f"translating {len(pairs):,} sentences, {n_best} times each", file=sys.stderr)
    fit = reranker.fit(translator, [source for source, _ in pairs], [target for _, target in pairs])
    with refusals_in_words(path):
        save_reranking(path, reranker, reverse, lm, fit)
    if json:
        print(dumps(fit.to_json()))
        return 0
    factors = ", ".join(f"{name} {value:g}" for name, value in asdict(fit.factors).items())
    print(
        f"{fit.lines:,} lines, {n_best} best each: BLEU {fit.bleu:.2f}, before {fit.bleu_before:.2f} (each half of the "
        f"lines by the other {fit.bleu_crossed:.2f}; by the reference {fit.bleu_possible:.2f})\n{factors}\n{path}"
    )
    return 0
