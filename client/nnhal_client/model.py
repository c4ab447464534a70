"""A model that a framework has loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nnhal.errors import HalError
from nnhal.extensions.values import Value
from nnhal.remote.calls import Calls
from nnhal.tensors import Tensor, stored_inputs
from nnhal.types import ErrorStatus
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.binding import Binding, OutputTooSmallError
from nnhal_client.explanation import Explanation, explanation_from_wire
from nnhal_client.memory import DomainMemory, MemoryRole
from nnhal_client.reports import RunReport
from nnhal_client.tensors import tensor_from_wire


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an operation runs: the user's nodes that it stands for, its type, the device, the step of the plan."""

    nodes: tuple[str, ...]
    operation: str
    device: str
    step: int


class Model:
    """A loaded model, or one of the server's repository; that has a ``version``.

    ``session_name`` is by what the framework knows it in this session, and ``MemoryRole`` speaks of it.
    """

    transport: Literal["native"] = "native"
    """How tensors travel: not at all, they lie in memory that client and devices share."""

    def __init__(
        self,
        calls: Calls,
        stub: framework_pb2_grpc.FrameworkServiceStub,
        answer: wire.ModelInfo | wire.OpenModelResponse,
        opened: wire.OpenModelRequest | None = None,
    ) -> None:
        """``opened`` is how to open it again."""
        self._calls = calls
        self._stub = stub
        self._opened = opened
        self._reopened = 0
        self._binding: Binding | None = None
        self._known: dict[str, Dimensions] = {}
        self._describe(answer)

    def _describe(self, answer: wire.ModelInfo | wire.OpenModelResponse) -> None:
        info = answer.model if isinstance(answer, wire.OpenModelResponse) else answer
        self.version = answer.version if isinstance(answer, wire.OpenModelResponse) else ""
        self.session_name = info.name
        self.name = info.name if self._opened is None else self._opened.model
        self.inputs = tuple(tensor_from_wire(tensor) for tensor in info.inputs)
        self.outputs = tuple(tensor_from_wire(tensor) for tensor in info.outputs)
        self.placements = tuple(Placement(tuple(p.nodes), p.operation, p.device, p.step) for p in info.placements)
        self.steps = tuple(info.steps)
        self.arena_bytes = info.arena_bytes

    def explain(self) -> Explanation:
        """Why it lies on its devices as it does, and what each edge costs."""
        answer = self._calls.call(self._stub.ExplainModel, wire.ExplainModelRequest(name=self.session_name))
        return explanation_from_wire(answer.explanation)

    def bind(
        self,
        measure_timing: bool = False,
        dimensions: Mapping[str, Dimensions] | None = None,
        memories: Mapping[str, DomainMemory] | None = None,
        direct: bool = True,
    ) -> Binding:
        """Shared memory for all inputs and outputs, ready to run.

        ``dimensions`` of inputs that the model leaves open, and of outputs as far as one knows: their memory has room
        for as much. ``memories``, by input or output, take the place of shared memory: the binding has no views of
        them. With ``direct`` runs go straight to the device, where plan and framework allow it and nothing is measured.
        Raises ValueError where an input's dimensions are missing, HalError where a device refuses.
        """
        return Binding(self._calls, self._stub, self, measure_timing, dimensions or {}, memories or {}, direct)

    def input_role(self, name: str, probability: float = 1.0) -> MemoryRole:
        """Memory's use as an input. Raises ValueError where there is none of that name."""
        return MemoryRole(self.session_name, False, _index(self.inputs, name, "input"), probability)

    def output_role(self, name: str, probability: float = 1.0) -> MemoryRole:
        """Memory's use as an output. Raises ValueError where there is none of that name."""
        return MemoryRole(self.session_name, True, _index(self.outputs, name, "output"), probability)

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """One inference: copies the inputs into shared memory, runs, and returns copies of the outputs.

        Raises ValueError where the inputs are not what the model takes, HalError where a device refuses.
        """
        return self.run_with_report(inputs, measure_timing=False)[0]

    def run_with_report(
        self, inputs: Mapping[str, Value], measure_timing: bool = True
    ) -> tuple[dict[str, Value], RunReport]:
        """As run, with what it took. Outputs that turn out larger than their memory get more, and another run."""
        try:
            return self._run(inputs, measure_timing)
        except HalError as error:
            if not self.can_reopen or error.status != ErrorStatus.DEVICE_UNAVAILABLE:
                raise
            self.reopen()
        return self._run(inputs, measure_timing)

    @property
    def can_reopen(self) -> bool:
        """Whether it is one of the server's repository."""
        return self._opened is not None

    def reopen(self) -> None:
        """Open it again after the server has unloaded it. Raises HalError where it has not loaded it anew."""
        if self._opened is None:
            raise ValueError(f"model {self.name!r} is none of the server's repository")
        self._reopened += 1
        request = wire.OpenModelRequest()
        request.CopyFrom(self._opened)
        request.name += f".{self._reopened}"
        answer = self._calls.call(self._stub.OpenModel, request)
        self.unload()
        self._known.clear()
        self._describe(answer)

    def _run(self, inputs: Mapping[str, Value], measure_timing: bool) -> tuple[dict[str, Value], RunReport]:
        arrays = stored_inputs(self.inputs, inputs)
        given = {tensor.name: arrays[tensor.name].shape for tensor in self.inputs if tensor.is_open}
        while True:
            binding = self._binding_for(given, measure_timing)
            binding.fill(arrays)
            try:
                report = binding.run()
            except OutputTooSmallError as error:
                if error.dimensions.items() <= self._known.items():
                    raise  # it had as much memory as it asked for
                self._known.update(error.dimensions)
                self._forget()
            else:
                return {t.name: t.value(binding.outputs[t.name]) for t in self.outputs}, report

    def _binding_for(self, given: Mapping[str, Dimensions], measure_timing: bool) -> Binding:
        """The binding of the last run where it fits, else a new one."""
        binding = self._binding
        if binding is not None and (
            binding.measures != measure_timing or any(binding.dimensions[name] != d for name, d in given.items())
        ):
            self._forget()
        if self._binding is None:
            self._binding = self.bind(measure_timing, {**self._known, **given})
        return self._binding

    def _forget(self) -> None:
        if self._binding is not None:
            self._binding.close()
            self._binding = None

    def unload(self) -> None:
        """Release it in the framework and on the devices."""
        self._forget()
        self._calls.release(self._stub.UnloadModel, wire.UnloadModelRequest(name=self.session_name))


def _index(tensors: Sequence[Tensor], name: str, what: str) -> int:
    names = [tensor.name for tensor in tensors]
    if name not in names:
        raise ValueError(f"no {what} {name!r}; there are {names}")
    return names.index(name)
