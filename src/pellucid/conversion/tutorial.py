"""Opens a tutorial's saved weights and vocabularies as a model that reads and writes text."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from pellucid.config import MAX_POSITIONS, DecodeConfig, ModelConfig
from pellucid.config.tables import from_table, to_table
from pellucid.config.tasks import get_task
from pellucid.conversion.sense import DEPENDS, dependence, find_fault
from pellucid.data.lines import read_lines
from pellucid.errors import PYTHON, CheckpointError, ConfigError, DataError, did_you_mean, format_argument, format_value
from pellucid.files.budget import MOST_TOKENIZER_BYTES
from pellucid.files.reading import parse_json, read_text
from pellucid.model.embeddings import Embeddings
from pellucid.model.families import DecoderOnly, Model, SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.text.foreign_files import ForeignFiles
from pellucid.text.hugging_face import HUGGING_FACE_KIND
from pellucid.text.hugging_face_loading import load_hugging_face_tokenizers
from pellucid.text.template import Template, read_template
from pellucid.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.weights.empty_models import build_uninitialised
from pellucid.weights.folder import SavedModel
from pellucid.weights.tensors import parameters, set_parameters
from pellucid.weights.tutorials.importing import read_tutorial
from pellucid.weights.tutorials.layouts import LAYOUTS, PYTORCH_TRANSFORMER, Slip
from pellucid.weights.tutorials.reading import infer_num_heads
from pellucid.weights.tutorials.slips import Asked, AsWritten, Imported, choose_slips, find_slips, slip_names
from pellucid.weights.tutorials.source import read_num_heads, read_state_dict

USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[pad]", "<blank>"),
    "start": ("<sos>", "<s>", "<bos>", "<start>", "[sos]", "[bos]", "[start]", "[cls]"),
    "end": ("<eos>", "</s>", "<end>", "[eos]", "[end]", "[sep]"),
    "unknown": ("<unk>", "[unk]", "<oov>"),
}
"""The usual spellings of the special tokens in vocabularies, in upper or lower case; in the order of their new ids."""
CLASSIFIER = "nlp-with-transformers"
"""The layout of a classifier; the other layouts are translators."""
GPT2_ROWS = (50257, 50304)
"""The size of GPT-2's vocabulary, and that number rounded up, as in nanoGPT."""
MOST_CHARACTERS = 1024
"""The largest vocabulary that may be one of characters."""
NEVER = -1e4
"""The logit of a word that is never written; its exponential is 0 in every floating-point type."""
KINDS = ("spaces", "words", "characters")
"""The ways to split text into the tokens of a list."""


@dataclass(frozen=True, kw_only=True)
class TutorialOptions:
    """Facts about a tutorial's model that its tensors do not contain."""

    num_heads: int | None = None
    """The number of attention heads; None: inferred from the tensors if possible."""
    src_vocab: str = ""
    """The file of the source's vocabulary, one token per line; the line's number is the token's id. A `.json` file is a
    list of tokens, or a table from tokens to ids or from ids to tokens. A language model has only this vocabulary,
    which may also be a folder with tokenizer files: tokenizer.json, or vocab.json and merges.txt.
    """
    tgt_vocab: str = ""
    """The same for the target."""
    tokenizer: str | None = None
    """The way to split text into tokens: spaces, words or characters. None: characters for a language model all of
    whose tokens are single characters, else spaces.
    """
    lowercase: bool = False
    """If True, text is lower-cased first."""
    source_without_bos: bool = False
    """True if sources had no start token, though their vocabulary has one."""
    source_without_eos: bool = False
    """True if sources had no end token."""
    labels: str = ""
    """The file of a classifier's class names, one per line; without it the classes have numbers."""
    max_positions: int = MAX_POSITIONS
    """The number of positions of a model that computes them."""
    as_written: Asked = None
    """The slips of the tutorial's code to reproduce: names, True or "all", False or "none". None: the slips that the
    weights show.
    """
    norm_first: bool = False
    """For `torch.nn.Transformer`: True if norms precede the sublayers."""
    activation: str | None = None
    """For `torch.nn.Transformer` and language models: relu, gelu, gelu_tanh or silu; None: the tutorial's activation.
    """
    unscaled_embeddings: bool = False
    """For `torch.nn.Transformer`: True if embeddings are not multiplied by the square root of their width."""
    src_embedding: str = ""
    """For `torch.nn.Transformer`: the name of the source embedding's tensor; empty: found by name and shape."""
    tgt_embedding: str = ""
    """The same for the target."""
    output_projection: str = ""
    """The name of the tensor that projects to the vocabulary."""


