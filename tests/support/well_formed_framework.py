"""Well-formed requests of the native calls of a framework, to be put to extremes."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nnhal.codec import model_to_wire
from nnhal.codec.memory import memory_to_wire
from nnhal.endpoint import Endpoint
from nnhal.link import Link
from nnhal.memory import create_ashmem
from nnhal.remote import open_rpc
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import types_pb2
from tests.support.additions import POOL_BYTES, TENSOR_BYTES, addition_model
from tests.support.well_formed import Failure, answer, methods_of

FRAMEWORK_METHODS = {method.name: method for method in methods_of(wire)}


class WellFormedFramework:
    """A session with a loaded model, a binding and memory, and requests that name them."""

    def __init__(self, endpoint: Endpoint, served: str) -> None:
        self._link = Link(endpoint.link, "test")
        self._rpc = open_rpc(endpoint)
        issue = self._link.issue
        load = wire.LoadModelRequest(
            model=model_to_wire(addition_model(), issue),
            preference=types_pb2.EXECUTION_PREFERENCE_FAST_SINGLE_ANSWER,
            priority=types_pb2.PRIORITY_MEDIUM,
        )
        model = self._call("LoadModel", _changed(load, name="m")).model
        names = [*(tensor.name for tensor in model.inputs), *(tensor.name for tensor in model.outputs)]
        bind = wire.BindRequest(model="m", pools=[memory_to_wire(create_ashmem(POOL_BYTES), issue)])
        for number, name in enumerate(names):
            binding = (bind.outputs if number == len(names) - 1 else bind.inputs).add(name=name)
            binding.location.offset, binding.location.length = number * TENSOR_BYTES, TENSOR_BYTES
        bound = self._call("Bind", bind).binding
        allocate = wire.AllocateMemoryRequest(roles=[wire.MemoryRole(model="m", probability=1.0)])
        memory = self._call("AllocateMemory", allocate).memory
        copy = wire.CopyMemoryRequest(source=wire.MemoryEnd(memory=memory), destination=wire.MemoryEnd(memory=memory))
        self._requests: dict[str, Message] = {
            "LoadModel": _changed(load, name="other"),
            "PlanModel": wire.PlanModelRequest(model=load),
            "OpenModel": wire.OpenModelRequest(model=served, version="1", name="opened"),
            "GetModel": wire.GetModelRequest(name="m"),
            "ExplainModel": wire.ExplainModelRequest(name="m"),
            "Bind": bind,
            "Run": wire.RunRequest(binding=bound),
            "LaunchRun": wire.LaunchRunRequest(binding=bound),
            "GetSupportedOperations": wire.FrameworkServiceGetSupportedOperationsRequest(
                model=load.model, devices=["cpu_ref"]
            ),
            "CheckModel": wire.CheckModelRequest(model=load.model),
            "AllocateMemory": allocate,
            "CopyMemory": copy,
        }

    def request_of(self, method: MethodDescriptor) -> Message:
        return self._requests.get(method.name) or GetMessageClass(method.input_type)()

    def answer(self, method: MethodDescriptor, request: Message) -> Failure | None:
        """Make a call and return how it failed; None if it did not."""
        return answer(self._rpc, method, request, self._link.metadata, self._link)

    def _call(self, name: str, request: Message) -> Any:
        method = FRAMEWORK_METHODS[name]
        path = f"/{method.containing_service.full_name}/{name}"
        answers = GetMessageClass(method.output_type).FromString
        call = self._rpc.unary_unary(path, type(request).SerializeToString, answers)
        return call(request, metadata=self._link.metadata)

    def close(self) -> None:
        self._link.close()
        self._rpc.close()

    def __enter__(self) -> WellFormedFramework:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _changed(request: wire.LoadModelRequest, name: str) -> wire.LoadModelRequest:
    changed = wire.LoadModelRequest(name=name)
    changed.MergeFrom(request)
    return changed
