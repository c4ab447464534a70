"""A model that does not end by itself: an ONNX Loop of 2^62 turns."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnhal.memory import create_ashmem
from nnhal.types import Model, Request
from nnhal_frontends.onnx import import_onnx
from tests.support.additions import argument

TURNS = 1 << 62
INPUT, OUTPUT = "start", "last"
_ROOM = 64
"""The bytes of each argument's place in memory."""


@cache
def endless_onnx() -> onnx.ModelProto:
    """Return a model that doubles ``start``, one float, in each turn."""
    number, condition = (
        helper.make_tensor_value_info(name, code, []) for name, code in (("i", TensorProto.INT64), ("c", 9))
    )
    value, doubled, first, last = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y", INPUT, OUTPUT)
    )
    goes_on = helper.make_tensor_value_info("goes_on", TensorProto.BOOL, [])
    nodes = [helper.make_node("Identity", ["c"], ["goes_on"]), helper.make_node("Add", ["x", "x"], ["y"])]
    body = helper.make_graph(nodes, "body", [number, condition, value], [goes_on, doubled])
    loop = helper.make_node("Loop", ["turns", "true", INPUT], [OUTPUT], body=body)
    constants = [numpy_helper.from_array(np.asarray(given), name) for name, given in (("turns", TURNS), ("true", True))]
    graph = helper.make_graph([loop], "endless", [first], [last], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@cache
def endless_model() -> Model:
    return import_onnx(endless_onnx()).model


def endless_request() -> Request:
    pool = create_ashmem(2 * _ROOM)
    return Request((argument(0, 4),), (argument(_ROOM, 4),), (pool,))