def open_tutorial(state_dict: Mapping[str, Any], layout: str, options: TutorialOptions) -> SavedModel:
    """Returns the model of a state dict with its vocabularies, ready for text.

    Its words are renumbered with the special tokens first, as in all Pellucid vocabularies: only rows of the embeddings
    and of the output are permuted.

    Raises ConfigError and DataError for options or vocabularies that do not fit, CheckpointError for tensors that do
    not fit.
    """
    tensors = read_state_dict(state_dict)
    if options.num_heads is None:
        options = replace(options, num_heads=read_num_heads(state_dict))
    task = _task(layout, tensors)
    _check(options, task, tensors)
    slips = choose_slips(options.as_written, layout, tensors)
    if task == "generate":
        return _open_language_model(tensors, layout, options, slips)
    return _open(tensors, layout, options, slips)


def find_nonsense(saved: SavedModel, state_dict: Mapping[str, Any], layout: str, options: TutorialOptions) -> str:
    """Returns a sentence on why a translator from `open_tutorial` makes no sense, or an empty text if none was found.

    If the code has a slip that the weights can show, the other reading is tried as well.
    """
    if not isinstance(saved.model, Transformer):
        return ""
    tensors, names = read_state_dict(state_dict), slip_names(options.as_written)
    slips = find_slips(layout, tensors)
    if fault := find_fault(saved, bool(slips)):
        return fault
    for slip, finding in slips:
        if finding is None:
            continue
        untrained, depends = finding.verdict == "never trained", dependence(saved)
        others = [] if (slip.name in names if names is not None else untrained) else [slip]
        if depends >= DEPENDS and not (untrained and others):
            continue
        other = dependence(_open(tensors, layout, options, others))
        if other >= max(2 * DEPENDS, (2 if untrained and others else 4) * depends):
            asked = format_argument("as_written", slip.name if others else "none")
            return (
                f"imported this way, its outputs depend little on the source ({depends:.2f} nats per token); with "
                f"{asked} they do ({other:.2f}), so convert it again with it"
            )
        if untrained:
            return (
                f"its outputs hardly depend on the source ({depends:.2f} nats per token, and {other:.2f} if it is "
                f"imported {'with' if others else 'without'} the slip `{slip.name}`): with that code, or after so "
                "few steps, it has not learned to translate"
            )
    return ""


def _open(tensors: Mapping[str, Tensor], layout: str, options: TutorialOptions, slips: Collection[Slip]) -> SavedModel:
    is_classifier = layout == CLASSIFIER
    all_uses = set(USUAL_NAMES)
    spared: set[str] = set() if is_classifier else {"start", *(["end"] if options.source_without_eos else [])}
    source = WordList.read(options.src_vocab, all_uses - spared)
    target = source if is_classifier else WordList.read(options.tgt_vocab, all_uses)
    model = _read(tensors, layout, options, slips, source.ids["pad"], target.ids["pad"])
    assert not isinstance(model, DecoderOnly)
    if isinstance(model, AsWritten):
        raise ConfigError(
            f"a model folder cannot store the slip `masks`: the code of `{layout}` has missing or wrong masks, and "
            "the model cannot translate with them",
            "name only the other slips; for the logits, "
            f'{PYTHON}pellucid.weights.import_tutorial(..., as_written="masks")',
        )
    source.check_size(model.config.src_vocab_size, "source")
    target.check_size(model.config.tgt_vocab_size, "target")
    fields = {"pad_id": PAD_ID, "bos_id": BOS_ID, "eos_id": EOS_ID, "max_positions": _positions(model)}
    new = renumber(model, source.order, None if is_classifier else target.order, **fields)
    sides = [words.tokenizer(options) for words in (source, target)]
    tokenizers = TokenizerPair(sides[0], sides[0]) if is_classifier else TokenizerPair(*sides)
    starts = "start" in source.ids and not options.source_without_bos and not is_classifier
    decode = DecodeConfig(source_prefix=(BOS_ID,) if starts else (), add_source_eos=not options.source_without_eos)
    return SavedModel(new, tokenizers, decode, get_task(new.config).name, _labels(options.labels, model))


def _task(layout: str, tensors: Mapping[str, Tensor]) -> str:
    """Returns the task name of a layout's model."""
    if layout == CLASSIFIER:
        return "classify"
    if layout == PYTORCH_TRANSFORMER:
        return "translate" if any(".multihead_attn." in f".{name}" for name in tensors) else "generate"
    return "generate" if layout in LAYOUTS and LAYOUTS[layout][0].is_decoder else "translate"


