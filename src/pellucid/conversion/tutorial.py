"""A tutorial's saved weights and vocabularies as a model that reads and writes text."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor

from pellucid.config import MAX_POSITIONS, DecodeConfig, ModelConfig
from pellucid.config.tables import from_table, to_table
from pellucid.config.tasks import task_of
from pellucid.data.lines import read_lines
from pellucid.errors import CheckpointError, ConfigError, DataError, did_you_mean
from pellucid.model.embeddings import Embeddings
from pellucid.model.families import Model, SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS
from pellucid.text.tokenizers import Tokenizers
from pellucid.text.vocabulary import Vocabulary
from pellucid.weights.building import build_unfilled
from pellucid.weights.folder import SavedModel
from pellucid.weights.tensors import parameters, set_parameters
from pellucid.weights.tutorials.importing import import_tutorial
from pellucid.weights.tutorials.reading import heads_of
from pellucid.weights.tutorials.slips import AsWritten
from pellucid.weights.tutorials.source import read_state_dict

USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[pad]", "<blank>"),
    "start": ("<sos>", "<s>", "<bos>", "<start>", "[sos]", "[bos]", "[start]", "[cls]"),
    "end": ("<eos>", "</s>", "<end>", "[eos]", "[end]", "[sep]"),
    "unknown": ("<unk>", "[unk]", "<oov>"),
}
"""The spellings of the special tokens in vocabularies, in upper or lower case; in the order of their new ids."""
KINDS = ("spaces", "words", "characters")
"""The ways in which text can be cut into the tokens of a list."""


@dataclass(frozen=True, kw_only=True)
class TutorialOptions:
    """The facts about a tutorial's model that no tensor tells."""

    num_heads: int | None = None
    """None: what the tensors tell, where they do."""
    src_vocab: str = ""
    """The file of the source's vocabulary, a token a line; the line's number is the token's id."""
    tgt_vocab: str = ""
    """The same for the target."""
    tokenizer: str = "spaces"
    """The way in which text is cut into tokens: spaces, words or characters."""
    lowercase: bool = False
    """Text is lower-cased first."""
    bare_source: bool = False
    """Sources had no start token, though their vocabulary has one."""
    unended_source: bool = False
    """Sources had no end token."""
    labels: str = ""
    """The file of a classifier's classes, one a line; without: their numbers."""
    max_positions: int = MAX_POSITIONS
    """Positions of a model that computes them."""
    as_written: bool = False
    """A slip in the tutorial's text is computed as it is written, not as it was meant."""
    norm_first: bool = False
    """For `torch.nn.Transformer`: norms stand before the sublayers."""
    activation: str = "relu"
    """For `torch.nn.Transformer`: relu, gelu, gelu_tanh or silu."""
    unscaled_embeddings: bool = False
    """For `torch.nn.Transformer`: embeddings are not multiplied by the square root of their width."""
    src_embedding: str = ""
    """For `torch.nn.Transformer`: the tensor that is the source's embedding; empty: found by name and shape."""
    tgt_embedding: str = ""
    """The same for the target."""
    output_projection: str = ""
    """The one that projects to the vocabulary."""


