"""Widen indices, which are int64 in ONNX and int32 in the HAL."""

from __future__ import annotations

from onnx import ModelProto, TensorProto, helper

INDEX_RESULTS = frozenset({"ArgMax", "ArgMin", "TopK"})
"""The operators whose integer results are indices, which fit into 32 bits."""

_OPSET = 13
_IR_VERSION = 10


def widening() -> ModelProto:
    """Return the message for nnhal.onnx that casts int32 to int64."""
    graph = helper.make_graph(
        [helper.make_node("Cast", ["narrow"], ["wide"], to=TensorProto.INT64)],
        "widening",
        [helper.make_tensor_value_info("narrow", TensorProto.INT32, None)],
        [helper.make_tensor_value_info("wide", TensorProto.INT64, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
