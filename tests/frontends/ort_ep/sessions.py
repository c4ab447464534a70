"""Sessions of ONNX Runtime with the provider, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal_ort import get_ep_name
from nnhal_tools.runtimes import EXACT_SUMS

DEMO = Path(__file__).parents[3] / "tools/nnhal_tools/demo/data"
DIGITS, DIGITS_INT8 = DEMO / "digits.onnx", DEMO / "digits_int8.onnx"
CPU = "CPUExecutionProvider"
VERSION = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
GIVES_OUTER_VALUES = VERSION >= (1, 27)
"""Whether ONNX Runtime gives a group those of its inputs that only graphs inside of its nodes read."""
needs_memory_info = pytest.mark.skipif(VERSION < (1, 28), reason="ONNX Runtime has memory_info= from 1.28 on")
Value = tuple[str, int, Sequence[int | str]]


def image(seed: int = 0) -> Array:
    return np.random.default_rng(seed).random((1, 1, 8, 8), np.float32)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    constants: Mapping[str, Array] = MappingProxyType({}),
    opset: int = 17,
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def session(model: Path | bytes, strict: bool = True, **options: str) -> onnxruntime.InferenceSession:
    """A session over all devices. If it is ``strict``, ONNX Runtime refuses to run a node itself."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4  # what fails is asserted
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1" if strict else "0")
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return onnxruntime.InferenceSession(model, settings, providers=[(get_ep_name(), options)])


def provider_memory() -> Any:
    """Return where tensors lie that devices use in place."""
    device = next(device for device in onnxruntime.get_ep_devices() if device.ep_name == get_ep_name())
    return device.memory_info(onnxruntime.OrtDeviceMemoryType.HOST_ACCESSIBLE)


def answers(made: onnxruntime.InferenceSession, given: Mapping[str, Any]) -> list[Array]:
    return [np.asarray(answer) for answer in made.run(None, given)]


def assigned(made: onnxruntime.InferenceSession) -> list[list[str]]:
    """The types of the nodes of each group that the provider has."""
    return [
        [node.op_type for node in group.get_nodes()]
        for group in made.get_provider_graph_assignment_info()
        if group.ep_name == get_ep_name()
    ]


def reference(model: Path | bytes) -> onnxruntime.InferenceSession:
    """ONNX Runtime's own session. Some of its kernels answer otherwise if several threads share their work."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry(*EXACT_SUMS)
    return onnxruntime.InferenceSession(model, options, providers=[CPU])


def assert_same(made: onnxruntime.InferenceSession, model: Path | bytes, *inputs: Mapping[str, Any]) -> None:
    """Compare what it answers with ONNX Runtime's own CPU provider: types, dimensions, and all bits."""
    plain = reference(model)
    for given in inputs:
        for got, expected in zip(answers(made, given), answers(plain, given), strict=True):
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
            np.testing.assert_array_equal(got, expected)
