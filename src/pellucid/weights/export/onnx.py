"""Exports a model as ONNX graphs, in the layout that transformers.js and optimum load."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import ConfigError, format_install_command
from pellucid.files.writing import atomic_path, write_json, write_text
from pellucid.model.families import DecoderOnly, EncoderOnly, Model
from pellucid.model.transformer import Transformer
from pellucid.text.foreign_files import CONFIG
from pellucid.text.tokenizers import GivenTokenizers, TokenizerPair
from pellucid.weights.card import CARD
from pellucid.weights.export.calls import make_call
from pellucid.weights.export.card import export_card
from pellucid.weights.export.custom_parts import refuse_parts
from pellucid.weights.export.hugging_face import generation_table
from pellucid.weights.export.onnx_steps import (
    MemoryReader,
    SourceReader,
    StateReader,
    TokenWriter,
    split_cross_attention,
)
from pellucid.weights.export.tokenizer_files import save_tokenizer_files
from pellucid.weights.hugging_face.settings import GENERATION

Quantization = Literal["int8"]
GRAPHS = "onnx"
"""The folder of the graphs, within the model folder."""
ENCODER, DECODER, SINGLE = "encoder_model", "decoder_model_merged", "model"
SUFFIXES: dict[str | None, str] = {None: "", "int8": "_quantized"}
"""The end of a graph's name, by the type of its matrices."""
OPSET = 20


def to_onnx(
    model: Model,
    folder: str | Path,
    tokenizers: GivenTokenizers | None = None,
    *,
    decode: DecodeConfig | None = None,
    labels: tuple[str, ...] = (),
    quantization: Quantization | None = None,
    original: str = "",
) -> Path:
    """Writes `model`, which must be on the CPU, as ONNX graphs; returns the folder.

    The layout is that of optimum, which transformers.js loads: the graphs in `onnx/`, next to `config.json`,
    `generation_config.json` and the tokenizer's files. Inputs of ids and masks are int64; B, S, T and P are free.

    | graph | reads | gives |
    | --- | --- | --- |
    | `encoder_model` | `input_ids`, `attention_mask` (B, S) | `last_hidden_state` (B, S, D) |
    | `decoder_model_merged` | `input_ids` (B, T), `encoder_attention_mask`, `encoder_hidden_states`, the past, \
`use_cache_branch` (1,) bool | `logits` (B, T, V), the present |
    | `model`, a decoder alone | `input_ids` (B, T), `attention_mask` (B, P + T), the past | the same |
    | `model`, an encoder alone | as `encoder_model`, and `token_type_ids` where it knows segments | the same, or a \
classifier's `logits` (B, C) |

    The past is `past_key_values.N.key` and `.value` (B, H, P, K) for each decoder layer N, the present `present.N.key`
    and `.value` (B, H, P + T, K). For an encoder-decoder both are named `.decoder.key` and so on, and `.encoder.key` is
    added, for the memory (B, H, S, K). Without `use_cache_branch` the past is ignored.

    Args:
        quantization: "int8": matrices in 8 bits, by onnxruntime; the graphs' names then end in `_quantize`.
        original: the card of the model, whose text and head go into the new one.

    Raises ConfigError if the extra `onnx` is not installed, or for another `quantization`.
    """
    refuse_parts(model, "ONNX Runtime")
    _check(quantization)
    folder = Path(folder)
    (folder / GRAPHS).mkdir(parents=True, exist_ok=True)
    was_training = model.training
    model.eval()
    try:
        for name, graph in _graphs(model, quantization):
            with atomic_path(folder / GRAPHS / f"{name}{SUFFIXES[quantization]}.onnx") as temporary:
                temporary.write_bytes(graph.SerializeToString(deterministic=True))
    finally:
        model.train(was_training)
    decode = decode or DecodeConfig()
    both = TokenizerPair.from_given(tokenizers)
    if both is not None:
        save_tokenizer_files(both, folder, model.config, decode)
    if model.config.family != "encoder":
        write_json(folder / GENERATION, generation_table(model.config, decode) | {"num_beams": 1})
    call = make_call(folder, "onnx", model.config, decode, both, quantized=quantization is not None)
    write_text(folder / CARD, export_card(call, original=original))
    write_json(folder / CONFIG, config_table(model.config, labels, quantization))
    return folder