def _read(
    tensors: Mapping[str, Tensor],
    layout: str,
    options: TutorialOptions,
    slips: Collection[Slip],
    pad_id: int | None,
    tgt_pad_id: int | None,
) -> Imported:
    num_heads = infer_num_heads(tensors, layout) if options.num_heads is None else options.num_heads
    if num_heads is None:
        raise ConfigError(
            "`num_heads=` is required: it does not follow from the tensors", "set the number of heads of its training"
        )
    return read_tutorial(
        tensors, layout, num_heads, pad_id, tgt_pad_id, options.max_positions, slips, norm_first=options.norm_first,
        activation=cast(Literal["relu"] | None, options.activation), scale_embeddings=not options.unscaled_embeddings,
        src_embedding=options.src_embedding, tgt_embedding=options.tgt_embedding, output=options.output_projection,
    )  # fmt: skip


def _open_language_model(
    tensors: Mapping[str, Tensor], layout: str, options: TutorialOptions, slips: Collection[Slip]
) -> SavedModel:
    """Returns a decoder alone, with a tokenizer from tokenizer files or with a list of tokens.

    A list, such as one of characters, may lack special tokens: Pellucid's are then new words that are never written.
    The start token, which begins an empty prompt, is the newline if the list has one.
    """
    path = options.src_vocab or options.tgt_vocab
    model = _read(tensors, layout, options, slips, None, None)
    assert isinstance(model, DecoderOnly)
    rows, fields = model.config.tgt_vocab_size, {"pad_id": None, "max_positions": _positions(model)}
    if (folder := _tokenizer_folder(path)) is not None:
        files = ForeignFiles(folder)
        tokenizers = load_hugging_face_tokenizers(files)
        if tokenizers is None:
            raise DataError(f"`{folder}` has no tokenizer's files", "copy tokenizer.json, or vocab.json and merges.txt")
        tokenizer = tokenizers.target
        if tokenizer.size > rows:
            raise CheckpointError(
                f"the tokenizer in `{folder}` has {tokenizer.size:,} ids, but the model's embedding {rows:,} rows",
                "use the tokenizer that the model was trained with",
            )
        order: list[int | None] = list(range(tokenizer.size))  # some code rounds the number of rows up
        new = renumber(model, order, order, **fields, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id)
        template = read_template(files, tokenizer, {}, continues=True) or Template()
        return SavedModel(
            new, tokenizers, DecodeConfig(source_prefix=template.before, add_source_eos=False), "generate"
        )
    words = WordList.read(path, ())
    words.check_size(rows, "model")
    order = words.order
    lacking = [number for number in range(len(SPECIAL_TOKENS)) if order[number] is None]
    if BOS_ID in lacking and "\n" in words.tokens:
        order[BOS_ID] = words.tokens.index("\n")
    has_bias = model.config.output_bias or bool(lacking)
    new = renumber(model, order, order, **fields, bos_id=BOS_ID, eos_id=EOS_ID, output_bias=has_bias)
    if lacking:
        assert isinstance(new, DecoderOnly)
        assert new.output_projection.bias is not None
        new.output_projection.bias.data[lacking] = NEVER
    if options.tokenizer is None:
        others = [words.tokens[old] for old in order[len(SPECIAL_TOKENS) :] if old is not None]
        cut = "characters" if all(len(token) == 1 for token in others) else "spaces"
        options = replace(options, tokenizer=cut)
    return SavedModel(new, TokenizerPair(words.tokenizer(options)), DecodeConfig(add_source_eos=False), "generate")


def _tokenizer_folder(path: str) -> Path | None:
    """Returns the folder of tokenizer files that a path names, itself or by one of the files; None for a list."""
    place = Path(path)
    if place.is_dir():
        return place
    pair = {"vocab.json", "merges.txt"}
    is_pair = place.name in pair and all((place.parent / name).is_file() for name in pair)
    return place.parent if place.name == HUGGING_FACE_KIND or is_pair else None


