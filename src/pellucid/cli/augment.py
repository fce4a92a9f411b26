"""`pellucid augment`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from pellucid.cli.options import (
    ON_BAD_UTF8,
    RECIPES,
    BeamSize,
    Choices,
    Device,
    Dtype,
    LengthPenalty,
    Members,
    Model,
    Settings,
    SourceLanguage,
    TargetLanguage,
    Threads,
    flag,
    optional,
    prepare_process,
)
from pellucid.cli.texts import DataDir

if TYPE_CHECKING:
    from pathlib import Path

    from pellucid.augmentation.corpus import Request
    from pellucid.augmentation.recipe import Parallel
    from pellucid.augmentation.rounds import Rounds

Texts = Annotated[
    tuple[str, ...],
    optional("FILE", "real source sentences of the training to come; again for another corpus", "as the model's run"),
    tyro.conf.UseAppendAction,
]
Translations = Annotated[
    tuple[str, ...],
    optional("FILE", "their translations, line by line", "as the model's run"),
    tyro.conf.UseAppendAction,
]


def _guards() -> tuple[str, ...]:
    from pellucid.augmentation.corpus import GUARDS

    return GUARDS


def augment(
    model: Model,
    /,
    *,
    input: Annotated[
        str, optional("FILE", "text of one language, a line each; - is standard input", "must be given")
    ] = "",
    out: Annotated[str, optional("FOLDER", "where the pairs go; the same command resumes", "must be given")] = "",
    direction: Annotated[
        Literal["back", "forward"],
        tyro.conf.arg(
            metavar="WORD",
            help="back: the lines become targets, and MODEL, which translates the other way, writes their sources; "
            "forward: the lines become sources, and MODEL writes their targets",
        ),
        Choices.of("back", "forward"),
    ] = "back",
    src: Texts = (),
    tgt: Translations = (),
    valid_src: Annotated[str, optional("FILE", "source sentences to validate on", "the run's, or cut off --src")] = "",
    valid_tgt: Annotated[str, optional("FILE", "their translations", "the run's, or cut off --tgt")] = "",
    recipe: Annotated[
        str, optional("RECIPE", "the training to come: a shipped recipe or a TOML file", "as the model's run"), RECIPES
    ] = "",
    data_dir: DataDir = "",
    ensemble: Members = (),
    beam_size: BeamSize = None,
    n_best: Annotated[int, tyro.conf.arg(metavar="N", help="translations of each line by a beam")] = 1,
    length_penalty: LengthPenalty = None,
    sample: Annotated[bool, flag("draw translations instead of searching for the best")] = False,
    draws: Annotated[int | None, optional("N", "with --sample: of each line, by --seed, --seed + 1 ...", "1")] = None,
    temperature: Annotated[float | None, optional("X", "with --sample: below 1 sharper, above 1 flatter", "1")] = None,
    top_k: Annotated[int | None, optional("N", "with --sample: from the N most probable tokens", "all")] = None,
    top_p: Annotated[float | None, optional("X", "with --sample: from the fewest tokens of probability X", "1")] = None,
    epsilon: Annotated[
        float | None, optional("X", "with --sample: from the tokens of probability X or more, as in 0.02", "0")
    ] = None,
    noise: Annotated[bool, flag("noise on the sources: --drop-words 0.1 --blank-words 0.1 --swap-words 3")] = False,
    drop_words: Annotated[
        float | None, optional("P", "of the sources: leave out a word by this probability", "0")
    ] = None,
    blank_words: Annotated[float | None, optional("P", "of the sources: put <blank> for a word so often", "0")] = None,
    swap_words: Annotated[int | None, optional("N", "of the sources: words end at most N places away", "0")] = None,
    seed: Annotated[int, tyro.conf.arg(metavar="N", help="decides draws and noise, each line's by itself")] = 1,
    tag: Annotated[
        str | None, optional("WORD", 'before each synthetic source; "" for none', "<bt>; with --direction forward none")
    ] = None,
    copies: Annotated[bool, flag("the lines are pairs of their own, too, each its own source")] = False,
    dictionary: Annotated[
        str,
        optional(
            "FILE", "source term, tab, translation in each line: pairs of their own where the term is rare", "none"
        ),
    ] = "",
    rare: Annotated[
        int | None, optional("N", "with --dictionary: a term that fewer than N real sources have is rare", "10")
    ] = None,
    drop_worst: Annotated[
        float, tyro.conf.arg(metavar="X", help="the share of translations to leave out, of the lowest log-probability")
    ] = 0.05,
    length_ratio: Annotated[
        float, tyro.conf.arg(metavar="X", help="how many times longer or shorter than usual a translation may be")
    ] = 2.5,
    keep_copies: Annotated[bool, flag("keep translations that are what they translate, too")] = False,
    guards: Annotated[
        tuple[str, ...],
        tyro.conf.arg(metavar="WORD", help="leave out what is flagged so: loop, copy, numbers, length, mismatch"),
        Choices(_guards),
    ] = ("loop", "copy"),
    rounds: Annotated[
        int | None,
        optional(
            "N", "train on the pairs, too, and go on with the models that come of it, N times at most", "pairs alone"
        ),
    ] = None,
    other_input: Annotated[
        str,
        optional(
            "FILE", "with --rounds: text of the other language, by whose pairs MODEL's successor is trained", "none"
        ),
    ] = "",
    budget: Annotated[str, optional("TIME", "with --rounds: how long all of it may take, as in 2h", "none")] = "",
    set: Settings = (),
    batch_tokens: Annotated[int | None, optional("N", "tokens that the model translates at a time")] = None,
    on_bad_utf8: Annotated[
        str,
        tyro.conf.arg(metavar="WORD", help="a line that is not UTF-8: error, replace bad bytes, or skip the line"),
        ON_BAD_UTF8,
    ] = "error",
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    fresh: Annotated[bool, flag("make the pairs anew, but not translations that are there")] = False,
    device: Device = "auto",
    dtype: Dtype = None,
    threads: Threads = None,
) -> int:
    """Make training pairs of text of one language: a model writes the other side, a recipe mixes them with real ones.

    To translate from German to English better, take English text and a model from English to German: --direction back.
    The pairs are FOLDER/train.src and FOLDER/train.tgt; the recipe is FOLDER/recipe.toml, where the real pairs are
    known, and its part about texts is printed. Lines to validate or test on are left out. Stopped, the same command
    goes on.

    example: pellucid augment run-en-de --input more.en --out more
    example: pellucid augment run-en-de --input more.en.gz --sample --draws 2 --out more
    example: pellucid augment run-en-de --input more.en --noise --copies --out more
    example: pellucid augment run-en-de --input more.en --dictionary de-en.tsv --out more
    example: pellucid augment run-de-en --direction forward --input more.de --out more
    example: pellucid train more/recipe.toml --out run-2
    example: pellucid augment run-en-de --input more.en --other-input more.de --rounds 3 --budget 2h --out rounds
    """
    import sys
    from pathlib import Path

    from pellucid.augmentation.corpus import Request, augment
    from pellucid.augmentation.dictionary import Dictionary
    from pellucid.augmentation.noise import Noise
    from pellucid.augmentation.recipe import open_parallel, suggest
    from pellucid.augmentation.rounds import Rounds
    from pellucid.cli.ranks import check_alone
    from pellucid.config import SamplingConfig
    from pellucid.data.terms import read_terms
    from pellucid.distillation.selection import Selection
    from pellucid.distillation.teaching import Drawing, Teaching
    from pellucid.errors import ConfigError

    check_alone("augment")

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    if not out:
        raise ConfigError("--out is not given", "name the folder for the pairs, as in `--out more`")
    drawing = _given(draws=draws, temperature=temperature, top_k=top_k, top_p=top_p, epsilon=epsilon)
    searching = _given(beam_size=beam_size, length_penalty=length_penalty) | ({"n_best": n_best} if n_best != 1 else {})
    for name in searching if sample else drawing:
        option = f"--{name.replace('_', '-')}"
        if sample:
            raise ConfigError(f"`{option}` means nothing with --sample", f"leave {option} out")
        raise ConfigError(f"`{option}` means nothing without --sample", "add --sample, which draws translations")
    drawn = None
    if sample:
        number = drawing.pop("draws", 1)
        drawn = Drawing(sampling=SamplingConfig(seed=seed, **drawing), draws=number)
    usual = {"drop_words": 0.1, "blank_words": 0.1, "swap_words": 3} if noise else {}
    request = Request(
        models=(model, *ensemble),
        input=input,
        direction=direction,
        teaching=Teaching(
            n_best=n_best, beam_size=beam_size, length_penalty=length_penalty, batch_tokens=batch_tokens,
            source_language=src_lang, target_language=tgt_lang,
        ),
        drawing=drawn,
        selection=Selection(drop_worst=drop_worst, length_ratio=length_ratio, keep_copies=keep_copies),
        guards=guards,
        noise=Noise(**usual | _given(drop_words=drop_words, blank_words=blank_words, swap_words=swap_words)),
        tag=tag, copies=copies, seed=seed, on_bad_utf8=on_bad_utf8,  # type: ignore[arg-type]
    )  # fmt: skip
    if rare is not None and not dictionary:
        raise ConfigError(
            f"`--rare {rare}` means nothing without --dictionary", "add --dictionary, which names the terms"
        )
    if dictionary and rounds is not None:
        raise ConfigError(
            f"`--dictionary {dictionary}` is of one direction, and --rounds train both",
            "leave it out, or name it among --src as a .tsv",
        )
    if input == dictionary == "-":
        raise ConfigError("standard input (`-`) can be only one of --input and --dictionary", "name the other")
    entries = Dictionary(read_terms(dictionary), **_given(rare=rare)) if dictionary else None
    for name, value in {"other-input": other_input, "budget": budget, "set": " ".join(set)}.items():
        if value and rounds is None:
            raise ConfigError(f"`--{name} {value}` means nothing without --rounds", "add --rounds, which trains, too")
    prepare_process(threads)
    parallel = open_parallel(
        model, direction, recipe, data_dir=data_dir or None, say=say, src=src, tgt=tgt, valid_src=valid_src,
        valid_tgt=valid_tgt,
    )  # fmt: skip
    if entries is not None:
        entries.check(parallel.recipe.data)
    if rounds is not None:
        return _go_through(
            Path(out), request, Rounds(rounds=rounds, other_input=other_input, budget=budget, overrides=set), parallel,
            fresh=fresh, device=device, dtype=dtype, say=say,
        )  # fmt: skip
    augmented = augment(
        Path(out), request, held_out=parallel.held_out(direction), fresh=fresh,
        device=device, dtype=dtype, say=say,
    )  # fmt: skip
    suggestion = suggest(augmented, request, parallel, entries)
    print(suggestion.fragment, end="")
    if suggestion.recipe is None:
        say("note: no real pairs are known: add them to [data], or name them by --src and --tgt")
    else:
        say(f"train on both: pellucid train {Path(out) / 'recipe.toml'} --out RUN")
    return 0


def _go_through(folder: "Path", request: "Request", rounds: "Rounds", parallel: "Parallel", **how: Any) -> int:
    """Goes through rounds, and prints a line for each: synthetic pairs, BLEU of the text to validate on, the run."""
    from pellucid.augmentation.rounds import run_rounds

    found = run_rounds(folder, request, rounds, parallel, **how)
    print("round\tpairs\tvalid_bleu\trun")
    for number, each in enumerate(found, start=1):
        print(f"{number}\t{each.pairs}\t{each.bleu:.2f}\t{each.run}")
    best = max(found, key=lambda each: each.bleu)
    how["say"](f"the best model is in {best.run}")
    return 0


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
