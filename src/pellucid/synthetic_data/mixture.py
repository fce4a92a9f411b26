"""The training run that uses synthetic pairs: the real text, the pairs, and how they are mixed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pellucid.config import RECIPE, DataConfig, Recipe
from pellucid.config.data import OnBadUtf8
from pellucid.config.tables import to_table, toml_line
from pellucid.data.locate import override_paths, resolve_paths
from pellucid.data.parallel import ParallelText, get_held_out_text, parallel_texts
from pellucid.data.prepare import Corpus, open_corpus
from pellucid.errors import ConfigError, DataError
from pellucid.files.writing import write_text
from pellucid.run.folder import read_stored_recipe
from pellucid.synthetic_data.augmentation import COPIED, AugmentRequest, Direction, SyntheticCorpus
from pellucid.synthetic_data.corpus import write_sides
from pellucid.synthetic_data.dictionary import SIDES, Dictionary
from pellucid.synthetic_data.noise import BLANK
from pellucid.text.tokenizer_training import WITH_SYMBOLS

MOST_TIMES = 10.0
"""The most often that real pairs are seen per epoch: beyond it a model overfits to them."""
SYNTHETIC = "<synthetic>"
"""The tag of synthetic pairs if a training tags its corpora; the pairs' own mark follows it."""
OF_TEXTS = ("src", "tgt", "corpus_weights", "corpus_weights_from", "sampling_temperature", "corpus_tags", "valid_src",
            "valid_tgt", "test_src",
            "test_tgt", "tsv_columns", "jsonl_keys", "symbols", "src_lang", "tgt_lang")  # fmt: skip
"""Settings of [data] that a suggested mix has."""


@dataclass(frozen=True)
class RealData:
    """The real text of the training, and the recipe of that training without synthetic pairs."""

    recipe: Recipe
    """The recipe, with the paths of its texts resolved; without texts if none are known."""
    corpus: Corpus | None = None
    """The training pairs after a validation set was split off, if no validation text is named."""

    @property
    def is_known(self) -> bool:
        """Returns True if there is a text."""
        return bool(self.recipe.data.src)

    def read_held_out(self, direction: Direction) -> set[str]:
        """Returns the validation and test lines, on the side from which lines are translated."""
        side = 1 if direction == "back" else 0
        found = {pair[side].strip() for pair in self.corpus.valid} if self.corpus else set[str]()
        for name in ("valid", "test"):
            text = get_held_out_text(self.recipe.data, name)
            if text is not None and Path(text.src).exists() and Path(text.tgt_file).exists():
                found |= {(pair[side] or "").strip() for pair in text.pairs("replace")}
        return found

    def sources(self) -> Iterator[str]:
        """Yields the real sources of the training text."""
        if self.corpus is not None:
            yield from (source for source, _ in self.corpus.train())
        elif self.is_known:
            for text in _texts(self.recipe.data):
                yield from (source for source, _ in text.pairs("replace") if source)

    def write(self, folder: Path) -> tuple[DataConfig, int]:
        """Returns the [data] settings of the real texts, and the number of their pairs.

        A validation set split off, and the remaining pairs, are written into `folder`: a validation set split off the
        mix would contain synthetic pairs.
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


def load_real_data(
    model: str,
    direction: Direction,
    recipe: str = "",
    *,
    data_dir: str | None = None,
    on_bad_utf8: OnBadUtf8 | None = None,
    log_line: Callable[[str], object] = print,
    **texts: str | Sequence[str],
) -> RealData:
    """Returns the training data and recipe that the synthetic pairs are made for.

    The texts are `texts`, or the recipe's; without a `recipe`, if `model` is a run, they are its training texts, with
    source and target swapped if it translates in the other direction. All other settings come from the same place.

    Raises ConfigError and DataError for a recipe or texts that cannot be read; without `texts`, the training texts may
    be missing.
    """
    own = not recipe and (Path(model) / RECIPE).is_file()
    if recipe:
        found = Recipe.load(recipe)
    elif own:
        found = read_stored_recipe(Path(model))
        found = reverse_direction(found) if direction == "back" and found.task == "translate" else found
    else:
        found = Recipe.load("default")
    if found.task != "translate":
        raise ConfigError(
            f'augmentation trains a translator, but the recipe has `task = "{found.task}"`', "name another recipe"
        )
    _check_one_pair(found.data)
    given = any(texts.values())
    if texts.get("src"):  # settings of other texts do not apply to this text
        mixes: dict[str, Any] = {
            "corpus_weights": (),
            "corpus_weights_from": (),
            "sampling_temperature": 0.0,
            "corpus_tags": (),
        }
        alone = replace(found.data, tgt="", valid_src="", valid_tgt="", **({} if recipe else mixes))
        found = replace(found, data=alone)
    data = override_paths(found.data, **texts)
    if on_bad_utf8 is not None:
        data = replace(data, on_bad_utf8=on_bad_utf8)
    try:
        data = resolve_paths(data, data_dir)
    except DataError as error:
        if given or recipe:
            raise
        log_line(f"the training text of `{model}` is not used: {error}")
        data = replace(data, src="", tgt="", valid_src="", valid_tgt="", test_src="", test_tgt="")
    test = get_held_out_text(data, "test")
    if missing := [path for path in (test.src, test.tgt_file) if not Path(path).exists()] if test else []:
        log_line(f"the test text is missing (`{missing[0]}`), so none of its lines is skipped")
        data = replace(data, test_src="", test_tgt="")
    if not data.src or data.valid_src:
        return RealData(replace(found, data=data))
    if data.corpus_weights or data.sampling_temperature or data.corpus_tags:
        raise ConfigError(
            "several corpora are mixed, and no validation text is given",
            "name a validation text with `valid_src=` and `valid_tgt=`",
        )
    cut_off = open_corpus(data)
    assert isinstance(cut_off, Corpus)
    return RealData(replace(found, data=data), cut_off)


def _check_one_pair(data: DataConfig) -> None:
    """Raises ConfigError for a training on several language pairs: one model writes only one pair."""
    codes = max(len(data.files("src_lang")), len(data.files("tgt_lang")))
    if codes > 1 or data.add_language:
        raise ConfigError(
            f"the recipe has several language pairs ({', '.join(data.files('src_lang'))} to "
            f"{', '.join(data.files('tgt_lang'))}), but the synthetic pairs have one",
            "use a recipe of one language pair with `recipe=`, and its texts; or add the pairs to the corpora by hand",
        )


def reverse_direction(recipe: Recipe) -> Recipe:
    """Returns the recipe of the reverse direction on the same texts."""
    data = recipe.data
    sides: dict[str, Any] = {}
    texts: list[ParallelText] = []
    if data.src:
        texts += _texts(data)
        sides["src"], sides["tgt"] = _other_way(texts)
    for name in ("valid", "test"):
        if (text := get_held_out_text(data, name)) is not None:
            texts.append(text)
            (src,), tgt = _other_way([text])
            sides |= {f"{name}_src": src, f"{name}_tgt": tgt[0] if tgt else ""}
    sizes: dict[str, int] = {}
    if not data.joint_vocab and data.tgt_vocab_size:
        sizes = {"vocab_size": data.tgt_vocab_size, "tgt_vocab_size": data.vocab_size}
    codes = {"src_lang": data.tgt_lang, "tgt_lang": data.src_lang}
    columns: dict[str, Any] = {}
    if any(not text.tgt for text in texts):
        columns = {"tsv_columns": data.tsv_columns[::-1], "jsonl_keys": data.jsonl_keys[::-1]}
    return replace(
        recipe, languages=recipe.languages[::-1], data=replace(data, **{**sides, **sizes, **columns, **codes})
    )


def _texts(data: DataConfig) -> tuple[ParallelText, ...]:
    return parallel_texts(replace(data, corpus_weights=(), corpus_weights_from=(), corpus_tags=()))


def _other_way(texts: Sequence[ParallelText]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the sources and targets of texts with the sides swapped; a file that holds both sides stays in place."""
    return tuple(text.tgt or text.src for text in texts), tuple(text.src for text in texts if text.tgt)