def open_tutorial(state_dict: Mapping[str, Any], layout: str, options: TutorialOptions) -> SavedModel:
    """Returns the model of a state dict with its vocabularies, ready for text.

    Its words are numbered anew, the special tokens first, as all vocabularies of ours are: rows of the embeddings and
    of the output change places, and nothing else does.

    Raises ConfigError, DataError for options or vocabularies that do not fit, CheckpointError for such tensors.
    """
    tensors = read_state_dict(state_dict)
    is_classifier = layout == "nlp-with-transformers"
    _check(options, is_classifier)
    all_uses = set(USUAL_NAMES)
    spared: set[str] = set() if is_classifier else {"start", *(["end"] if options.unended_source else [])}
    source = WordList.read(options.src_vocab, all_uses - spared)
    target = source if is_classifier else WordList.read(options.tgt_vocab, all_uses)
    num_heads = heads_of(tensors, layout) if options.num_heads is None else options.num_heads
    if num_heads is None:
        raise ConfigError(
            "`num_heads=` is needed: no tensor tells how many heads there are", "give the number it was trained with"
        )
    model = import_tutorial(
        tensors, layout, num_heads, source.ids["pad"], target.ids["pad"], max_positions=options.max_positions,
        as_written=options.as_written, norm_first=options.norm_first,
        activation=cast(Literal["relu"], options.activation), scale_embeddings=not options.unscaled_embeddings,
        src_embedding=options.src_embedding, tgt_embedding=options.tgt_embedding, output=options.output_projection,
    )  # fmt: skip
    if isinstance(model, AsWritten):
        raise ConfigError(
            f"the text of `{layout}` applies masks with which nothing can be translated, so a folder cannot keep them",
            "leave `as_written=True` out, or use pellucid.weights.import_tutorial(..., as_written=True) for the logits",
        )
    source.check_size(model.config.src_vocab_size, "source")
    target.check_size(model.config.tgt_vocab_size, "target")
    fields = {"pad_id": PAD_ID, "bos_id": BOS_ID, "eos_id": EOS_ID, "max_positions": _positions(model)}
    new = renumbered(model, source.order, None if is_classifier else target.order, **fields)
    sides = [words.tokenizer(options) for words in (source, target)]
    tokenizers = Tokenizers(sides[0], sides[0]) if is_classifier else Tokenizers(*sides)
    starts = "start" in source.ids and not options.bare_source and not is_classifier
    decode = DecodeConfig(source_prefix=(BOS_ID,) if starts else (), source_end=not options.unended_source)
    return SavedModel(new, tokenizers, decode, task_of(new.config).name, _labels(options.labels, model))


@dataclass(frozen=True)
class WordList:
    """A vocabulary's tokens in the order of their ids, and which of them are special."""

    path: str
    tokens: Sequence[str]
    ids: Mapping[str, int]
    """The id of each special token that there is, by its use."""

    @classmethod
    def read(cls, path: str, needed: Collection[str]) -> "WordList":
        """Returns the tokens of a file. Raises DataError for one that stands twice, and for special ones that are
        missing.
        """
        tokens = list(read_lines(path))
        places: dict[str, int] = {}
        for number, token in enumerate(tokens):
            if token in places:
                raise DataError(
                    f"`{path}` has the token `{token}` twice, in lines {places[token] + 1:,} and {number + 1:,}",
                    "write each token once, in the order of their ids",
                )
            places[token] = number
        ids = {use: found for use in USUAL_NAMES if (found := _special(path, tokens, use)) is not None}
        missing = [use for use in USUAL_NAMES if use in needed and use not in ids]
        if missing:
            names = "; ".join(f"{use}: {', '.join(f'`{name}`' for name in USUAL_NAMES[use])}" for use in missing)
            raise DataError(
                f"`{path}` has no special token for {' and '.join(missing)}; the names that are known: {names}",
                "write it by one of these names, in the line of its id",
            )
        return cls(path, tokens, ids)

    @property
    def order(self) -> list[int | None]:
        """Returns the old id of each new one: the special ones first, then all others as they stood."""
        special = [self.ids.get(use) for use in USUAL_NAMES]
        return [*special, *(number for number in range(len(self.tokens)) if number not in special)]

    def check_size(self, rows: int, side: str) -> None:
        """Raises CheckpointError where there are not as many tokens as rows in the embedding."""
        if len(self.tokens) != rows:
            raise CheckpointError(
                f"`{self.path}` has {len(self.tokens):,} tokens, but the {side}'s embedding {rows:,} rows",
                "give the vocabulary that the model was trained with, a token a line, special ones included",
            )

    def tokenizer(self, options: TutorialOptions) -> Vocabulary:
        """Returns the tokenizer of the list, in its new order."""
        others = [self.tokens[old] for old in self.order[len(SPECIAL_TOKENS) :] if old is not None]
        return Vocabulary(options.tokenizer, tuple(others), lowercase=options.lowercase)


