"""Checks that the nodes of a nodes file fit together: ids, edges, names and counts."""

from __future__ import annotations

from typing import NoReturn

from nnhal_mlip.flow.errors import FlowFilesError
from nnhal_mlip.flow.files.extension import check_scales
from nnhal_mlip.flow.files.layers import EXTENDED_LAYERS, FullyConnectedAttributes, SumAttributes
from nnhal_mlip.flow.files.nodes_file import InputNode, KernelNode, NodesFile, batch_of
from nnhal_mlip.flow.graph.operators import TABLES

_ACTIVATIONS = (None, "", "relu", "clip", *TABLES)


def check_nodes(file: NodesFile) -> None:
    """Raise FlowFilesError, with the user's name of the node, if nodes do not fit together."""
    inputs = len(file.inputs)
    if any(isinstance(node, KernelNode) for node in file.nodes[:inputs]) or not 0 < inputs < len(file.nodes):
        _refuse(
            file.symbol, f"{inputs} inputs of {len(file.nodes)} nodes", "inputs, then kernels, at least one of each"
        )
    _equal(file.symbol, "arg_nodes", list(file.arg_nodes), list(range(inputs)))
    _equal(file.symbol, "num_subgraph_inputs", file.num_subgraph_inputs, inputs)
    _equal(file.symbol, "num_subgraph_outputs", file.num_subgraph_outputs, len(file.heads))
    if not file.heads:
        _refuse(file.symbol, "no heads", "at least one")
    _equal(file.symbol, "batch_size", file.batch_size, batch_of(file.inputs[-1].attrs.shape[0]))
    shapes, types = file.attrs.shape[1], file.attrs.dltype[1]
    for key, entries in (("attrs.shape", shapes), ("attrs.dltype", types)):
        if len(entries) != len(file.nodes):
            _refuse(file.symbol, f"{len(entries)} entries in {key}", f"{len(file.nodes)}, one a node")
    names: dict[str, str] = {}
    for number, node in enumerate(file.nodes):
        if node.name in names:
            _refuse(place(node), f"name {node.name}, which {names[node.name]} has", "a name of its own")
        names[node.name] = place(node)
        _equal(place(node), "the number of types", len(node.attrs.dtype), 1)
        _equal(place(node), f"attrs.dltype[{number}]", types[number], node.attrs.dtype[0])
        _equal(place(node), f"attrs.shape[{number}]", list(shapes[number]), list(node.attrs.shape[0]))
        check_scales(place(node), node.attrs.nnhal, node.attrs.shape[0])
        if node.attrs.nnhal and not file.nnhal:
            _refuse(place(node), "an extension nnhal", "one at the top of the file as well, with the version")
        if isinstance(node, InputNode):
            _equal(place(node), "input_id", node.input_id, number)
            _equal(place(node), "layer_name", node.attrs.layer_name, "input")
        else:
            _check_kernel(file, node, number)
    for head in file.heads:
        if not inputs <= head.node < len(file.nodes) or head.output:
            _refuse(file.symbol, f"head {list(head)}", "the only result, 0, of a kernel")
    if file.nnhal:
        _equal(file.symbol, "the number of nnhal.outputs", len(file.nnhal.outputs), len(file.heads))


def place(node: InputNode | KernelNode) -> str:
    return f"input '{node.user_name}'" if isinstance(node, InputNode) else f"layer '{node.user_name}' ({node.layer})"


def _check_kernel(file: NodesFile, node: KernelNode, number: int) -> None:
    attrs, where = node.attrs, place(node)
    if node.layer in EXTENDED_LAYERS and not file.nnhal:
        _refuse(where, "a layer that the upstream form does not have", "an extension nnhal at the top of the file")
    for edge in node.inputs:
        if edge.node >= number:
            _refuse(where, f"an edge from node {edge.node}, while it is node {number}", "one from a node before it")
        if edge.output:
            _refuse(where, f"an edge from result {edge.output} of node {edge.node}", "its only result, 0")
    _equal(where, "func_node_name", attrs.func_node_name, file.symbol)
    _equal(where, "mrvl_nodes_idx", attrs.mrvl_nodes_idx[0], number - len(file.inputs) + 1)
    _equal(where, "the number of results", (len(attrs.shape), attrs.num_outputs), (1, 1))
    _equal(where, "the length of from_tuple_idx", len(attrs.from_tuple_idx), len(node.inputs))
    constants = [
        attrs.kernel_const,
        attrs.bias_const,
        attrs.gamma_const,
        attrs.beta_const,
        attrs.mean_const,
        attrs.var_const,
    ]
    if isinstance(attrs, SumAttributes):
        constants.append(attrs.input_const)
    fields = (attrs.nnhal.constant_fields if attrs.nnhal else None) or {}
    count = len(node.inputs) + sum(each is not None for each in constants) + len(fields)
    _equal(where, "num_inputs", attrs.num_inputs, count)
    if attrs.activation_type not in _ACTIVATIONS:
        _refuse(where, f"activation_type {attrs.activation_type}", f"relu, clip or one of {', '.join(sorted(TABLES))}")
    clip = attrs.nnhal.clip if attrs.nnhal else None
    if (attrs.activation_type == "clip") != (clip is not None):
        _refuse(
            where,
            f"activation_type {attrs.activation_type!r} and nnhal.clip {clip}",
            "a range with clip, and only then",
        )
    if clip:
        low, high = clip
        if low is not None and high is not None and not low <= high:
            _refuse(where, f"nnhal.clip {list(clip)}", "a low end, then a high one")
    if attrs.activation_type in TABLES and not file.nnhal:
        _refuse(where, f"activation_type {attrs.activation_type}", "an extension nnhal at the top of the file")
    if isinstance(attrs, FullyConnectedAttributes) and attrs.weights_need_transform not in (None, "", "yes"):
        _refuse(where, f"weights_need_transform {attrs.weights_need_transform}", "yes, or no such attribute")


def _equal(where: str, what: str, got: object, expected: object) -> None:
    if got != expected:
        _refuse(where, f"{what} {got}", str(expected))


def _refuse(where: str, got: str, expected: str) -> NoReturn:
    raise FlowFilesError(f"{where}: got {got}, expected {expected}")
