"""The training that synthetic pairs are made for: the text that people made, beside it the pairs, and how they mix."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pellucid.augmentation.corpus import COPIED, Augmented, Direction, Request
from pellucid.augmentation.dictionary import SIDES, Dictionary
from pellucid.augmentation.noise import BLANK
from pellucid.config import RECIPE, DataConfig, Recipe
from pellucid.config.data import OnBadUtf8
from pellucid.config.tables import to_table, toml_line
from pellucid.data.locate import locate, with_texts
from pellucid.data.parallel import ParallelText, held_out_text, parallel_texts
from pellucid.data.prepare import Corpus, open_corpus
from pellucid.distillation.sides import write_sides
from pellucid.errors import ConfigError, DataError
from pellucid.files.writing import write_text
from pellucid.run.folder import stored_recipe
from pellucid.text.tokenizer_training import WITH_SYMBOLS

MOST_TIMES = 10.0
"""The most often that real pairs are seen in an epoch: beyond it a model learns them by heart."""
SYNTHETIC = "<synthetic>"
"""The tag of synthetic pairs where a training tags its corpora; what they are marked with stands behind it."""
OF_TEXTS = ("src", "tgt", "weights", "weights_from", "temperature", "tags", "valid_src", "valid_tgt", "test_src",
            "test_tgt", "tsv_columns", "jsonl_keys", "symbols", "src_lang", "tgt_lang")  # fmt: skip
"""Settings of [data] that a suggested mix has."""


@dataclass(frozen=True)
class Parallel:
    """The text that people made for the training, and the recipe of that training without synthetic pairs."""

    recipe: Recipe
    """Its texts have their places found; none where no text is known."""
    corpus: Corpus | None = None
    """The pairs with some cut off to validate on, where no text to validate on is named."""

    @property
    def is_known(self) -> bool:
        """True where there is a text."""
        return bool(self.recipe.data.src)

    def held_out(self, direction: Direction) -> set[str]:
        """Returns the lines to validate and to test on, of the side of which lines are translated."""
        side = 1 if direction == "back" else 0
        found = {pair[side].strip() for pair in self.corpus.valid} if self.corpus else set[str]()
        for name in ("valid", "test"):
            text = held_out_text(self.recipe.data, name)
            if text is not None and Path(text.src).exists() and Path(text.tgt_file).exists():
                found |= {(pair[side] or "").strip() for pair in text.pairs("replace")}
        return found

    def sources(self) -> Iterator[str]:
        """Yields the real sources that are trained on."""
        if self.corpus is not None:
            yield from (source for source, _ in self.corpus.train())
        elif self.is_known:
            for text in _texts(self.recipe.data):
                yield from (source for source, _ in text.pairs("replace") if source)

    def write(self, folder: Path) -> tuple[DataConfig, int]:
        """Returns the texts as a training names them, and how many pairs it has.

        What is cut off to validate on, and what is left then, is written into `folder`: cut off a mix it would hold
        synthetic pairs.
        """
        data = self.recipe.data
        if self.corpus is None:
            return data, sum(1 for text in _texts(data) for _ in text.pairs("replace"))
        paths = {
            name: folder / f"{name.replace('_', '.')}"
            for name in ("parallel_src", "parallel_tgt", "valid_src", "valid_tgt")
        }
        count = write_sides([paths["parallel_src"], paths["parallel_tgt"]], self.corpus.train())
        write_sides([paths["valid_src"], paths["valid_tgt"]], self.corpus.valid)
        return replace(
            data, src=str(paths["parallel_src"]), tgt=str(paths["parallel_tgt"]), valid_src=str(paths["valid_src"]),
            valid_tgt=str(paths["valid_tgt"]), on_copy="keep", on_duplicate="keep",
        ), count  # fmt: skip


def open_parallel(
    model: str,
    direction: Direction,
    recipe: str = "",
    *,
    data_dir: str | None = None,
    on_bad_utf8: OnBadUtf8 | None = None,
    say: Callable[[str], object] = print,
    **texts: str | Sequence[str],
) -> Parallel:
    """Returns what is known of the training that pairs are made for.

    Its texts are those in `texts`, or the recipe's; without a `recipe` those that `model` itself was trained on, where
    it is a run, with the sides changed about if it translates the other way. So are all other settings.

    Raises ConfigError and DataError for a recipe or texts that cannot be read; where texts are not given, they need not
    be there any more.
    """
    own = not recipe and (Path(model) / RECIPE).is_file()
    if recipe:
        found = Recipe.load(recipe)
    elif own:
        found = stored_recipe(Path(model))
        found = mirrored(found) if direction == "back" and found.task == "translate" else found
    else:
        found = Recipe.load("default")
    if found.task != "translate":
        raise ConfigError(f'a translator is to be trained, and the recipe has `task = "{found.task}"`', "name another")
    _check_one_pair(found.data)
    given = any(texts.values())
    if texts.get("src"):  # nothing of another text goes with this one
        mixes: dict[str, Any] = {"weights": (), "weights_from": (), "temperature": 0.0, "tags": ()}
        alone = replace(found.data, tgt="", valid_src="", valid_tgt="", **({} if recipe else mixes))
        found = replace(found, data=alone)
    data = with_texts(found.data, **texts)
    if on_bad_utf8 is not None:
        data = replace(data, on_bad_utf8=on_bad_utf8)
    try:
        data = locate(data, data_dir)
    except DataError as error:
        if given or recipe:
            raise
        say(f"what `{model}` was trained on is not used: {error}")
        data = replace(data, src="", tgt="", valid_src="", valid_tgt="", test_src="", test_tgt="")
    test = held_out_text(data, "test")
    if missing := [path for path in (test.src, test.tgt_file) if not Path(path).exists()] if test else []:
        say(f"the text to test on is not there (`{missing[0]}`), so none of its lines is left out")
        data = replace(data, test_src="", test_tgt="")
    if not data.src or data.valid_src:
        return Parallel(replace(found, data=data))
    if data.weights or data.temperature or data.tags:
        raise ConfigError(
            "several corpora are mixed, and there is no text to validate on",
            "name one by `valid_src=` and `valid_tgt=`",
        )
    cut_off = open_corpus(data)
    assert isinstance(cut_off, Corpus)
    return Parallel(replace(found, data=data), cut_off)


def _check_one_pair(data: DataConfig) -> None:
    """Raises ConfigError for a training on several pairs of languages: what one model writes is of one."""
    codes = max(len(data.files("src_lang")), len(data.files("tgt_lang")))
    if codes > 1 or data.add_language:
        raise ConfigError(
            f"the training to come is of several pairs of languages ({', '.join(data.files('src_lang'))} to "
            f"{', '.join(data.files('tgt_lang'))}), and what a model writes is of one",
            "name the training of one pair by `recipe=`, and its texts; or put the pairs beside the others by hand",
        )


def mirrored(recipe: Recipe) -> Recipe:
    """Returns the recipe that translates the other way, by the same text."""
    data = recipe.data
    sides: dict[str, Any] = {}
    texts: list[ParallelText] = []
    if data.src:
        texts += _texts(data)
        sides["src"], sides["tgt"] = _other_way(texts)
    for name in ("valid", "test"):
        if (text := held_out_text(data, name)) is not None:
            texts.append(text)
            (src,), tgt = _other_way([text])
            sides |= {f"{name}_src": src, f"{name}_tgt": tgt[0] if tgt else ""}
    sizes: dict[str, int] = {}
    if not data.joint and data.target_vocab_size:
        sizes = {"vocab_size": data.target_vocab_size, "target_vocab_size": data.vocab_size}
    codes = {"src_lang": data.tgt_lang, "tgt_lang": data.src_lang}
    columns: dict[str, Any] = {}
    if any(not text.tgt for text in texts):
        columns = {"tsv_columns": data.tsv_columns[::-1], "jsonl_keys": data.jsonl_keys[::-1]}
    return replace(
        recipe, languages=recipe.languages[::-1], data=replace(data, **{**sides, **sizes, **columns, **codes})
    )


def _texts(data: DataConfig) -> tuple[ParallelText, ...]:
    return parallel_texts(replace(data, weights=(), weights_from=(), tags=()))


def _other_way(texts: Sequence[ParallelText]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the sources and targets of texts whose sides change about; one that holds both stays where it is."""
    return tuple(text.tgt or text.src for text in texts), tuple(text.src for text in texts if text.tgt)