@dataclass(frozen=True)
class WordList:
    """A vocabulary's tokens in the order of their ids, and the ids of the special tokens."""

    path: str
    tokens: Sequence[str]
    ids: Mapping[str, int]
    """The id of each special token in the list, by its use."""

    @classmethod
    def read(cls, path: str, needed: Collection[str]) -> "WordList":
        """Returns the tokens of a file. Raises DataError for a token that occurs twice and for missing special
        tokens.
        """
        tokens = _read_tokens(path)
        places: dict[str, int] = {}
        for number, token in enumerate(tokens):
            if token in places:
                raise DataError(
                    f"`{path}` has the token `{format_value(token)}` twice, in lines {places[token] + 1:,} and "
                    f"{number + 1:,}",
                    "write each token once, in the order of their ids",
                )
            places[token] = number
        ids = {use: found for use in USUAL_NAMES if (found := _special(path, tokens, use)) is not None}
        missing = [use for use in USUAL_NAMES if use in needed and use not in ids]
        if missing:
            names = "; ".join(f"{use}: {', '.join(f'`{name}`' for name in USUAL_NAMES[use])}" for use in missing)
            raise DataError(
                f"`{path}` has no special token for {' and '.join(missing)}; the supported names: {names}",
                "write it with one of these names, in the line of its id",
            )
        return cls(path, tokens, ids)

    @property
    def order(self) -> list[int | None]:
        """Returns the old id of each new id: special tokens first, then all others in their old order."""
        special = [self.ids.get(use) for use in USUAL_NAMES]
        return [*special, *(number for number in range(len(self.tokens)) if number not in special)]

    def check_size(self, rows: int, side: str) -> None:
        """Raises CheckpointError if the number of tokens differs from the number of rows in the embedding."""
        if len(self.tokens) != rows:
            raise CheckpointError(
                f"`{self.path}` has {len(self.tokens):,} tokens, but the {side}'s embedding {rows:,} rows",
                "use the vocabulary that the model was trained with, one token per line, special ones included",
            )

    def tokenizer(self, options: TutorialOptions) -> Vocabulary:
        """Returns the tokenizer of the list, in its new order."""
        others = [self.tokens[old] for old in self.order[len(SPECIAL_TOKENS) :] if old is not None]
        return Vocabulary(options.tokenizer or "spaces", tuple(others), lowercase=options.lowercase)


def _read_tokens(path: str) -> list[str]:
    """Returns the tokens of a file in the order of their ids.

    Raises DataError for a pickle, which is not opened, and for JSON that is neither a list of tokens nor a table of all
    ids from 0 on.
    """
    place = Path(path)
    if place.suffix.lower() in (".pkl", ".pickle"):
        raise DataError(
            f"`{path}` is a pickle, which could run code, so it is not opened",
            "write its list of tokens as JSON in a trusted environment: "
            f'{PYTHON}json.dump([itos[i] for i in range(len(itos))], open("vocabulary.json", "w"))',
        )
    if place.suffix.lower() != ".json":
        return list(read_lines(path))
    try:
        found = parse_json(read_text(place, MOST_TOKENIZER_BYTES))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"`{path}` is not JSON: {format_value(str(error))}", "write a JSON list of tokens, or one token per line"
        ) from error
    tokens: dict[object, object] = {}
    if isinstance(found, list):
        tokens = dict(enumerate(found))
    elif isinstance(found, dict) and found:
        by_token = all(type(value) is int for value in found.values())
        tokens = (
            {value: key for key, value in found.items()} if by_token else
            {int(key): value for key, value in found.items() if key.isdecimal() and len(key) < 10}
        )  # fmt: skip
        if len(tokens) != len(found):
            tokens = {}
    if (
        not tokens
        or sorted(tokens, key=str) != sorted(range(len(tokens)), key=str)
        or not all(isinstance(token, str) for token in tokens.values())
    ):
        raise DataError(
            f"`{path}` holds no vocabulary",
            "write a list of tokens in the order of their ids, or a table of tokens and ids from 0 on",
        )
    return [str(tokens[number]) for number in range(len(tokens))]


def _special(path: str, tokens: Sequence[str], use: str) -> int | None:
    """Returns the id of the token for a use. Raises DataError if several tokens match."""
    found = [number for number, token in enumerate(tokens) if token.lower() in USUAL_NAMES[use]]
    if len(found) > 1:
        listed = ", ".join(f"`{tokens[number]}`" for number in found)
        raise DataError(
            f"`{path}` has {len(found)} tokens that could be {use}: {listed}",
            "rename the others, for instance to `<unused1>`",
        )
    return found[0] if found else None