@dataclass(frozen=True)
class Suggestion:
    """A suggested training on real and synthetic pairs together."""

    recipe: Recipe | None
    """The complete recipe; None if no real pair is known."""
    fragment: str
    """The settings of the recipe that concern the texts, as TOML, with their reasons."""


def write_recipe(
    augmented: SyntheticCorpus, request: AugmentRequest, parallel: RealData, dictionary: Dictionary | None = None
) -> Suggestion:
    """Returns the recipe that mixes real and synthetic pairs, and writes it into the folder.

    Real pairs are repeated per epoch so that both kinds weigh the same, at least once and at most `MOST_TIMES` times;
    synthetic pairs are seen once, as are dictionary entries that are rare among the real sources. A mix by temperature
    stays a mix by temperature.
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
    what = f"{augmented.counts['pairs']:,} synthetic pairs"
    what += f", which {request.label} marks" if request.label else ""
    what += f", and {augmented.counts['copies']:,} copied lines" if augmented.counts["copies"] else ""
    what += f", and {entries:,} entries of a dictionary whose words are rare" if entries else ""
    if not parallel.is_known:
        sources, targets = (tuple(pair[side] for pair in added) for side in (0, 1))
        data = DataConfig(src=sources, tgt=targets, symbols=tuple(symbols))
        text = f"# {what}; add the real pairs before them, and a validation text.\n"
        return Suggestion(None, text + _fragment(data))
    data, real = parallel.write(folder)
    times = round(min(MOST_TIMES, max(1.0, synthetic / max(1, real))), 1)
    number = len(_texts(data))
    mixes = len(data.corpus_weights_from) or 1
    before = data.corpus_weights or (1.0,) * number * mixes
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
        # A target for each source that requires one, in their order.
        tgt=(*data.files("tgt"), *(tgt for _, tgt in added)),
        corpus_weights=() if data.sampling_temperature else weights,
        corpus_tags=(*data.corpus_tags, *(SYNTHETIC for _ in added)) if data.corpus_tags else (),
        symbols=tuple(dict.fromkeys([*data.symbols, *symbols])) if keeps else data.symbols,
        cache_dir="",
    )  # fmt: skip
    train = replace(parallel.recipe.train, budget=0.0, init_from="", init_sha256="")
    recipe = replace(parallel.recipe, name="augmented", description="", time="", data=data, train=train)
    mix = (
        "the temperature mixes them"
        if data.sampling_temperature
        else "each is seen once an epoch"
        if times == 1
        else f"the former are seen {times:g} times an epoch"
    )
    text = f"# {real:,} real pairs, and {what}: {mix}.\n"
    if symbols and not keeps:
        text += f"# {data.tokenizer} does not support symbols: {', '.join(symbols)} will be split like other words.\n"
    fragment = text + _fragment(data)
    write_text(folder / RECIPE, text + recipe.to_toml())
    return Suggestion(recipe, fragment)


def _fragment(data: DataConfig) -> str:
    plain = to_table(DataConfig())
    said = {name: value for name, value in to_table(data).items() if name in OF_TEXTS and value != plain[name]}
    return "\n".join(["[data]", *(toml_line(name, value) for name, value in said.items())]) + "\n"
