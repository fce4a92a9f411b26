"""`pellucid augment`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from pellucid.cli.options import (
    ON_BAD_UTF8,
    RECIPES,
    Choices,
    Device,
    Dtype,
    Members,
    Model,
    Settings,
    SourceLanguage,
    TargetLanguage,
    Threads,
    flag,
    mandatory,
    optional,
    prepare_process,
)
from pellucid.cli.search_options import BeamSize, EpsilonCutoff, LengthPenalty, Temperature, TopK, TopP
from pellucid.cli.text_options import DataDir, DropWorst, LengthRatio
from pellucid.terminal import log_line

if TYPE_CHECKING:
    from pathlib import Path

    from pellucid.synthetic_data.augmentation import AugmentRequest
    from pellucid.synthetic_data.mixture import RealData
    from pellucid.synthetic_data.rounds import Rounds

Texts = Annotated[
    tuple[str, ...],
    optional("FILE", "source sentences of the real data; may be repeated for several corpora", "of the model's run"),
    tyro.conf.UseAppendAction,
]
Translations = Annotated[
    tuple[str, ...],
    optional("FILE", "their translations, line by line", "of the model's run"),
    tyro.conf.UseAppendAction,
]


def _guards() -> tuple[str, ...]:
    from pellucid.synthetic_data.augmentation import GUARDS

    return GUARDS


def augment(
    model: Model,
    /,
    *,
    input: Annotated[str, mandatory("FILE", "monolingual text, one sentence per line; - is standard input")] = "",
    out: Annotated[str, mandatory("FOLDER", "output folder for the sentence pairs; the same command resumes")] = "",
    direction: Annotated[
        Literal["back", "forward"],
        tyro.conf.arg(
            metavar="WORD",
            help="back (back-translation): the lines are target sentences, and MODEL, a translator of the reverse "
            "direction, writes their sources; forward: the lines are source sentences, and MODEL writes their targets",
        ),
        Choices.from_words("back", "forward"),
    ] = "back",
    src: Texts = (),
    tgt: Translations = (),
    valid_src: Annotated[
        str, optional("FILE", "source sentences of the validation set", "the run's, or a part of --src")
    ] = "",
    valid_tgt: Annotated[str, optional("FILE", "their translations", "the run's, or a part of --tgt")] = "",
    recipe: Annotated[
        str,
        optional("RECIPE", "recipe of the planned training: a shipped recipe or a TOML file", "of the model's run"),
        RECIPES,
    ] = "",
    data_dir: DataDir = "",
    ensemble: Members = (),
    beam_size: BeamSize = None,
    n_best: Annotated[int, tyro.conf.arg(metavar="N", help="translations per line, by beam search")] = 1,
    length_penalty: LengthPenalty = None,
    sample: Annotated[bool, flag("sample translations, instead of beam search")] = False,
    num_samples: Annotated[
        int | None, optional("N", "with --sample: samples per line, with the seeds --seed, --seed + 1, ...", "1")
    ] = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    epsilon_cutoff: EpsilonCutoff = None,
    noise: Annotated[bool, flag("add noise to the sources: --drop-words 0.1 --blank-words 0.1 --swap-words 3")] = False,
    drop_words: Annotated[float | None, optional("P", "noise: drop each source word with probability P", "0")] = None,
    blank_words: Annotated[
        float | None, optional("P", "noise: replace each source word by <blank> with probability P", "0")
    ] = None,
    swap_words: Annotated[int | None, optional("N", "noise: move each source word by at most N places", "0")] = None,
    seed: Annotated[
        int, tyro.conf.arg(metavar="N", help="random seed of samples and noise, which are independent per line")
    ] = 1,
    tag: Annotated[
        str | None,
        optional("WORD", 'tag before each synthetic source; "" for no tag', "<bt>; none with --direction forward"),
    ] = None,
    add_copies: Annotated[bool, flag("also add each line as a pair of the line and its copy")] = False,
    dictionary: Annotated[
        str,
        optional(
            "FILE",
            "dictionary, per line: source term, tab, translation; entries of rare terms are added as pairs",
            "none",
        ),
    ] = "",
    rare_below: Annotated[
        int | None, optional("N", "with --dictionary: a term is rare if it occurs in fewer than N real sources", "10")
    ] = None,
    drop_worst: DropWorst = 0.05,
    length_ratio: LengthRatio = 2.5,
    keep_copies: Annotated[bool, flag("keep translations that are equal to the input line")] = False,
    drop_flagged: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            metavar="WORD", help="drop translations with these quality flags: loop, copy, numbers, length, mismatch"
        ),
        Choices(_guards),
    ] = ("loop", "copy"),
    rounds: Annotated[
        int | None,
        optional(
            "N",
            "iterative back-translation: train on the pairs and repeat with the new models, at most N times",
            "no training",
        ),
    ] = None,
    reverse_input: Annotated[
        str,
        optional("FILE", "with --rounds: monolingual text of the other language, to retrain MODEL's direction", "none"),
    ] = "",
    budget: Annotated[str, optional("TIME", "with --rounds: total time limit, as in 2h", "none")] = "",
    set: Settings = (),
    batch_tokens: Annotated[int | None, optional("N", "tokens per batch of the model")] = None,
    on_bad_utf8: Annotated[
        str,
        tyro.conf.arg(
            metavar="WORD", help="for a line that is not UTF-8: error, replace the bad bytes, or skip the line"
        ),
        ON_BAD_UTF8,
    ] = "error",
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    fresh: Annotated[bool, flag("create the pairs again, but keep existing translations")] = False,
    device: Device = "auto",
    dtype: Dtype = None,
    threads: Threads = None,
) -> int:
    """Create synthetic training pairs from monolingual text: a model translates the text, and a recipe mixes the new
    pairs with real ones.

    Example: to improve a German-English translator, use English text and an English-German model (--direction back,
    back-translation). The output is FOLDER/train.src and FOLDER/train.tgt, and FOLDER/recipe.toml if the real pairs
    are known; the [data] section of the recipe is printed. Lines of the validation and test sets are left out. If the
    command is interrupted, run the same command again to resume.

    example: pellucid augment run-en-de --input more.en --out more
    example: pellucid augment run-en-de --input more.en.gz --sample --num-samples 2 --out more
    example: pellucid augment run-en-de --input more.en --noise --add-copies --out more
    example: pellucid augment run-en-de --input more.en --dictionary de-en.tsv --out more
    example: pellucid augment run-de-en --direction forward --input more.de --out more
    example: pellucid train more/recipe.toml --out run-2
    example: pellucid augment run-en-de --input more.en --reverse-input more.de --rounds 3 --budget 2h --out rounds
    """
    from pathlib import Path

    from pellucid.cli.ranks import check_alone
    from pellucid.data.terms import read_terms
    from pellucid.errors import ConfigError
    from pellucid.synthetic_data.augmentation import AugmentRequest, augment
    from pellucid.synthetic_data.dictionary import Dictionary
    from pellucid.synthetic_data.mixture import load_real_data, write_recipe
    from pellucid.synthetic_data.noise import Noise
    from pellucid.synthetic_data.rounds import Rounds
    from pellucid.synthetic_data.selection import TranslationFilter
    from pellucid.tasks.search_options import SearchOptions

    check_alone("augment")

    if not out:
        raise ConfigError("--out is missing", "name the folder for the pairs, as in `--out more`")
    options = SearchOptions(
        n_best=None if n_best == 1 else n_best, beam_size=beam_size, length_penalty=length_penalty,
        batch_tokens=batch_tokens, source_language=src_lang, target_language=tgt_lang, sample=sample,
        temperature=temperature, top_k=top_k, top_p=top_p, epsilon_cutoff=epsilon_cutoff, seed=seed if sample else None,
    )  # fmt: skip
    usual = {"drop_words": 0.1, "blank_words": 0.1, "swap_words": 3} if noise else {}
    request = AugmentRequest(
        models=(model, *ensemble),
        input=input,
        direction=direction,
        teaching=options,
        num_samples=num_samples,
        selection=TranslationFilter(drop_worst=drop_worst, length_ratio=length_ratio, keep_copies=keep_copies),
        drop_flagged=drop_flagged,
        noise=Noise(**usual | _drop_none(drop_words=drop_words, blank_words=blank_words, swap_words=swap_words)),
        tag=tag, add_copies=add_copies, seed=seed, on_bad_utf8=on_bad_utf8,  # type: ignore[arg-type]
    )  # fmt: skip
    if rare_below is not None and not dictionary:
        raise ConfigError(
            f"`--rare-below {rare_below}` requires --dictionary", "add --dictionary, which names the terms"
        )
    if dictionary and rounds is not None:
        raise ConfigError(
            f"`--dictionary {dictionary}` is for one direction, but --rounds trains both",
            "leave --dictionary out, or name the file in --src as a .tsv",
        )
    if input == dictionary == "-":
        raise ConfigError(
            "standard input (`-`) can be only one of --input and --dictionary", "name a file for the other"
        )
    entries = Dictionary(read_terms(dictionary), **_drop_none(rare_below=rare_below)) if dictionary else None
    for name, value in {"reverse-input": reverse_input, "budget": budget, "set": " ".join(set)}.items():
        if value and rounds is None:
            raise ConfigError(f"`--{name} {value}` requires --rounds", "add --rounds, which also trains")
    prepare_process(threads)
    parallel = load_real_data(
        model, direction, recipe, data_dir=data_dir or None, log_line=log_line, src=src, tgt=tgt, valid_src=valid_src,
        valid_tgt=valid_tgt,
    )  # fmt: skip
    if entries is not None:
        entries.check(parallel.recipe.data)
    if rounds is not None:
        return _run_rounds(
            Path(out), request, Rounds(rounds=rounds, reverse_input=reverse_input, budget=budget, overrides=set),
            parallel,
            fresh=fresh, device=device, dtype=dtype, log_line=log_line,
        )  # fmt: skip
    augmented = augment(
        Path(out), request, held_out=parallel.read_held_out(direction), fresh=fresh,
        device=device, dtype=dtype, log_line=log_line,
    )  # fmt: skip
    suggestion = write_recipe(augmented, request, parallel, entries)
    print(suggestion.fragment, end="")
    if suggestion.recipe is None:
        log_line("note: no real data is known: add it to [data], or name it by --src and --tgt")
    else:
        log_line(f"to train on real and synthetic data: pellucid train {Path(out) / 'recipe.toml'} --out RUN")
    return 0


def _run_rounds(folder: "Path", request: "AugmentRequest", rounds: "Rounds", parallel: "RealData", **how: Any) -> int:
    """Runs the rounds, and prints a line for each: synthetic pairs, BLEU of the validation set, run folder."""
    from pellucid.synthetic_data.rounds import run_rounds

    found = run_rounds(folder, request, rounds, parallel, **how)
    print("round\tpairs\tvalid_bleu\trun")
    for number, each in enumerate(found, start=1):
        print(f"{number}\t{each.pairs}\t{each.bleu:.2f}\t{each.run}")
    best = max(found, key=lambda each: each.bleu)
    how["log_line"](f"the best model is in {best.run}")
    return 0


def _drop_none(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