def _check(options: TutorialOptions, task: str, tensors: Mapping[str, Tensor]) -> None:
    is_classifier = task == "classify"
    if options.tokenizer is not None and options.tokenizer not in KINDS:
        raise ConfigError(
            f"unknown tokenizer `{options.tokenizer}` for a list of tokens{did_you_mean(options.tokenizer, KINDS)}",
            f"choose one of {', '.join(KINDS)}",
        )
    if task == "generate":
        if not (options.src_vocab or options.tgt_vocab):
            raise ConfigError("`src_vocab=` is required: the weights have no token ids", _suggest_token_file(tensors))
        for name in ("source_without_bos", "source_without_eos"):
            if getattr(options, name):
                raise ConfigError(f"`{name}=True` is for a translator, but this is a language model", "leave it out")
    elif not options.src_vocab or not (options.tgt_vocab or is_classifier):
        missing = "tgt_vocab" if options.src_vocab else "src_vocab"
        raise ConfigError(
            f"`{missing}=` is required: the weights have no word ids",
            "write the vocabulary to a text file, one token per line, in the order of the ids",
        )
    if is_classifier and options.source_without_eos:
        raise ConfigError(
            "`source_without_eos=True` is for a translator, but this layout is a classifier's", "leave it out"
        )
    if options.labels and not is_classifier:
        kind = "translator" if task == "translate" else "language model"
        raise ConfigError(f"`labels=` is for a classifier, but this layout is a {kind}'s", "leave it out")


def _suggest_token_file(tensors: Mapping[str, Tensor]) -> str:
    """Returns the file that names the tokens of a language model, by the number of rows of its embedding."""
    rows = max((len(tensor) for tensor in tensors.values() if tensor.dim() == 2), default=0)
    if any(len(tensor) in GPT2_ROWS for tensor in tensors.values() if tensor.dim() == 2):
        return (
            "its vocabulary has the size of GPT-2's: name the folder with GPT-2's vocab.json and merges.txt, or "
            "tokenizer.json"
        )
    if any(len(tensor) <= MOST_CHARACTERS for tensor in tensors.values() if tensor.dim() == 2) and rows:
        return (
            "for characters write the list as JSON, in the order of the ids: "
            f'{PYTHON}json.dump([itos[i] for i in range(len(itos))], open("vocabulary.json", "w")); for words a file '
            "with one token per line; for BPE name the folder with tokenizer.json, or vocab.json and merges.txt"
        )
    return "name a file with one token per line or a JSON list, or the folder with the tokenizer's files"


def _positions(model: Imported) -> int:
    """Returns the number of positions of both sides: a folder has one number, so it is the smaller one."""
    sides = [module for module in model.modules() if isinstance(module, Embeddings)]
    return min(side.max_positions for side in sides)


def _labels(path: str, model: object) -> tuple[str, ...]:
    """Returns the names of the classes."""
    if not isinstance(model, SequenceClassifier):
        return ()
    labels = tuple(read_lines(path)) if path else tuple(map(str, range(model.config.num_classes)))
    if len(labels) != model.config.num_classes:
        raise DataError(f"`{path}` names {len(labels)} classes, but the model has {model.config.num_classes}")
    return labels


def renumber(
    model: Model, src_ids: Sequence[int | None] | None, tgt_ids: Sequence[int | None] | None, **fields: Any
) -> Model:
    """Returns a copy of the model in which word i is the old word `src_ids[i]`, or `tgt_ids[i]` on the target side.

    An id of None is a new word, of zeros, which must not occur. A list of None leaves that side unchanged. `fields` are
    the config fields with the new numbers, and `max_positions`, which may be smaller than before. Embeddings that both
    sides share must have the same order.
    """
    config, tensors = model.config, parameters(model)
    if fields.get("output_bias") and not config.output_bias:
        tensors["output_projection.bias"] = torch.zeros(config.tgt_vocab_size)
    sides = {"src_embedding.tokens.": src_ids, "tgt_embedding.tokens.": tgt_ids, "output_projection.": tgt_ids}
    for name, tensor in tensors.items():
        ids = next((ids for before, ids in sides.items() if name.startswith(before)), None)
        if ids is not None:
            tensors[name] = _rows(tensor.detach(), ids)
        elif name.endswith("_embedding.positions.weight"):
            tensors[name] = tensor[: fields.get("max_positions")]
    sizes = {"src_vocab_size": src_ids, "tgt_vocab_size": tgt_ids if isinstance(model, Transformer) else src_ids}
    changed = {name: len(ids) for name, ids in sizes.items() if ids is not None} | fields
    new = build_uninitialised(from_table(ModelConfig, to_table(config) | changed, "[model]"))
    set_parameters(new, tensors, "the model")
    return new.eval()


def _rows(table: Tensor, ids: Sequence[int | None]) -> Tensor:
    rows = table.new_zeros(len(ids), *table.shape[1:])
    known = [place for place, number in enumerate(ids) if number is not None]
    rows[known] = table[torch.tensor([number for number in ids if number is not None])]
    return rows
