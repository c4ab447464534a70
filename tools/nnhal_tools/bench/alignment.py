"""The bytes that the common alignment of values between steps takes, on a small network cut over GPU, NPU and CPU."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from nnhal_client.framework import connect
from nnhal_tools.up import DeviceEntry, Testbed, Topology

_DEVICES = {"G": "gpu_acc", "N": "ethos_n", "C": "cpu_acc"}
_CHAIN = "GNGNC"
_BRANCHES = ((1, 3, 5, 7), (1, 5, 7, 11), (1, 9, 9, 13))
"""Dimensions of the values of each branch; no size is a multiple of an alignment."""
_SCALE, _ZERO_POINT = "scale", "zero_point"


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """Memory for the values between the steps of a chain, with the alignment that devices require and without."""

    steps: tuple[str, ...]
    values: int
    aligned_bytes: int
    unaligned_bytes: int


def measure_alignment() -> AlignmentReport:
    """Load and explain the chain. Raises StartError or HalError."""
    topology = Topology(device=tuple(DeviceEntry(driver=driver) for driver in _DEVICES.values()))
    pins = {f"name:{letter}*": driver for letter, driver in _DEVICES.items()}
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        path = Path(directory) / "chain.onnx"
        onnx.save(_network(), path)
        with Testbed(topology, Path(directory)) as testbed, connect(testbed.framework) as framework:
            model = framework.load(path, pins=pins, fallback="deny")
            explanation = model.explain()
    between = {edge.value for edge in explanation.edges if edge.source_step >= 0 and edge.destination_step >= 0}
    return AlignmentReport(model.steps, len(between), explanation.fallback_bytes, explanation.fallback_bytes_unaligned)


def _network() -> onnx.ModelProto:
    """The chain, once for each branch. Nodes are named after their devices."""
    nodes: list[NodeProto] = []
    for branch in range(len(_BRANCHES)):
        value, last = f"x{branch}", ""
        for place, letter in enumerate(_CHAIN):
            # The GPU and the CPU have floats: an edge to the NPU quantises, and one from it dequantises.
            operators = ["Relu"] if letter == "N" else ["Tanh", "Tanh"]
            if letter == "N":
                operators.insert(0, "QuantizeLinear")
            elif last == "N":
                operators.insert(0, "DequantizeLinear")
            for number, operator in enumerate(operators):
                owner = last if operator == "QuantizeLinear" else letter
                name = f"{owner}{branch}{place}{number}"
                nodes.append(_node(operator, value, name))
                value = name
                if operator == "QuantizeLinear":
                    nodes.append(_node("DequantizeLinear", value, f"{letter}{branch}{place}real"))
                    value = f"{letter}{branch}{place}real"
            if letter == "N":
                nodes.append(_node("QuantizeLinear", value, f"{letter}{branch}{place}integer"))
                value = f"{letter}{branch}{place}integer"
            last = letter
        nodes[-1].output[0] = f"y{branch}"
    constants = [
        numpy_helper.from_array(np.array(1 / 64, np.float32), _SCALE),
        numpy_helper.from_array(np.array(0, np.int8), _ZERO_POINT),
    ]
    graph = helper.make_graph(nodes, "chain", _ends("x"), _ends("y"), constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=onnx.IR_VERSION_2023_5_5)


def _ends(letter: str) -> Sequence[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info(f"{letter}{number}", TensorProto.FLOAT, dimensions)
        for number, dimensions in enumerate(_BRANCHES)
    ]


def _node(operator: str, value: str, name: str) -> NodeProto:
    extra = [_SCALE, _ZERO_POINT] if operator.endswith("Linear") else []
    return helper.make_node(operator, [value, *extra], [name], name=name)
