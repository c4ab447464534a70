"""A loaded model, as the framework describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nnhal.remote.calls import Calls
from nnhal.tensors import ClientMemory, Tensor
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.explanation import Explanation, explanation_from_wire
from nnhal_client.memory import MemoryRole
from nnhal_client.tensors import tensor_from_wire


@dataclass(frozen=True, slots=True)
class OperationPlacement:
    """Place of an operation: its nodes in the model file, its type, its device, and the step of the plan."""

    nodes: tuple[str, ...]
    operation: str
    device: str
    step: int


class NativeModel:
    """Parts that ``Model`` and ``AsyncModel`` share: a description, and what the framework is asked."""

    version: str
    """The version that is open; empty for a model that the session has loaded itself."""
    session_name: str
    """The framework's name of it in this session, which ``MemoryRole`` uses."""
    name: str
    """Its name in the server's repository, else ``session_name``."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    optional_inputs: tuple[Tensor, ...]
    """Inputs that have defaults in the file. ``run`` may be given them, and ``bind`` is if ``dimensions`` name them."""
    states: tuple[Tensor, ...]
    """What each binding carries from run to run, on the devices: neither inputs nor outputs."""
    signatures: tuple[str, ...]
    """The entry points that its file names; the model is one of them."""
    steps: tuple[str, ...]
    """The device of each step."""
    arena_bytes: int
    """What each binding takes for values between steps."""
    memory: ClientMemory
    """Where inputs and outputs lie so that devices copy the least of them."""
    _placed: wire.ModelInfo
    """What the framework has said, which may lack the placements."""

    def __init__(
        self,
        calls: Calls,
        stub: framework_pb2_grpc.FrameworkServiceStub,
        answer: wire.ModelInfo | wire.OpenModelResponse,
        opened: wire.OpenModelRequest | None,
    ) -> None:
        """``opened`` is the request that opened it; None for a model that the session has loaded itself."""
        self.placements_of: Callable[[], wire.ModelInfo] | None = None
        """Asks about the operations of a model that is unloaded; None if only one that is loaded can be asked about."""
        self._is_unloaded = False
        self._calls = calls
        self._stub = stub
        self._answer = answer
        self._opened = opened
        self._reopened = 0
        self._describe(answer)

    @property
    def placements(self) -> tuple[OperationPlacement, ...]:
        """Place of each operation. The framework may be asked now, which makes the operations of a file then that one
        device has taken as a whole; a model that is unloaded is loaded for it once more.

        Raises HalError, also if that file has changed.
        """
        if self._placed.placements_deferred:
            if self._is_unloaded and self.placements_of is not None:
                self._placed = self.placements_of()
            else:
                answer = self._calls.call(self._stub.GetModel, wire.GetModelRequest(name=self.session_name))
                self._placed = answer.model
        return tuple(OperationPlacement(tuple(p.nodes), p.operation, p.device, p.step) for p in self._placed.placements)

    @property
    def can_reopen(self) -> bool:
        """Return whether it is one of the server's repository."""
        return self._opened is not None

    def input_role(self, name: str, probability: float = 1.0) -> MemoryRole:
        """The role of memory as this input. Raises ValueError if the model has no input of that name."""
        return MemoryRole(self.session_name, False, _index(self.inputs, name, "input"), probability)

    def output_role(self, name: str, probability: float = 1.0) -> MemoryRole:
        """The role of memory as this output. Raises ValueError if the model has no output of that name."""
        return MemoryRole(self.session_name, True, _index(self.outputs, name, "output"), probability)

    def _require_no_state(self) -> None:
        """Raise ValueError if a run outside of a binding would lose what the model carries from run to run."""
        if self.states:
            names = ", ".join(repr(tensor.name) for tensor in self.states)
            raise ValueError(
                f"model {self.name!r} carries {names} from run to run, which a run of its own would lose: "
                "bind it, and run the binding"
            )

    def _describe(self, answer: wire.ModelInfo | wire.OpenModelResponse) -> None:
        info = answer.model if isinstance(answer, wire.OpenModelResponse) else answer
        self._answer = answer
        self.version = answer.version if isinstance(answer, wire.OpenModelResponse) else ""
        self.session_name = info.name
        self.name = info.name if self._opened is None else self._opened.model
        self.inputs = tuple(tensor_from_wire(tensor) for tensor in info.inputs)
        self.outputs = tuple(tensor_from_wire(tensor) for tensor in info.outputs)
        self.optional_inputs = tuple(tensor_from_wire(tensor) for tensor in info.optional_inputs)
        self.states = tuple(tensor_from_wire(tensor) for tensor in info.states)
        self.signatures = tuple(info.signatures)
        self._placed = info
        self.steps = tuple(info.steps)
        self.arena_bytes = info.arena_bytes
        self.memory = ClientMemory(info.memory_kind, info.alignment) if info.alignment else ClientMemory()

    def _optional_among(self, names: Iterable[str]) -> frozenset[str]:
        """The optional inputs among these names."""
        return frozenset(tensor.name for tensor in self.optional_inputs) & frozenset(names)

    def _described_with(self, given: Iterable[str]) -> wire.ModelInfo:
        """The model with optional inputs as inputs, which the framework prepares if it has not yet."""
        request = wire.GetModelRequest(name=self.session_name, given_inputs=sorted(given))
        return self._calls.call(self._stub.GetModel, request).model

    def _explain(self) -> Explanation:
        answer = self._calls.call(self._stub.ExplainModel, wire.ExplainModelRequest(name=self.session_name))
        return explanation_from_wire(answer.explanation)

    def _release(self, session_name: str) -> None:
        self._calls.release(self._stub.UnloadModel, wire.UnloadModelRequest(name=session_name))

    def _opened_again(self) -> wire.OpenModelResponse:
        """Open it again, by a new name in the session. Raises HalError."""
        if self._opened is None:
            raise ValueError(f"model {self.name!r} is none of the server's repository")
        self._reopened += 1
        request = wire.OpenModelRequest()
        request.CopyFrom(self._opened)
        request.name += f".{self._reopened}"
        return self._calls.call(self._stub.OpenModel, request)


def _index(tensors: Sequence[Tensor], name: str, what: str) -> int:
    names = [tensor.name for tensor in tensors]
    if name not in names:
        raise ValueError(f"no {what} {name!r}; there are {names}")
    return names.index(name)
