"""`pellucid rerank`."""

from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pellucid.cli.options import (
    Device,
    Dtype,
    Model,
    SourceLanguage,
    TargetLanguage,
    Threads,
    flag,
    optional,
    prepare_process,
)

if TYPE_CHECKING:
    from pellucid.tasks.translator import Translator


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
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
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
    from pellucid.tasks.reranking import Reranker, open_for, save_reranking

    if tgt is not None and ref is not None:
        raise ConfigError("`--ref` is the same as `--tgt`, and both are given", "leave one out")
    tgt = ref if tgt is None else tgt
    if tgt is None:
        raise ConfigError("the translations are not given: `--tgt FILE`", "name their file")
    prepare_process(threads)
    pairs, path = list(read_pairs(src, tgt)), Path(out)
    writable(path)  # before it translates for minutes
    translator = open_for(model, device, dtype, src_lang, tgt_lang)
    back = None if reverse is None else _other_direction(reverse, device, dtype, src_lang, tgt_lang)
    if (code := src_lang or tgt_lang) and not translator.languages and not (back and back.languages):
        option = "--src-lang" if src_lang else "--tgt-lang"
        raise ConfigError(f"`{option} {code}` means nothing to these models, which know no languages", "leave it out")
    reranker = Reranker(
        back,
        None if lm is None else LanguageModel.load(lm, device, dtype),
        n_best=n_best,
    )
    if sys.stderr.isatty():
        print(f"translating {len(pairs):,} sentences, {n_best} times each", file=sys.stderr)
    fit = reranker.fit(translator, [source for source, _ in pairs], [target for _, target in pairs])
    with refusals_in_words(path):
        save_reranking(path, reranker, reverse, lm, fit, (tgt_lang, src_lang))
    if json:
        print(dumps(fit.to_json()))
        return 0
    factors = ", ".join(f"{name} {value:g}" for name, value in asdict(fit.factors).items())
    print(
        f"{fit.lines:,} lines, {n_best} best each: BLEU {fit.bleu:.2f}, before {fit.bleu_before:.2f} (each half of the "
        f"lines by the other {fit.bleu_crossed:.2f}; by the reference {fit.bleu_possible:.2f})\n{factors}\n{path}"
    )
    return 0


def _other_direction(
    folder: str, device: Any, dtype: str | None, src_lang: str | None, tgt_lang: str | None
) -> "Translator":
    """Returns the translator that reads what MODEL writes. Raises what is wrong in the options of MODEL."""
    import re

    from pellucid.errors import ConfigError
    from pellucid.tasks.reranking import open_for

    def turned(text: str) -> str:
        sides = {"source": "target", "target": "source"}
        return re.sub(r"`(source|target)(?=_language=)", lambda found: f"`{sides[found[1]]}", text)

    try:
        return open_for(folder, device, dtype, tgt_lang, src_lang)
    except ConfigError as error:
        raise ConfigError(f"the other direction, `{folder}`: {turned(str(error))}", turned(error.hint)) from error
