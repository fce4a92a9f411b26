"""`pellucid clean`."""

from typing import Annotated

import tyro

from pellucid.cli.options import RECIPES, Choices, Settings, flag, optional
from pellucid.cli.text_options import DataDir, Sources, Targets, ValidSource, ValidTarget, text
from pellucid.terminal import show


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
        optional("FOLDER", "output folder: each text under its own name, and clean.json", "none, with --dry-run"),
    ] = "",
    report: Annotated[
        str,
        optional(
            "FILE",
            "lists each removed or repaired pair with line and reason; .jsonl, else TSV",
            "taken-out.tsv in --out",
        ),
    ] = "",
    dry_run: Annotated[bool, flag("only count, and write no texts")] = False,
    fresh: Annotated[bool, flag("replace existing files in --out")] = False,
    no_repair: Annotated[bool, flag("remove pairs that could be repaired")] = False,
    valid_src: ValidSource = "",
    valid_tgt: ValidTarget = "",
    test_src: Annotated[str, text("source sentences of the test set, which are removed from the texts")] = "",
    test_tgt: Annotated[str, text("their translations")] = "",
    rules: Annotated[
        tuple[str, ...],
        optional("RULE,...", "rules to apply", "all"),
        tyro.conf.UseAppendAction,
        RULES,
    ] = (),
    skip_rules: Annotated[
        tuple[str, ...], optional("RULE,...", "rules to skip", "none"), tyro.conf.UseAppendAction, RULES
    ] = (),
    src_lang: Annotated[
        str | None,
        optional(
            "CODE", "language of the sources: each line's language is identified (extra langid)", "by its letters"
        ),
    ] = None,
    tgt_lang: Annotated[str | None, optional("CODE", "the same for the targets", "by its letters")] = None,
    src_script: Annotated[
        str | None,
        optional("NAME", "script of the sources: Latin, Cyrillic, Hangul, Han, ...", "main scripts of the corpus"),
    ] = None,
    tgt_script: Annotated[
        str | None, optional("NAME", "the same for the targets", "main scripts of the corpus")
    ] = None,
    max_ratio: Annotated[
        float | None,
        optional("X", "how many times longer or shorter than usual in this corpus a translation may be", "3"),
    ] = None,
    min_words: Annotated[int | None, optional("N", "minimum number of words per sentence", "1")] = None,
    max_words: Annotated[
        int | None, optional("N", "maximum number of words per sentence", "data.max_length in tokens")
    ] = None,
    max_word_length: Annotated[int | None, optional("N", "maximum number of characters per word", "40")] = None,
    max_other_script: Annotated[
        float | None, optional("X", "largest share of a sentence's letters in another script", "0.5")
    ] = None,
    min_letters: Annotated[
        float | None,
        optional("X", "smallest share of letters among a line's characters, relative to the usual share", "0.5"),
    ] = None,
    max_repetitions: Annotated[
        int | None, optional("N", "how many times in a row a line may repeat itself", "3")
    ] = None,
    min_agreement: Annotated[
        float | None, optional("X", "smallest share of the numbers that must be the same in source and target", "0.6")
    ] = None,
    recipe: Annotated[
        str, tyro.conf.arg(metavar="RECIPE", help="a shipped recipe or a TOML file, for texts and settings"), RECIPES
    ] = "default",
    data_dir: DataDir = "",
    set: Settings = (),
) -> int:
    """Repair or remove the sentence pairs in which `doctor` finds an issue.

    It repairs double-encoded text, entities, HTML tags, control characters, and web addresses after a sentence. It
    removes pairs that are damaged, empty, copied, duplicate, in another script or language, of unusual length, or in
    the test set. The texts are read twice, in little memory, and keep their order. A report lists each changed or
    removed pair with its line, the rule and the reason.

    example: pellucid clean --src train.de --tgt train.en --test-src test.de --test-tgt test.en --out clean
    example: pellucid clean --src train.de --tgt train.en --dry-run --report why.tsv --skip-rules numbers
    """
    from pathlib import Path

    from pellucid.config import Recipe
    from pellucid.data.cleaning import RULES as ALL
    from pellucid.data.cleaning import clean as clean_texts
    from pellucid.data.cleaning import rules_named
    from pellucid.data.locate import override_paths, resolve_paths
    from pellucid.data.pair_checks import Limits
    from pellucid.errors import ConfigError
    from pellucid.streams.progress import LineProgress

    if not out and not dry_run:
        raise ConfigError("--out is missing", "name the output folder, as in `--out clean`, or count only: --dry-run")
    if out and dry_run:
        raise ConfigError("--dry-run writes no texts, so --out has no effect", "leave one out")
    chosen = rules_named(rules) if rules else frozenset(ALL)
    given = {
        "max_ratio": max_ratio, "min_words": min_words, "max_words": max_words, "max_word_length": max_word_length,
        "max_other_script": max_other_script, "min_letters": min_letters, "max_repetitions": max_repetitions,
        "min_agreement": min_agreement,
        "languages": None if src_lang is tgt_lang is None else (src_lang or "", tgt_lang or ""),
        "scripts": None if src_script is tgt_script is None else (src_script or "", tgt_script or ""),
    }  # fmt: skip
    limits = Limits().but(**{name: value for name, value in given.items() if value is not None})
    loaded = Recipe.load(recipe, list(set))
    data = resolve_paths(
        override_paths(
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
            data, None if dry_run else Path(out), task=loaded.task, limits=limits, rules=chosen -
            rules_named(skip_rules), report=report, fresh=fresh, repair=not no_repair,
            progress=lambda pairs, share: progress.update(pairs, share),
        )  # fmt: skip
    show(cleaned.to_text())
    return 0