def config_table(config: ModelConfig, labels: tuple[str, ...], quantization: str | None) -> dict[str, Any]:
    """Returns the table of config.json: the class with which transformers.js opens the graphs, and the sizes.

    The class only decides the names of the graphs' inputs. So pre-norm pairs are a "marian", too, although the Python
    class of that name is post-norm: transformers.js has no "pegasus".
    """
    table: dict[str, Any] = {"library_name": "pellucid", "is_encoder_decoder": config.family == "encoder-decoder"}
    table |= {"bos_token_id": config.bos_id, "eos_token_id": config.eos_id, "pad_token_id": config.pad_id}
    table |= {"max_position_embeddings": config.max_positions, "transformers.js_config": {"dtype": "fp32"}}
    if quantization is not None:
        table["transformers.js_config"] = {"dtype": "q8"}
    if config.family == "encoder-decoder":
        return table | {
            "architectures": ["MarianMTModel"], "model_type": "marian", "d_model": config.d_model,
            "encoder_layers": config.num_encoder_layers, "decoder_layers": config.num_decoder_layers,
            "encoder_attention_heads": config.num_heads, "decoder_attention_heads": config.num_heads,
            "encoder_ffn_dim": config.d_ff, "decoder_ffn_dim": config.d_ff,
            "vocab_size": config.src_vocab_size, "decoder_vocab_size": config.tgt_vocab_size,
            "decoder_start_token_id": config.bos_id,
        }  # fmt: skip
    table |= {
        "hidden_size": config.d_model, "intermediate_size": config.d_ff, "num_attention_heads": config.num_heads,
        "num_hidden_layers": config.num_encoder_layers or config.num_decoder_layers,
    }  # fmt: skip
    if config.family == "decoder":
        return table | {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": config.tgt_vocab_size,
            "num_key_value_heads": config.num_kv_heads or config.num_heads, "head_dim": config.head_width,
        }  # fmt: skip
    table |= {"model_type": "bert", "vocab_size": config.src_vocab_size, "type_vocab_size": config.num_segments}
    if not config.num_classes:
        return table | {"architectures": ["BertModel"]}
    names = labels or tuple(f"LABEL_{i}" for i in range(config.num_classes))
    named = {"id2label": {str(i): name for i, name in enumerate(names)}}
    return table | {"architectures": ["BertForSequenceClassification"], **named}


def _check(quantization: str | None) -> None:
    if quantization not in SUFFIXES:
        raise ConfigError(f"unknown quantization `{quantization}` for ONNX", "choose int8, or leave it out")
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"`{error.name}` is not installed", f"install the extra `onnx`: {format_install_command('onnx')}"
        ) from error


def _graphs(model: Model, quantization: str | None) -> Iterator[tuple[str, Any]]:
    """Yields the model's graphs and their names."""

    def graph(module: nn.Module, signature: Signature) -> Any:
        return _quantize(_export(module, *signature), quantization)

    config = model.config
    if isinstance(model, Transformer):
        yield ENCODER, graph(SourceReader(model), _reader("last_hidden_state", config))
        model = split_cross_attention(model)
        memory = graph(MemoryReader(model), _memory_reader(config))
        yield DECODER, merge_decoder(graph(TokenWriter(model), _token_writer(config)), memory, config)
    elif isinstance(model, DecoderOnly):
        yield SINGLE, graph(TokenWriter(model), _token_writer(config))
    else:
        assert isinstance(model, EncoderOnly)
        yield (
            SINGLE,
            graph(StateReader(model), _reader("logits" if config.num_classes else "last_hidden_state", config)),
        )


