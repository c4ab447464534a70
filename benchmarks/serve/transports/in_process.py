"""ONNX Runtime in the load generator itself, with one thread and the tensors in place: the floor.

That of a run elsewhere first sends a datagram to another process, and gets it back.
"""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import onnxruntime

from benchmarks.generators import BenchError
from benchmarks.serve.inputs import ServedSignature, TensorSpec, input_data
from benchmarks.serve.target import Target
from benchmarks.serve.transports import Requests
from nnhal.inference.datatypes import DATATYPES
from nnhal_tools.bench.ping_pong import ping_pong

_TYPES = {"tensor(float)": "FP32", "tensor(float16)": "FP16", "tensor(double)": "FP64", "tensor(bool)": "BOOL"}
_TYPES |= {f"tensor({name.lower()})": name for name in DATATYPES if "INT" in name}


class InProcessRequests(Requests):
    """Runs a session with its inputs and outputs bound to arrays of this process."""

    def __init__(self, target: Target) -> None:
        """Raises BenchError if the model is no file, or has tensors that are not numeric or of unknown shape."""
        super().__init__(target)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(target.model, options, providers=["CPUExecutionProvider"])
        except (RuntimeError, ValueError) as error:
            raise BenchError(f"{target.model}: expected the file of an ONNX model: {error}") from error
        signature = ServedSignature(
            tuple(map(_spec, self._session.get_inputs())), tuple(map(_spec, self._session.get_outputs()))
        ).of_batch(target.batch, target.shapes)
        self._arrays = input_data(signature, target.data)
        self._binding = self._session.io_binding()
        for name, array in self._arrays.items():
            self._binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        for tensor in signature.outputs:
            if min(tensor.shape, default=0) < 0:
                self._binding.bind_output(tensor.name, "cpu")
                continue
            output = np.empty(tensor.shape, DATATYPES[tensor.datatype].dtype)
            self._arrays[f"output {tensor.name}"] = output
            self._binding.bind_output(tensor.name, "cpu", 0, output.dtype, output.shape, output.ctypes.data)

    def infer(self) -> None:
        self._session.run_with_iobinding(self._binding)

    def close(self) -> None:
        self._arrays.clear()


def _spec(node: onnxruntime.NodeArg) -> TensorSpec:
    kind = _TYPES.get(node.type)
    if kind is None:
        raise BenchError(f"tensor {node.name!r} is {node.type}, expected one of {', '.join(_TYPES)}")
    return TensorSpec(node.name, kind, tuple(axis if isinstance(axis, int) else -1 for axis in node.shape))


class PingPongRequests(Requests):
    """Wakes a process that answers at once, and then runs the model in this one."""

    def __init__(self, target: Target) -> None:
        """Raises BenchError if the model is no file, or has tensors that are not numeric or of unknown shape."""
        super().__init__(target)
        self._run = InProcessRequests(target)
        self._echo = ExitStack()
        self._ping = self._echo.enter_context(ping_pong())

    def infer(self) -> None:
        self._ping()
        self._run.infer()

    def close(self) -> None:
        self._echo.close()
        self._run.close()
