"""A model as ONNX graphs: an encoder, and a decoder that takes and gives its cache."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import ConfigError
from pellucid.model.transformer import DecoderOnly, EncoderOnly, Model, Transformer
from pellucid.tables import to_table
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizers import Tokenizers
from pellucid.weights.export.onnx_steps import SourceReader, StateReader, TokenWriter
from pellucid.weights.files import replacing, write_text

FORMAT = "pellucid-onnx/1"
ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
OPSET = 20


def to_onnx(
    model: Model,
    folder: str | Path,
    tokenizers: Tokenizers | Tokenizer | None = None,
    *,
    decode: DecodeConfig | None = None,
    labels: tuple[str, ...] = (),
) -> Path:
    """Writes `model`, which must lie on the CPU, as ONNX graphs; returns the folder.

    `encoder.onnx`: `src` (B, S) int64 -> `memory_mask` (B, 1, 1, S) and for each decoder layer N `memory_keys.N` and
    `memory_values.N` (B, H, S, K); of an encoder alone -> `states` (B, S, D), of a classifier `logits` (B, C).
    `decoder.onnx`: `tokens` (B, 1) int64, those, and `past_keys.N` and `past_values.N` (B, H, P, K), P 0 at first ->
    `logits` (B, V), `keys.N` and `values.N` (B, H, P + 1, K), the next step's past. B, S and P are free.
    `config.json` says the rest; the files of `tokenizers` lie beside it.

    Raises ConfigError where the extra `onnx` is not installed.
    """
    _check_installed()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    was_training = model.training
    model.eval()
    if isinstance(model, Transformer):
        _write_graph(SourceReader(model), folder / ENCODER, *_source_reader(model.config))
    if isinstance(model, EncoderOnly):
        _write_graph(StateReader(model), folder / ENCODER, *_state_reader(model.config))
    if isinstance(model, Transformer | DecoderOnly):
        _write_graph(TokenWriter(model), folder / DECODER, *_token_writer(model.config))
    model.train(was_training)
    config = {"format": FORMAT, "model": to_table(model.config), "decode": to_table(decode or DecodeConfig())}
    if labels:
        config["labels"] = list(labels)
    if tokenizers is not None:
        both = tokenizers if isinstance(tokenizers, Tokenizers) else Tokenizers(tokenizers, tokenizers)
        config["tokenizer"] = both.save(folder)
    write_text(folder / "config.json", json.dumps(config, indent=2, ensure_ascii=False) + "\n")
    return folder


def _check_installed() -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"`{error.name}` is not installed", 'it comes with the extra "onnx": pip install "pellucid[onnx]"'
        ) from error


Signature = tuple[dict[str, Tensor], list[str], list[dict[int, str]]]
"""Inputs by name, with examples; the outputs' names; which dimensions of the inputs are free, by name."""


def _source_reader(config: ModelConfig) -> Signature:
    outputs = ["memory_mask", *_both("memory", config)]
    return {"src": _ids(2, 3, config)}, outputs, [{0: "batch", 1: "source"}]


def _state_reader(config: ModelConfig) -> Signature:
    inputs, free = {"src": _ids(2, 3, config)}, [{0: "batch", 1: "source"}]
    if config.num_segments:
        inputs["segments"] = torch.zeros(2, 3, dtype=torch.int64)
        free.append({0: "batch", 1: "source"})
    return inputs, ["logits" if config.num_classes else "states"], free


def _token_writer(config: ModelConfig) -> Signature:
    # Lengths above 1: a dimension of 0 or 1 would be taken for a fixed one.
    heads = config.num_kv_heads or config.num_heads
    inputs, free = {"tokens": _ids(2, 1, config)}, [{0: "batch"}]
    if config.family == "encoder-decoder":
        inputs["memory_mask"] = torch.ones(2, 1, 1, 3, dtype=torch.bool)
        free.append({0: "batch", 3: "source"})
        for name in _both("memory", config):
            inputs[name] = torch.zeros(2, heads, 3, config.head_width)
            free.append({0: "batch", 2: "source"})
    for name in _both("past", config):
        inputs[name] = torch.zeros(2, heads, 4, config.head_width)
        free.append({0: "batch", 2: "past"})
    present = [name.removeprefix("past_") for name in _both("past", config)]
    return inputs, ["logits", *present], free


def _both(kind: str, config: ModelConfig) -> list[str]:
    return [f"{kind}_{what}.{n}" for n in range(config.num_decoder_layers) for what in ("keys", "values")]


def _ids(batch: int, length: int, config: ModelConfig) -> Tensor:
    return torch.full((batch, length), config.eos_id)


def _write_graph(
    module: nn.Module, path: Path, inputs: dict[str, Tensor], outputs: list[str], free: list[dict[int, str]]
) -> None:
    examples = tuple(inputs.values())
    dims = {name: torch.export.Dim(name, min=1 if name != "past" else 0) for dim in free for name in dim.values()}
    shapes: Any = tuple({place: dims[name] for place, name in dim.items()} for dim in free)
    if isinstance(module, TokenWriter):  # the rest stands for one argument of any length
        shapes = (shapes[0], shapes[1:])
    with _quiet():
        program: Any = torch.onnx.export(
            module.eval(), examples, dynamo=True, dynamic_shapes=shapes, input_names=list(inputs),
            output_names=outputs, opset_version=OPSET, verbose=False, optimize=True,
        )  # fmt: skip
    with replacing(path) as temporary:
        temporary.write_bytes(_without_traces(program.model_proto).SerializeToString(deterministic=True))


def _without_traces(proto: Any) -> Any:
    """The graph without what the exporter noted on its origin: lines of code, with the paths of this machine."""
    del proto.metadata_props[:], proto.graph.metadata_props[:]
    for part in (*proto.graph.node, *proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        del part.metadata_props[:]
        part.doc_string = ""
    for function in proto.functions:
        del function.metadata_props[:]
        for node in function.node:
            del node.metadata_props[:]
    for tensor in proto.graph.initializer:
        del tensor.metadata_props[:]
    return proto


@contextmanager
def _quiet() -> Iterator[None]:
    """What the exporter says of its own insides is not for whoever converts a model."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            with torch.inference_mode(False), torch.no_grad():
                yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
