"""Whether ONNX Runtime's sums of products of bytes are exact on this processor."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

_TERMS = 64


@cache
def sums_saturate() -> bool:
    """Return whether sums of unsigned times signed bytes are wrong.

    x86 processors without VNNI add pairs of such products in 16 bits, which saturate. It depends on the kernel that
    ONNX Runtime chooses, so the largest possible sum is computed with it.
    """
    node = helper.make_node("MatMulInteger", ["a", "b"], ["c"])
    graph = helper.make_graph(
        [node],
        "probe",
        [
            helper.make_tensor_value_info("a", TensorProto.UINT8, [1, _TERMS]),
            helper.make_tensor_value_info("b", TensorProto.INT8, [_TERMS, _TERMS]),
        ],
        [helper.make_tensor_value_info("c", TensorProto.INT32, [1, _TERMS])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    values = {"a": np.full((1, _TERMS), 255, np.uint8), "b": np.full((_TERMS, _TERMS), 127, np.int8)}
    (sums,) = session.run(None, values)
    return bool((np.asarray(sums) != 255 * 127 * _TERMS).any())
