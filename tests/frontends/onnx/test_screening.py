"""Files that cost more to read than they are worth are refused before anything is made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_function, make_graph, make_node, make_opsetid, make_tensor_value_info

from nnhal_frontends import import_model
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.limits import DEFAULT_LIMITS
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import onnx_model, operations

FLOAT = TensorProto.FLOAT


def small() -> onnx.ModelProto:
    return onnx_model([make_node("Add", ["x", "k"], ["y"], "sum")], {"x": [4], "k": [4]}, ["y"])


def elsewhere() -> TensorProto:
    tensor = TensorProto(name="k", data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "passwords"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def initialised(tensor: TensorProto) -> onnx.ModelProto:
    model = small()
    model.graph.initializer.append(tensor)
    return model


def in_a_branch(tensor: TensorProto) -> onnx.ModelProto:
    result = make_tensor_value_info("z", FLOAT, [4])
    branch = make_graph([make_node("Add", ["x", "k"], ["z"])], "branch", [], [result], [tensor])
    nodes = [make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    model = onnx_model([make_node("Relu", ["x"], ["y"])], {"x": [4]}, ["y"], {"c": np.array(True)})
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def sparse(*dims: int, in_node: bool = False) -> onnx.ModelProto:
    tensor = onnx.SparseTensorProto(dims=dims)
    tensor.values.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32), "k"))
    tensor.indices.CopyFrom(numpy_helper.from_array(np.zeros(1, np.int64)))
    model = onnx_model([make_node("Relu", ["x"], ["y"])], {"x": [4]}, ["y"])
    if in_node:
        model.graph.node.insert(0, make_node("Constant", [], ["k"], sparse_value=tensor))
    else:
        model.graph.sparse_initializer.append(tensor)
    return model


def calling(depth: int, calls: int, in_cycle: bool = False) -> onnx.ModelProto:
    """Return a model with functions of which each calls the next one several times."""
    model = onnx_model([make_node("Relu", ["x"], ["y"])], {"x": [4]}, ["y"])
    model.graph.node[0].CopyFrom(make_node("f0", ["x"], ["y"], domain="mine"))
    model.opset_import.append(make_opsetid("mine", 1))
    for number in range(depth):
        is_last = number == depth - 1 and not in_cycle
        called, domain = ("Relu", "") if is_last else (f"f{(number + 1) % depth}", "mine")
        body = [make_node(called, [f"t{i}"], [f"t{i + 1}"], domain=domain) for i in range(calls)]
        imports = [make_opsetid("", 21), make_opsetid("mine", 1)]
        model.functions.append(make_function("mine", f"f{number}", ["t0"], [f"t{calls}"], body, imports))
    return model


def renamed(name: str) -> onnx.ModelProto:
    return onnx_model([make_node("Relu", ["x"], [name]), make_node("Tanh", [name], ["y"])], {"x": [4]}, ["y"])


def of_type(code: int) -> onnx.ModelProto:
    model = small()
    model.graph.input[0].type.tensor_type.elem_type = code
    return model


def without_outputs() -> onnx.ModelProto:
    model = small()
    del model.graph.output[:]
    return model


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: initialised(elsewhere()), "tensor 'k' lie in another file"),
        (lambda: in_a_branch(elsewhere()), "tensor 'k' lie in another file"),
        (lambda: initialised(TensorProto(name="k", data_type=FLOAT, dims=[1] * 65)), "'k' has 65 dimensions, expected"),
        (lambda: initialised(TensorProto(name="k", data_type=99, dims=[4])), "'k' has element type 99"),
        (lambda: of_type(99), "'x' has element type 99"),
        (lambda: sparse(1 << 16, 1 << 16), "take 17179869184 bytes as dense ones, expected at most 268435456"),
        (lambda: sparse(1 << 40, 1 << 40), "as dense ones"),
        (lambda: sparse(1 << 16, 1 << 16, in_node=True), "as dense ones"),
        (lambda: calling(40, 2), "nodes, subgraphs and the contents of functions included, expected at most 100000"),
        (lambda: calling(200, 4), "more nodes than can be counted"),
        (lambda: calling(3, 1, in_cycle=True), "functions call one another in a cycle: f0, f1, f2"),
        (lambda: calling(1, 1, in_cycle=True), "functions call one another in a cycle: f0"),
        (lambda: renamed("n" * 70_000), "'n{60}…', has 70000 characters, expected at most 65536"),
        (without_outputs, "the model has no outputs"),
    ],
)
def test_what_costs_too_much_is_refused_in_words(make: Callable[[], onnx.ModelProto], words: str) -> None:
    with pytest.raises(InvalidModel, match=words):
        import_onnx(make())


def test_the_nodes_of_subgraphs_and_functions_count() -> None:
    limits = replace(DEFAULT_LIMITS, nodes=12)
    assert operations(import_onnx(calling(1, 11), limits=limits)) == ["RELU"] * 11
    with pytest.raises(InvalidModel, match="the model has 13 nodes"):
        import_onnx(calling(1, 12), limits=limits)


def test_graphs_that_are_nested_too_deep_are_refused() -> None:
    graph = b""
    for _ in range(300):  # as protobuf writes a node with an attribute with a graph
        for tag in (b"\x32", b"\x2a", b"\x0a"):
            size = bytes([len(graph) & 127 | 128, len(graph) >> 7 & 127 | 128, len(graph) >> 14])
            graph = tag + size + graph
    size = bytes([len(graph) & 127 | 128, len(graph) >> 7 & 127 | 128, len(graph) >> 14])
    with pytest.raises(InvalidModel, match="nested too deep"):
        import_model(b"\x3a" + size + graph)
