"""`pellucid fit-reranker`."""

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
from pellucid.terminal import log_line, show

if TYPE_CHECKING:
    from pellucid.tasks.translator import Translator


def fit_reranker(
    model: Model,
    /,
    *,
    reverse: Annotated[
        str | None, optional("MODEL", "translator of the reverse direction; its tokenizer may differ", "none")
    ] = None,
    lm: Annotated[
        str | None, optional("MODEL", "language model of the target language; its tokenizer may differ", "none")
    ] = None,
    src: Annotated[str, tyro.conf.arg(metavar="FILE", help="source sentences that no model was trained on")],
    tgt: Annotated[str | None, optional("FILE", "their translations, line by line", "none")] = None,
    ref: Annotated[str | None, optional("FILE", "the same as --tgt", "none")] = None,
    out: Annotated[str, tyro.conf.arg(metavar="FILE", help="output file, for `translate --rerank`")],
    n_best: Annotated[int, tyro.conf.arg(metavar="N", help="size of the n-best lists, and of the beam")] = 10,
    json: Annotated[bool, flag("print one JSON object")] = False,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    device: Device = "auto",
    dtype: Dtype = None,
    threads: Threads = None,
) -> int:
    """Tune the weights of noisy-channel reranking on held-out text. Reranking chooses the best translation of an n-best
    list by the scores of the translator, of a translator of the reverse direction and of a language model. The weights
    are written to a file for `translate --rerank`.

    example: pellucid fit-reranker run --reverse en-de --lm english --src valid.de --tgt valid.en --out rerank.json
    """
    import sys
    from dataclasses import asdict
    from json import dumps
    from pathlib import Path

    from pellucid.data.lines import read_pairs
    from pellucid.errors import ConfigError
    from pellucid.files.writing import check_writable, convert_write_errors
    from pellucid.tasks.language_model import LanguageModel
    from pellucid.tasks.reranking import Reranker, open_for, save_reranking

    if tgt is not None and ref is not None:
        raise ConfigError("`--ref` and `--tgt` are the same option, and both are given", "leave one out")
    tgt = ref if tgt is None else tgt
    if tgt is None:
        raise ConfigError("the translations are missing: `--tgt FILE`", "name the file of translations")
    prepare_process(threads)
    pairs, path = list(read_pairs(src, tgt)), Path(out)
    check_writable(path)  # before the translation, which takes minutes
    translator = open_for(model, device, dtype, src_lang, tgt_lang)
    back = None if reverse is None else _other_direction(reverse, device, dtype, src_lang, tgt_lang)
    if (code := src_lang or tgt_lang) and not translator.languages and not (back and back.languages):
        option = "--src-lang" if src_lang else "--tgt-lang"
        raise ConfigError(f"`{option} {code}` has no effect on these models, which have no languages", "leave it out")
    reranker = Reranker(
        back,
        None if lm is None else LanguageModel.load(lm, device, dtype),
        n_best=n_best,
    )
    if sys.stderr.isatty():
        log_line(f"translating {len(pairs):,} sentences, {n_best} translations each")
    fit = reranker.fit(translator, [source for source, _ in pairs], [target for _, target in pairs])
    with convert_write_errors(path):
        save_reranking(path, reranker, reverse, lm, fit, (tgt_lang, src_lang))
    if json:
        print(dumps(fit.to_json()))
        return 0
    factors = ", ".join(f"{name} {value:g}" for name, value in asdict(fit.factors).items())
    show(
        f"{fit.lines:,} lines, {n_best} best each: BLEU {fit.bleu:.2f}, before {fit.bleu_before:.2f} (each half of the "
        f"lines tuned on the other {fit.bleu_crossed:.2f}; chosen by the reference {fit.bleu_possible:.2f})\n"
        f"{factors}\n{path}"
    )
    return 0


def _other_direction(
    folder: str, device: Any, dtype: str | None, src_lang: str | None, tgt_lang: str | None
) -> "Translator":
    """Returns the translator of the reverse direction. Its errors name the options as MODEL has them."""
    import re

    from pellucid.errors import ConfigError
    from pellucid.tasks.reranking import open_for

    def turn(text: str) -> str:
        sides = {"source": "target", "target": "source"}
        return re.sub(r"`(source|target)(?=_language=)", lambda found: f"`{sides[found[1]]}", text)

    try:
        return open_for(folder, device, dtype, tgt_lang, src_lang)
    except ConfigError as error:
        raise ConfigError(f"the reverse direction, `{folder}`: {turn(str(error))}", turn(error.hint)) from error