Signature = tuple[dict[str, Tensor], list[str], list[dict[int, str]]]
"""Inputs by name, with examples; the outputs' names; the free dimensions of the inputs, by name."""


def _reader(output: str, config: ModelConfig) -> Signature:
    names = ["input_ids", "attention_mask"]
    if config.family == "encoder" and config.num_segments:
        names.append("token_type_ids")
    examples = [torch.full((2, 3), config.eos_id), torch.ones(2, 3, dtype=torch.int64), torch.zeros(2, 3).long()]
    free = [{0: "batch_size", 1: "encoder_sequence_length"} for _ in names]
    return dict(zip(names, examples, strict=False)), [output], free


def _memory_reader(config: ModelConfig) -> Signature:
    free = [{0: "batch_size", 1: "encoder_sequence_length"}]
    inputs = {"encoder_hidden_states": torch.zeros(2, 3, config.d_model)}
    return inputs, _both("memory", config), free


def _token_writer(config: ModelConfig) -> Signature:
    # Lengths above 1: a dimension of 0 or 1 would be exported as fixed.
    heads, width = config.num_kv_heads or config.num_heads, config.head_width
    inputs, free = {"input_ids": torch.full((2, 5), config.eos_id)}, [{0: "batch_size", 1: "sequence_length"}]
    if config.family == "encoder-decoder":
        inputs["encoder_attention_mask"] = torch.ones(2, 3, dtype=torch.int64)
        free.append({0: "batch_size", 1: "encoder_sequence_length"})
        for name in _both("memory", config):
            inputs[name] = torch.zeros(2, heads, 3, width)
            free.append({0: "batch_size", 2: "encoder_sequence_length"})
    else:
        inputs["attention_mask"] = torch.ones(2, 9, dtype=torch.int64)
        free.append({0: "batch_size", 1: "past_sequence_length + sequence_length"})
    for name in _both("past_key_values", config):
        inputs[name] = torch.zeros(2, heads, 4, width)
        free.append({0: "batch_size", 2: "past_sequence_length"})
    return inputs, ["logits", *_both("present", config)], free


def _both(kind: str, config: ModelConfig) -> list[str]:
    """Returns the names of keys and values of each decoder layer."""
    own = ".decoder" if config.family == "encoder-decoder" and kind != "memory" else ""
    return [f"{kind}.{n}{own}.{what}" for n in range(config.num_decoder_layers) for what in ("key", "value")]


def _export(module: nn.Module, inputs: dict[str, Tensor], outputs: list[str], free: list[dict[int, str]]) -> Any:
    """Returns the graph of a module."""
    examples = tuple(inputs.values())
    dims: dict[str, Any] = {
        name: torch.export.Dim(name, min=0 if name == "past_sequence_length" else 1)
        for dim in free for name in dim.values() if " + " not in name
    }  # fmt: skip
    dims["past_sequence_length + sequence_length"] = torch.export.Dim.AUTO
    shapes: Any = tuple({place: dims[name] for place, name in dim.items()} for dim in free)
    if isinstance(module, TokenWriter):  # the rest is one argument of any length
        shapes = (*shapes[:2], shapes[2:])
    with _quiet():
        program: Any = torch.onnx.export(
            module.eval(), examples, dynamo=True, dynamic_shapes=shapes, input_names=list(inputs),
            output_names=outputs, opset_version=OPSET, verbose=False, optimize=True,
        )  # fmt: skip
    return _remove_traces(program.model_proto)


def _quantize(proto: Any, quantization: str | None) -> Any:
    """Returns the graph with 8-bit matrices: unsigned, since signed ones overflow on processors without VNNI."""
    if quantization is None:
        return proto
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory(prefix="pellucid-") as name, _quiet():
        path = Path(name) / "graph.onnx"
        quantize_dynamic(proto, path, weight_type=QuantType.QUInt8)
        return _remove_traces(onnx.load(path))


