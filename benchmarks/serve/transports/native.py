"""The native client: tensors lie in memory that client and devices share, and no tensor goes over the link."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter_ns

from benchmarks.generators import BenchError
from benchmarks.serve.inputs import ServedSignature, TensorSpec, input_data
from benchmarks.serve.target import Target
from benchmarks.serve.transports import Requests
from nnhal.arrays import Array
from nnhal.inference.datatypes import DATATYPES
from nnhal.tensors import Tensor
from nnhal_client.binding import Binding
from nnhal_client.framework import connect
from nnhal_client.model import Model

_NAMES = {kind.dtype: kind.name for kind in DATATYPES.values() if kind.item_size}


class NativeRequests(Requests):
    """Runs a binding. With ``shared_memory`` tensors are used in place, otherwise they are copied in and out."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._framework = connect(target.url)
        try:
            self._model = self._open()
            signature = ServedSignature(tuple(map(_spec, self._model.inputs)), tuple(map(_spec, self._model.outputs)))
            signature = signature.of_batch(target.batch, target.shapes)
            arrays = input_data(signature, target.data)
            self._inputs = {tensor.name: tensor.array(arrays[tensor.name]) for tensor in self._model.inputs}
            self._binding = self._bind()
        except BaseException:
            self._framework.close()
            raise

    def infer(self) -> None:
        if self.target.shared_memory:
            self._binding.run()
            return
        started = perf_counter_ns()
        self._binding.fill(self._inputs)
        sent = perf_counter_ns()
        self._binding.run()
        answered = perf_counter_ns()
        _copies(self._binding)
        self.send_ns += sent - started
        self.receive_ns += perf_counter_ns() - answered

    def close(self) -> None:
        self._binding.close()
        self._model.unload()
        self._framework.close()

    def _open(self) -> Model:
        if Path(self.target.model).is_file():
            return self._framework.load(self.target.model)
        return self._framework.open(self.target.model, self.target.version)

    def _bind(self) -> Binding:
        open_inputs = (tensor for tensor in self._model.inputs if tensor.is_open)
        binding = self._model.bind(dimensions={tensor.name: self._inputs[tensor.name].shape for tensor in open_inputs})
        binding.fill(self._inputs)
        return binding


def _copies(binding: Binding) -> dict[str, Array]:
    return {name: view.copy() for name, view in binding.outputs.items()}


def _spec(tensor: Tensor) -> TensorSpec:
    name = _NAMES.get(tensor.element_type) if tensor.element_type is not None else None
    if name is None:
        raise BenchError(f"tensor {tensor.name!r} is not numeric; measure it over gRPC or HTTP")
    return TensorSpec(tensor.name, name, (1,) if tensor.scalar else tuple(axis or -1 for axis in tensor.dimensions))
