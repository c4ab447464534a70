"""Operations on constants are computed on import within limits; what exceeds them is left to the devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto
from onnx.helper import make_node, make_tensor_value_info

from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.limits import DEFAULT_LIMITS, FoldingBudget, ImportLimits
from nnhal_frontends.onnx import import_onnx
from nnhal_frontends.onnx.folding import fold_constants
from nnhal_frontends.onnx.graph import read_graph
from tests.support.onnx_models import onnx_model

KIBIBYTE = 1 << 10
TIGHT = ImportLimits(operation_bytes=64 * KIBIBYTE, folded_bytes=256 * KIBIBYTE, folding_work=1 << 20)
ONE = np.float32(1)
SQUARE = np.array([512, 512])
"""A mebibyte of floats."""


def summed(nodes: Sequence[NodeProto], constants: dict[str, Any], opset: int = 17) -> onnx.ModelProto:
    """Return a model that adds to x the sum of the tensor ``c``, which the nodes compute from constants."""
    ends = [make_node("ReduceSum", ["c"], ["s"], "total", keepdims=0), make_node("Add", ["x", "s"], ["y"], "last")]
    return onnx_model([*nodes, *ends], {"x": [4]}, ["y"], constants, opset)


def constant_bytes(imported: ImportedModel) -> int:
    resolved = imported.resolved()
    return sum(values.nbytes for values in resolved.constants[0].values())


CASES: dict[str, tuple[list[NodeProto], dict[str, Any]]] = {
    "ConstantOfShape": ([make_node("ConstantOfShape", ["shape"], ["c"], "big")], {"shape": SQUARE}),
    "Expand": ([make_node("Expand", ["one", "shape"], ["c"], "big")], {"one": ONE, "shape": SQUARE}),
    "Tile": (
        [make_node("Tile", ["one", "shape"], ["c"], "big")],
        {"one": np.ones((1, 1), np.float32), "shape": SQUARE},
    ),
    "Range": (
        [make_node("Range", ["zero", "end", "one"], ["c"], "big")],
        {"zero": np.float32(0), "end": np.float32(1 << 18), "one": ONE},
    ),
    "Pad": (
        [make_node("Pad", ["one", "pads"], ["c"], "big")],
        {"one": np.ones((1, 1), np.float32), "pads": np.array([0, 0, 511, 511])},
    ),
    "Resize": (
        [make_node("Resize", ["image", "", "", "sizes"], ["c"], "big", mode="linear")],
        {"image": np.ones((1, 1, 2, 2), np.float32), "sizes": np.array([1, 1, 512, 512])},
    ),
    "Gather": (
        [make_node("Gather", ["rows", "index"], ["c"], "big")],
        {"rows": np.ones((2, 512), np.float32), "index": np.zeros(512, np.int64)},
    ),
    "OneHot": (
        [make_node("OneHot", ["index", "depth", "values"], ["c"], "big")],
        {"index": np.zeros(512, np.int64), "depth": np.array(512), "values": np.array([0, 1], np.float32)},
    ),
    "Where": (
        [make_node("Where", ["yes", "column", "row"], ["c"], "big")],
        {"yes": np.array([True]), "column": np.ones((512, 1), np.float32), "row": np.ones((1, 512), np.float32)},
    ),
    "MatMul": (
        [make_node("MatMul", ["column", "row"], ["c"], "big")],
        {"column": np.ones((512, 1), np.float32), "row": np.ones((1, 512), np.float32)},
    ),
    "Einsum": (
        [make_node("Einsum", ["a", "b"], ["c"], "big", equation="i,j->ij")],
        {"a": np.ones(512, np.float32), "b": np.ones(512, np.float32)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_large_result_is_left_to_the_devices(case: str) -> None:
    imported = import_onnx(summed(*CASES[case]), limits=TIGHT)
    assert "big" in {name for names in imported.operation_nodes for name in names}
    assert constant_bytes(imported) < 128 * KIBIBYTE


def test_a_result_that_fits_is_computed() -> None:
    nodes, constants = CASES["Expand"]
    imported = import_onnx(
        summed(nodes, constants), limits=replace(TIGHT, operation_bytes=1 << 20, folded_bytes=1 << 21)
    )
    assert imported.folded_nodes[0] == "big"


def test_what_the_file_declares_of_sizes_does_not_count() -> None:
    nodes = [make_node("Mul", ["side", "side"], ["shape"]), make_node("Expand", ["one", "shape"], ["c"], "big")]
    model = summed(nodes, {"one": ONE, "side": np.array([24, 24])})
    model.graph.value_info.append(make_tensor_value_info("c", onnx.TensorProto.FLOAT, [2, 2]))
    imported = import_onnx(model, limits=TIGHT)
    assert imported.folded_nodes == ("Mul_0",)


def test_work_is_bounded_even_if_results_are_small() -> None:
    constants = {name: np.ones((64, 64), np.float32) for name in "abd"}
    nodes = [make_node("Einsum", ["a", "b", "d"], ["c"], "big", equation="ij,kl,mn->")]
    assert import_onnx(summed(nodes, constants), limits=TIGHT).folded_nodes == ()


def test_a_chain_that_doubles_is_computed_up_to_the_limit() -> None:
    nodes = [make_node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], f"n{i}", axis=0) for i in range(19)]
    nodes.append(make_node("Concat", ["c19", "c19"], ["c"], "n19", axis=0))
    imported = import_onnx(summed(nodes, {"c0": np.zeros(1024, np.float32)}), limits=TIGHT)
    assert imported.folded_nodes == tuple(f"n{i}" for i in range(4))
    assert constant_bytes(imported) < 128 * KIBIBYTE


def test_a_vector_of_sizes_that_doubles_is_not_propagated() -> None:
    nodes = [make_node("Shape", ["x"], ["v0"])]
    nodes += [make_node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(40)]
    nodes += [make_node("Cast", ["v40"], ["w"], to=1), make_node("ReduceMax", ["w"], ["s"], keepdims=0)]
    nodes.append(make_node("Add", ["x", "s"], ["y"]))
    model = onnx_model([make_node("Relu", ["x"], ["y"])], {"x": ["n"]}, ["y"])
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert read_graph(model, lenient=True).shape("v40") in (None, (0,), (1 << 40,))


def test_tensors_of_too_many_dimensions_are_refused() -> None:
    nodes = [make_node("Expand", ["one", "length"], ["t"]), make_node("Reshape", ["x", "t"], ["y"])]
    model = onnx_model([make_node("Relu", ["x"], ["y"])], {"x": [4]}, ["y"])
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for name, values in (("one", np.array(1)), ("length", np.array([1 << 40]))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    with pytest.raises(InvalidModel, match="the model's tensors have up to 1099511627777 dimensions together"):
        import_onnx(model)


def test_results_that_are_read_no_more_are_dropped() -> None:
    nodes = [make_node("Add", [f"c{i}", "one"], [f"c{i + 1}"]) for i in range(64)]
    nodes.append(make_node("Add", ["c64", "one"], ["c"]))
    constants = {"c0": np.zeros(8192, np.float32), "one": ONE}  # 64 times 32 KiB would exceed the limit
    graph = fold_constants(read_graph(summed(nodes, constants)), TIGHT)
    assert [node.op_type for node in graph.nodes] == ["Add"]
    assert sum(values.nbytes for values in graph.constants.values()) < 64 * KIBIBYTE


def test_models_with_large_constants_of_their_own_may_make_more_of_them() -> None:
    weights = np.zeros((512, 256), np.float16)
    nodes = [make_node("Cast", ["w"], ["v"], "widened", to=1), make_node("Transpose", ["v"], ["c"], "turned")]
    imported = import_onnx(summed(nodes, {"w": weights}), limits=TIGHT)
    assert imported.folded_nodes[:2] == ("widened", "turned")


def test_strings_are_not_made_longer() -> None:
    nodes = [make_node("StringConcat", [f"s{i}", f"s{i}"], [f"s{i + 1}"], f"n{i}") for i in range(40)]
    nodes += [make_node("Equal", ["s40", "s40"], ["e"]), make_node("Cast", ["e"], ["c"], to=1)]
    graph = fold_constants(read_graph(summed(nodes, {"s0": np.array(["text"], object)}, opset=20), lenient=True), TIGHT)
    assert sum(node.op_type == "StringConcat" for node in graph.nodes) == 40


def test_weights_are_not_made_anew_for_each_of_many_factors() -> None:
    nodes = [make_node("Conv", ["x", "w"], ["c0"], "conv")]
    nodes += [make_node("Mul", [f"c{i}", "k"], [f"c{i + 1}"], f"n{i}") for i in range(40)]
    constants = {"w": np.ones((64, 64, 1, 1), np.float32), "k": np.ones((1, 64, 1, 1), np.float32)}
    imported = import_onnx(onnx_model(nodes, {"x": [1, 64, 2, 2]}, ["c40"], constants))
    assert len(imported.operation_nodes[0]) < 12
    assert constant_bytes(imported) < 40 * KIBIBYTE


def test_nodes_that_contradict_their_neighbours_are_found_in_one_pass() -> None:
    nodes: list[NodeProto] = []
    constants: dict[str, Any] = {"s": np.float32(0.1), "t": np.float32(0.2)}
    for i in range(60):
        constants[f"w{i}"] = np.zeros(4, np.uint8)
        nodes += [
            make_node("DequantizeLinear", [f"w{i}", "s"], [f"a{i}"], f"p{i}"),
            make_node("DequantizeLinear", [f"w{i}", "t"], [f"b{i}"], f"q{i}"),
            make_node("Add", [f"a{i}", f"b{i}"], [f"d{i}"]),
            make_node("Add", [f"e{i - 1}" if i else "x", f"d{i}"], [f"e{i}"]),
        ]
    imported = import_onnx(onnx_model(nodes, {"x": [4]}, ["e59"], constants))
    assert sum(names == (f"q{i}",) for i in range(60) for names in imported.operation_nodes) == 60


def test_parameters_that_contradict_one_another_are_for_the_devices_to_refuse() -> None:
    nodes = [make_node("Conv", ["x", "w"], ["c"]), make_node("BatchNormalization", ["c", "a", "b", "d", "e"], ["y"])]
    constants = {"w": np.ones((4, 1, 1, 1), np.float32), **{name: np.ones(4, np.float32) for name in "abde"}}
    model = onnx_model(nodes, {"x": [1, 1, 4, 4]}, ["y"], constants)
    for tensor in model.graph.initializer:
        if tensor.name == "b":
            tensor.dims[0], tensor.raw_data = 3, bytes(12)
    assert len(import_onnx(model).model.main.operations) == 1


def test_a_budget_charges_only_what_it_admits() -> None:
    budget = FoldingBudget(ImportLimits(operation_bytes=100, folded_bytes=150, folding_work=10), 0, 0)
    assert budget.admit(100, 4)
    assert not budget.admit(100, 4)
    budget.release(60)
    assert budget.admit(100, 4)
    assert not budget.admit(1, 4)
    assert (budget.held_bytes, budget.work) == (140, 8)


def test_the_default_limits_are_those_that_are_documented() -> None:
    assert (DEFAULT_LIMITS.nodes, DEFAULT_LIMITS.operation_bytes, DEFAULT_LIMITS.folded_bytes) == (
        100_000,
        64 << 20,
        256 << 20,
    )
