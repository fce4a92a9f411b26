"""One graph for the first step of a decoder and for all later ones: with `use_cache_branch`, as optimum has it."""

from typing import Any

from pellucid.config import ModelConfig

FLAG = "use_cache_branch"
_ALL = 2**63 - 1
"""Further than any past goes."""


def merged_decoder(writer: Any, memory: Any, config: ModelConfig) -> Any:
    """Returns the graph of TokenWriter in which `memory`, the graph of MemoryReader, is computed at the first step.

    Later steps are given its keys and values as `past_key_values.N.encoder`. Without the flag the past counts as empty:
    some clients hand in one that is not.
    """
    from onnx import TensorProto, helper
    from onnx.compose import add_prefix

    def told(name: str, *shape: str | int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape or None)

    def number(name: str, value: int) -> Any:
        return helper.make_tensor(f"merged/{name}", TensorProto.INT64, [1], [value])

    heads, width = config.num_kv_heads or config.num_heads, config.head_width
    layers = [(n, what) for n in range(config.num_decoder_layers) for what in ("key", "value")]
    own, read = ([f"{n}.{side}.{what}" for n, what in layers] for side in ("decoder", "encoder"))

    # What the memory gives takes the place of an input of the writer, and so does what is left of the past.
    names = {f"memory.{n}.{what}": f"present.{n}.encoder.{what}" for n, what in layers}
    names |= {f"past_key_values.{place}": f"kept.{place}" for place in own}
    _rename_inputs(writer.graph.node, names)
    memory = add_prefix(memory, "memory/")
    _rename_inputs(memory.graph.node, {"memory/encoder_hidden_states": "encoder_hidden_states"})
    first = helper.make_graph(memory.graph.node, "first", [], [told(each.name) for each in memory.graph.output])
    copies = [helper.make_node("Identity", [f"past_key_values.{place}"], [f"later/{place}"]) for place in read]
    later = helper.make_graph(copies, "later", [], [told(f"later/{place}") for place in read])
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
    inputs.append(told("encoder_hidden_states", *source, config.d_model))
    for places, length in ((own, "past_sequence_length"), (read, "encoder_sequence_length")):
        inputs += [told(f"past_key_values.{place}", "batch_size", heads, length, width) for place in places]
    inputs.append(helper.make_tensor_value_info(FLAG, TensorProto.BOOL, [1]))
    presents = [told(f"present.{place}", "batch_size", heads, "encoder_sequence_length", width) for place in read]
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