@dataclass(frozen=True)
class Suggestion:
    """A training on real and synthetic pairs together."""

    recipe: Recipe | None
    """All of it; None where no real pair is known."""
    fragment: str
    """The part of it that concerns the texts, as TOML, with the reason for it."""


def suggest(
    augmented: Augmented, request: Request, parallel: Parallel, dictionary: Dictionary | None = None
) -> Suggestion:
    """Returns how to train on real pairs and synthetic ones, and writes it into the folder as a recipe.

    The real pairs are seen so often in an epoch that both weigh alike, though not more than `MOST_TIMES` times, and
    never less than once; synthetic ones are seen once, as are the entries of a dictionary that are rare among the real
    sources. A mix that goes by temperature stays one.
    """
    folder, symbols = augmented.folder, [request.label] if request.label else []
    if request.noise.blank_words:
        symbols.append(BLANK)
    added = [tuple(map(str, augmented.sides))]
    if augmented.counts["copies"]:
        added.append((str(folder / COPIED), str(folder / COPIED)))
    entries = 0 if dictionary is None else dictionary.write(folder, parallel.sources())
    if dictionary is None:
        for side in SIDES:
            (folder / side).unlink(missing_ok=True)
    if entries:
        added.append((str(folder / SIDES[0]), str(folder / SIDES[1])))
    synthetic = augmented.counts["pairs"] + augmented.counts["copies"] + entries
    what = f"{augmented.counts['pairs']:,} pairs that a model wrote"
    what += f", which {request.label} marks" if request.label else ""
    what += f", and {augmented.counts['copies']:,} copied lines" if augmented.counts["copies"] else ""
    what += f", and {entries:,} entries of a dictionary whose words are rare" if entries else ""
    if not parallel.is_known:
        sources, targets = (tuple(pair[side] for pair in added) for side in (0, 1))
        data = DataConfig(src=sources, tgt=targets, symbols=tuple(symbols))
        text = f"# {what}; put the text that people made before them, and a text to validate on.\n"
        return Suggestion(None, text + _fragment(data))
    data, real = parallel.write(folder)
    times = round(min(MOST_TIMES, max(1.0, synthetic / max(1, real))), 1)
    number = len(_texts(data))
    mixes = len(data.weights_from) or 1
    before = data.weights or (1.0,) * number * mixes
    weights = tuple(
        weight
        for mix in range(mixes)
        for weight in [*(w * times for w in before[mix * number : (mix + 1) * number]), *[1.0] * len(added)]
    )
    if data.on_copy == "skip" and augmented.counts["copies"]:
        data = replace(data, on_copy="keep")
    keeps = data.tokenizer in WITH_SYMBOLS
    data = replace(
        data,
        src=(*data.files("src"), *(src for src, _ in added)),
        # A target for each source that needs one, in their order.
        tgt=(*data.files("tgt"), *(tgt for _, tgt in added)),
        weights=() if data.temperature else weights,
        tags=(*data.tags, *(SYNTHETIC for _ in added)) if data.tags else (),
        symbols=tuple(dict.fromkeys([*data.symbols, *symbols])) if keeps else data.symbols,
        prepared="",
    )  # fmt: skip
    train = replace(parallel.recipe.train, budget=0.0, init_from="", init_sha256="")
    recipe = replace(parallel.recipe, name="augmented", description="", time="", data=data, train=train)
    mix = (
        "temperature mixes them"
        if data.temperature
        else "each is seen once an epoch"
        if times == 1
        else f"the former are seen {times:g} times an epoch"
    )
    text = f"# {real:,} pairs that people made, and {what}: {mix}.\n"
    if symbols and not keeps:
        text += f"# {data.tokenizer} keeps no symbols: {', '.join(symbols)} will be cut as any other word is.\n"
    fragment = text + _fragment(data)
    write_text(folder / RECIPE, text + recipe.to_toml())
    return Suggestion(recipe, fragment)


def _fragment(data: DataConfig) -> str:
    plain = to_table(DataConfig())
    said = {name: value for name, value in to_table(data).items() if name in OF_TEXTS and value != plain[name]}
    return "\n".join(["[data]", *(toml_line(name, value) for name, value in said.items())]) + "\n"
