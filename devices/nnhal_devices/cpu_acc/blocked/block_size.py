"""Number of channels that ONNX Runtime stores in a block on this processor."""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

_SIZES = (4, 8, 16, 32)
_DOMAIN = "com.microsoft.nchwc"


@cache
def block_channels() -> int | None:
    """The channels of a block, or None if ONNX Runtime has no blocked layout here.

    It depends on the vector units for which ONNX Runtime has kernels, so it is asked: it blocks a depthwise convolution
    if the channels fill whole blocks. The smallest one that is blocked has a single block.
    """
    nodes, weights = [], []
    for size in _SIZES:
        nodes.append(helper.make_node("Conv", [f"in{size}", f"weights{size}"], [f"out{size}"], group=size))
        weights.append(numpy_helper.from_array(np.ones((size, 1, 3, 3), np.float32), f"weights{size}"))
    graph = helper.make_graph(
        nodes,
        "probe",
        [helper.make_tensor_value_info(f"in{size}", TensorProto.FLOAT, [1, size, 8, 8]) for size in _SIZES],
        [helper.make_tensor_value_info(f"out{size}", TensorProto.FLOAT, [1, size, 6, 6]) for size in _SIZES],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # a warning says that the optimised graph is only good for this processor
    descriptor = os.memfd_create("optimized")  # a process need not have a folder to which it may write
    try:
        options.optimized_model_filepath = f"/proc/self/fd/{descriptor}"
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        optimized = onnx.ModelProto.FromString(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    finally:
        os.close(descriptor)
    sizes = {weights.name: weights.dims[0] for weights in optimized.graph.initializer if weights.dims}
    blocked = [
        sizes[node.input[1]] for node in optimized.graph.node if node.domain == _DOMAIN and node.op_type == "Conv"
    ]
    return min(blocked, default=None)
