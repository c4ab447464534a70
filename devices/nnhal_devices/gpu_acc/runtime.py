"""Runtime that the device really runs on: this machine's CPU, or a GPU if ONNX Runtime can use one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnxruntime
from onnx import TensorProto, helper

from nnhal_devices.cpu_acc.session import CPU, RUNTIME_ERRORS

CUDA = "CUDAExecutionProvider"
_GPUS = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True, slots=True)
class Runtime:
    """ONNX Runtime's execution providers, the preferred first, and a description."""

    providers: tuple[str, ...]
    realisation: str


def choose(available: Sequence[str], opens: Callable[[str], bool]) -> Runtime:
    """CUDA if it is available and opens, else the CPU: a provider may be built in without a GPU to run on."""
    if CUDA in available and opens(CUDA):
        return Runtime((CUDA, *CPU), f"CUDA: {gpu_name()}")
    return Runtime(CPU, "emulated on this machine's CPU")


def this_machine() -> Runtime:
    return choose(onnxruntime.get_available_providers(), opens)


def opens(provider: str) -> bool:
    """Return whether a session runs on a provider. If it cannot, ONNX Runtime uses the CPU without an error."""
    value = helper.make_tensor_value_info("value", TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("result", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["value"], ["result"])], "probe", [value], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=[provider])
    except RUNTIME_ERRORS:
        return False
    return provider in session.get_providers()


def gpu_name(gpus: Path = _GPUS) -> str:
    """The name of the first GPU, from NVIDIA's driver."""
    for file in sorted(gpus.glob("*/information")):
        for line in file.read_text().splitlines():
            if line.startswith("Model:"):
                return line.removeprefix("Model:").strip()
    return "device 0"
