"""Files of models: ONNX and TFLite."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from nnhal_frontends import ImportLimits, ModelFormat, import_model
from nnhal_frontends.errors import FrontendError
from tests.frontends.onnx.test_extremes import network
from tests.frontends.tflite.test_reader import VARIED
from tests.fuzz.mutators.messages import MessageMutator
from tests.fuzz.mutators.octets import mutate_words
from tests.fuzz.target import FuzzTarget
from tests.support.drawn_values import random
from tests.support.tflite_files import floats
from tests.support.tflite_operators import one
from tests.support.tflite_variables import running_sum


def _onnx(data: bytes) -> None:
    import_model(data, ModelFormat.ONNX)


def _onnx_as_one(data: bytes) -> None:
    import_model(data, as_one=True)


def _onnx_seeds() -> Iterator[bytes]:
    yield network().SerializeToString()
    yield _branching().SerializeToString()


def _branching() -> onnx.ModelProto:
    """A branch, a loop, and what is folded when a file is read: shapes that are computed of shapes."""
    helper = onnx.helper
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "axis"], ["extent"], axis=0),
        helper.make_node("Concat", ["extent", "rest"], ["flat"], axis=0),
        helper.make_node("Reshape", ["x", "flat"], ["a"]),
        helper.make_node("Gemm", ["a", "w", "b"], ["g"], transB=1),
        helper.make_node("QuantizeLinear", ["g", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
    ]
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in ("t", "e")]
    branches = [
        helper.make_graph([helper.make_node(kind, ["d"], [port.name])], kind, [], [port])
        for kind, port in zip(("Relu", "Sigmoid"), ports, strict=True)
    ]
    nodes.append(helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]))
    values = {
        "axis": np.array([0]),
        "rest": np.array([-1]),
        "w": random(3, 4),
        "b": random(3),
        "scale": np.float32(0.1),
        "zero": np.int8(3),
        "c": np.array(True),
    }
    graph = helper.make_graph(
        nodes,
        "branching",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 2, 2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3])],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _tflite(data: bytes) -> None:
    import_model(data, ModelFormat.TFLITE, limits=ImportLimits())


def _tflite_seeds() -> Iterator[bytes]:
    yield one("ADD", [floats(2, 3), random(3)], floats(2, 3), ("AddOptions", {"FusedActivationFunction": 1})).file()
    yield VARIED
    yield running_sum()


TARGETS = (
    FuzzTarget("onnx", _onnx, (FrontendError,), _onnx_seeds, MessageMutator(onnx.ModelProto), cpu_seconds=5),
    FuzzTarget("onnx_whole", _onnx_as_one, (FrontendError,), _onnx_seeds, MessageMutator(onnx.ModelProto)),
    FuzzTarget("tflite", _tflite, (FrontendError,), _tflite_seeds, mutate_words),
)
