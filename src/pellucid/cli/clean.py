"""`pellucid clean`."""

from typing import Annotated

import tyro

from pellucid.cli.options import RECIPES, Choices, Settings, flag, optional
from pellucid.cli.texts import DataDir, Sources, Targets, ValidSource, ValidTarget, text


def _rules() -> list[str]:
    from pellucid.data.cleaning import RULES

    return list(RULES)


RULES = Choices(_rules)


def clean(
    *,
    src: Sources = (),
    tgt: Targets = (),
    out: Annotated[
        str,
        optional("FOLDER", "where each text is written under its own name, with clean.json", "none, with --dry-run"),
    ] = "",
    report: Annotated[
        str, optional("FILE", "each pair taken out, with its line and why; .jsonl, else TSV", "taken-out.tsv in --out")
    ] = "",
    dry_run: Annotated[bool, flag("only count; no text is written")] = False,
    fresh: Annotated[bool, flag("replace files that are in --out already")] = False,
    valid_src: ValidSource = "",
    valid_tgt: ValidTarget = "",
    test_src: Annotated[str, text("source sentences of the test, which are taken out of the texts")] = "",
    test_tgt: Annotated[str, text("their translations")] = "",
    rules: Annotated[
        tuple[str, ...],
        optional("RULE,...", "the rules to clean by", "all"),
        tyro.conf.UseAppendAction,
        RULES,
    ] = (),
    without: Annotated[
        tuple[str, ...], optional("RULE,...", "rules to do without", "none"), tyro.conf.UseAppendAction, RULES
    ] = (),
    opusfilter: Annotated[
        str, optional("FILE", "an OpusFilter configuration (YAML) whose filters are the rules", "none")
    ] = "",
    opuscleaner: Annotated[
        str, optional("FILE", "an OpusCleaner pipeline (.filters.json) whose filters are the rules", "none")
    ] = "",
    src_lang: Annotated[
        str | None, optional("CODE", "language of the sources, identified line by line (the extra langid)", "as usual")
    ] = None,
    tgt_lang: Annotated[str | None, optional("CODE", "the same of the targets", "as usual")] = None,
    src_script: Annotated[
        str | None, optional("NAME", "script of the sources: Latin, Cyrillic, Hangul, Han, ...", "as usual")
    ] = None,
    tgt_script: Annotated[str | None, optional("NAME", "the same of the targets", "as usual")] = None,
    max_ratio: Annotated[
        float | None, optional("X", "times that a translation may be longer or shorter than is usual here", "3")
    ] = None,
    min_words: Annotated[int | None, optional("N", "words of a side at least", "1")] = None,
    max_words: Annotated[int | None, optional("N", "words of a side at most", "data.max_length in tokens")] = None,
    max_word_length: Annotated[int | None, optional("N", "characters of a word at most", "40")] = None,
    max_foreign: Annotated[
        float | None, optional("X", "part of a side's letters that may be of another script", "0.5")
    ] = None,
    min_letters: Annotated[
        float | None, optional("X", "part of the usual letters a character that a line must have", "0.5")
    ] = None,
    max_repetitions: Annotated[int | None, optional("N", "times that a line may say the same in a row", "3")] = None,
    min_agreement: Annotated[
        float | None, optional("X", "part of the numbers of both sides that must be the same", "0.6")
    ] = None,
    recipe: Annotated[
        str, tyro.conf.arg(metavar="RECIPE", help="whose texts and settings are taken"), RECIPES
    ] = "default",
    data_dir: DataDir = "",
    set: Settings = (),
) -> int:
    """Take out of a corpus the pairs that `doctor` names: damaged, empty, copied, repeated, in another script or
    language, of unusual length, in the test. The texts are read twice, in little memory. What stays keeps its order; a
    report has each pair that went, with its line, the rule and the reason.

    example: pellucid clean --src train.de --tgt train.en --test-src test.de --test-tgt test.en --out clean
    example: pellucid clean --src train.de --tgt train.en --dry-run --report why.tsv --without numbers
    """
    import sys
    from pathlib import Path

    from pellucid.config import Recipe
    from pellucid.data.cleaning import RULES as ALL
    from pellucid.data.cleaning import clean as clean_texts
    from pellucid.data.cleaning import rules_named
    from pellucid.data.judging import Limits
    from pellucid.data.locate import locate, with_texts
    from pellucid.data.other_cleaners import read_opuscleaner, read_opusfilter
    from pellucid.errors import ConfigError
    from pellucid.streams.progress import LineProgress

    def warn(text: str) -> None:
        print(f"warning: {text}", file=sys.stderr)

    if not out and not dry_run:
        raise ConfigError("--out is not given", "name the folder for the clean texts, or look only: --dry-run")
    if out and dry_run:
        raise ConfigError("--dry-run writes no texts, and --out says where to", "leave one out")
    if opusfilter and opuscleaner:
        raise ConfigError("--opusfilter and --opuscleaner are both given", "give one")
    chosen, limits = frozenset(ALL), Limits()
    if opusfilter or opuscleaner:
        limits, named = (
            read_opusfilter(Path(opusfilter), warn) if opusfilter else read_opuscleaner(Path(opuscleaner), warn)
        )
        chosen = named
    chosen = rules_named(rules) if rules else chosen
    given = {
        "max_ratio": max_ratio, "min_words": min_words, "max_words": max_words, "max_word_length": max_word_length,
        "max_foreign": max_foreign, "min_letters": min_letters, "max_repetitions": max_repetitions,
        "min_agreement": min_agreement,
        "languages": None if src_lang is tgt_lang is None else (src_lang or "", tgt_lang or ""),
        "scripts": None if src_script is tgt_script is None else (src_script or "", tgt_script or ""),
    }  # fmt: skip
    limits = limits.but(**{name: value for name, value in given.items() if value is not None})
    loaded = Recipe.load(recipe, list(set))
    data = locate(
        with_texts(
            loaded.data,
            src=src,
            tgt=tgt,
            valid_src=valid_src,
            valid_tgt=valid_tgt,
            test_src=test_src,
            test_tgt=test_tgt,
        ),
        data_dir or None,
    )
    with LineProgress(shown=True) as progress:
        cleaned = clean_texts(
            data, None if dry_run else Path(out), task=loaded.task, limits=limits, rules=chosen - rules_named(without),
            report=report, fresh=fresh, progress=lambda pairs, share: progress.update(pairs, share),
        )  # fmt: skip
    print(cleaned.in_words())
    return 0