def _special(path: str, tokens: Sequence[str], use: str) -> int | None:
    """Returns the id of the token for a use. Raises DataError where several could be it."""
    found = [number for number, token in enumerate(tokens) if token.lower() in USUAL_NAMES[use]]
    if len(found) > 1:
        listed = ", ".join(f"`{tokens[number]}`" for number in found)
        raise DataError(
            f"`{path}` has {len(found)} tokens that could be that for {use}: {listed}",
            "rename those that are not, for instance to `<unused1>`",
        )
    return found[0] if found else None


def _check(options: TutorialOptions, is_classifier: bool) -> None:
    if options.tokenizer not in KINDS:
        raise ConfigError(
            f"unknown tokenizer `{options.tokenizer}` for a list of tokens{did_you_mean(options.tokenizer, KINDS)}",
            f"choose one of {', '.join(KINDS)}",
        )
    if not options.src_vocab or not (options.tgt_vocab or is_classifier):
        missing = "tgt_vocab" if options.src_vocab else "src_vocab"
        raise ConfigError(
            f"`{missing}=` is needed: the weights do not say which word has which id",
            "write the vocabulary to a text file, a token a line, in the order of the ids",
        )
    if is_classifier and options.unended_source:
        raise ConfigError(
            "`unended_source=True` is for a translator, but this layout is a classifier's", "leave it out"
        )
    if options.labels and not is_classifier:
        raise ConfigError("`labels=` is for a classifier, but this layout is a translator's", "leave it out")


def _positions(model: Transformer | SequenceClassifier) -> int:
    """Returns how many positions both sides have: a folder knows one number, and beyond its own a side learned none."""
    sides = [module for module in model.modules() if isinstance(module, Embeddings)]
    return min(side.max_positions for side in sides)


def _labels(path: str, model: object) -> tuple[str, ...]:
    """Returns what the classes are called."""
    if not isinstance(model, SequenceClassifier):
        return ()
    labels = tuple(read_lines(path)) if path else tuple(map(str, range(model.config.num_classes)))
    if len(labels) != model.config.num_classes:
        raise DataError(f"`{path}` names {len(labels)} classes, but the model tells {model.config.num_classes} apart")
    return labels


def renumbered(
    model: Model, src_ids: Sequence[int | None] | None, tgt_ids: Sequence[int | None] | None, **fields: Any
) -> Model:
    """Returns the model in which word i is what word `src_ids[i]` was, or `tgt_ids[i]` on the target's side.

    None in the place of an id: a new word, of zeros, which must not occur. None in the place of a list: as it was.
    `fields` are those of the config that say the new numbers, and `max_positions`, which may be fewer than before.
    Embeddings that both sides share must have one order.
    """
    config, tensors = model.config, parameters(model)
    sides = {"src_embedding.tokens.": src_ids, "tgt_embedding.tokens.": tgt_ids, "output_projection.": tgt_ids}
    for name, tensor in tensors.items():
        ids = next((ids for before, ids in sides.items() if name.startswith(before)), None)
        if ids is not None:
            tensors[name] = _rows(tensor.detach(), ids)
        elif name.endswith("_embedding.positions.weight"):
            tensors[name] = tensor[: fields.get("max_positions")]
    sizes = {"src_vocab_size": src_ids, "tgt_vocab_size": tgt_ids if isinstance(model, Transformer) else src_ids}
    changed = {name: len(ids) for name, ids in sizes.items() if ids is not None} | fields
    new = build_unfilled(from_table(ModelConfig, to_table(config) | changed, "[model]"))
    set_parameters(new, tensors, "the model")
    return new.eval()


def _rows(table: Tensor, ids: Sequence[int | None]) -> Tensor:
    rows = table.new_zeros(len(ids), *table.shape[1:])
    known = [place for place, number in enumerate(ids) if number is not None]
    rows[known] = table[torch.tensor([number for number in ids if number is not None])]
    return rows