def _remove_traces(proto: Any) -> Any:
    """Returns the graph without the exporter's notes on its origin: lines of code, with this machine's paths."""
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
    """Suppresses the exporter's internal messages."""
    loggers = [logging.getLogger(name) for name in ("", "torch.onnx", "onnxscript", "onnx_ir")]
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


FLAG = "use_cache_branch"
_ALL = 2**63 - 1
"""Larger than the length of any past."""


def merge_decoder(writer: Any, memory: Any, config: ModelConfig) -> Any:
    """Returns the graph of TokenWriter in which `memory`, the graph of MemoryReader, is computed at the first step.

    Later steps receive its keys and values as `past_key_values.N.encoder`. Without the flag the past counts as empty:
    some clients pass one that is not.
    """
    from onnx import TensorProto, helper
    from onnx.compose import add_prefix

    def describe_value(name: str, *shape: str | int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape or None)

    def number(name: str, value: int) -> Any:
        return helper.make_tensor(f"merged/{name}", TensorProto.INT64, [1], [value])

    heads, width = config.num_kv_heads or config.num_heads, config.head_width
    layers = [(n, what) for n in range(config.num_decoder_layers) for what in ("key", "value")]
    own, read = ([f"{n}.{side}.{what}" for n, what in layers] for side in ("decoder", "encoder"))

    # The outputs of the memory graph replace an input of the writer, and so does the truncated past.
    names = {f"memory.{n}.{what}": f"present.{n}.encoder.{what}" for n, what in layers}
    names |= {f"past_key_values.{place}": f"kept.{place}" for place in own}
    _rename_inputs(writer.graph.node, names)
    memory = add_prefix(memory, "memory/")
    _rename_inputs(memory.graph.node, {"memory/encoder_hidden_states": "encoder_hidden_states"})
    first = helper.make_graph(
        memory.graph.node, "first", [], [describe_value(each.name) for each in memory.graph.output]
    )
    copies = [helper.make_node("Identity", [f"past_key_values.{place}"], [f"later/{place}"]) for place in read]
    later = helper.make_graph(copies, "later", [], [describe_value(f"later/{place}") for place in read])
    whole, zero, axis = number("whole", _ALL), number("zero", 0), number("axis", 2)
    nodes = [
        helper.make_node("If", [FLAG], [f"present.{place}" for place in read], then_branch=later, else_branch=first),
        helper.make_node("Where", [FLAG, whole.name, zero.name], ["merged/kept"]),
    ]
    for place in own:
        given = [f"past_key_values.{place}", zero.name, "merged/kept", axis.name]
        nodes.append(helper.make_node("Slice", given, [f"kept.{place}"]))

    source = ("batch_size", "encoder_sequence_length")
    inputs = [each for each in writer.graph.input if each.name in ("input_ids", "encoder_attention_mask")]
    inputs.append(describe_value("encoder_hidden_states", *source, config.d_model))
    for places, length in ((own, "past_sequence_length"), (read, "encoder_sequence_length")):
        inputs += [describe_value(f"past_key_values.{place}", "batch_size", heads, length, width) for place in places]
    inputs.append(helper.make_tensor_value_info(FLAG, TensorProto.BOOL, [1]))
    presents = [
        describe_value(f"present.{place}", "batch_size", heads, "encoder_sequence_length", width) for place in read
    ]
    graph = helper.make_graph(
        [*nodes, *writer.graph.node], "decoder", inputs, [*writer.graph.output, *presents],
        [*writer.graph.initializer, *memory.graph.initializer, whole, zero, axis],
    )  # fmt: skip
    imports = {each.domain: each for each in (*writer.opset_import, *memory.opset_import)}
    functions = {(each.domain, each.name): each for each in (*writer.functions, *memory.functions)}
    return helper.make_model(
        graph, opset_imports=list(imports.values()), functions=list(functions.values()),
        ir_version=writer.ir_version, producer_name="pellucid",
    )  # fmt: skip


def _rename_inputs(nodes: Any, names: dict[str, str]) -> None:
    for node in nodes:
        node.input[:] = [names.get(name, name) for name in node.input]
