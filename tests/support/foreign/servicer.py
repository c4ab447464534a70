"""The device's services over gRPC."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from nnhal.v1 import (
    backend_pb2,
    backend_pb2_grpc,
    burst_pb2,
    burst_pb2_grpc,
    chain_pb2,
    device_pb2,
    device_pb2_grpc,
    execution_pb2,
    execution_pb2_grpc,
    link_pb2,
    prepared_model_pb2,
    prepared_model_pb2_grpc,
    status_pb2,
    types_pb2,
)
from tests.support.foreign.arithmetic import Execution, Prepared, RunCounts, supported
from tests.support.foreign.channels import Runs, Stage, serve_launches, serve_runs
from tests.support.foreign.faults import Faults
from tests.support.foreign.link import LinkServer, Session, in_thread

_THREADS = 16


class _RefusedError(Exception):
    """INVALID_ARGUMENT, with its message."""


class _Servicer:
    def __init__(self, links: LinkServer, faults: Faults) -> None:
        self._links = links
        self.faults = faults
        self.runs = Runs(faults)

    def _session(self, context: grpc.ServicerContext) -> Session:
        token = dict(context.invocation_metadata()).get("nnhal-session", "")
        if token not in self._links.sessions:
            raise _RefusedError("the call has no session")
        return self._links.sessions[str(token)]

    def _found(self, context: grpc.ServicerContext, handle: int, kind: type[Any]) -> Any:
        found = self._session(context).objects.get(handle)
        if not isinstance(found, kind):
            raise _RefusedError(f"there is no {kind.__name__} {handle}")
        return found

    def _file(self, session: Session) -> int:
        return session.offer(os.memfd_create("foreign"))


class _Device(_Servicer, device_pb2_grpc.DeviceServiceServicer):
    def GetVersionString(self, request: Any, context: Any) -> Any:
        return device_pb2.GetVersionStringResponse(version="foreign-1.0")

    def GetType(self, request: Any, context: Any) -> Any:
        return device_pb2.GetTypeResponse(type=types_pb2.DEVICE_TYPE_ACCELERATOR)

    def GetCapabilities(self, request: Any, context: Any) -> Any:
        fast = types_pb2.PerformanceInfo(exec_time=0.01, power_usage=0.01)
        types = (types_pb2.OPERAND_TYPE_TENSOR_FLOAT32, types_pb2.OPERAND_TYPE_FLOAT32)
        return device_pb2.GetCapabilitiesResponse(
            capabilities=types_pb2.Capabilities(
                relaxed_float32_to_float16_performance_scalar=fast,
                relaxed_float32_to_float16_performance_tensor=fast,
                operand_performance=[types_pb2.OperandPerformance(type=each, info=fast) for each in sorted(types)],
                if_performance=fast,
                while_performance=fast,
            )
        )

    def GetSupportedExtensions(self, request: Any, context: Any) -> Any:
        return device_pb2.GetSupportedExtensionsResponse()

    def GetNumberOfCacheFilesNeeded(self, request: Any, context: Any) -> Any:
        return device_pb2.GetNumberOfCacheFilesNeededResponse(number_of_cache_files=types_pb2.NumberOfCacheFiles())

    def GetSupportedOperations(self, request: device_pb2.GetSupportedOperationsRequest, context: Any) -> Any:
        return device_pb2.GetSupportedOperationsResponse(supported=supported(request.model))

    def PrepareModelWithConfig(self, request: device_pb2.PrepareModelWithConfigRequest, context: Any) -> Iterator[Any]:
        session = self._session(context)
        if self.faults.strikes("hangs in PrepareModelWithConfig"):
            _wait_for_the_end(context)
        while self.faults.strikes("prepares for ever"):
            launched = device_pb2.Preparation(launched=device_pb2.Launched())
            yield device_pb2.PrepareModelWithConfigResponse(preparation=launched)
        handle = session.keep(Prepared(request.model, session))
        if self.faults.strikes("prepares the same"):
            handle = min(number for number, kept in session.objects.items() if isinstance(kept, Prepared))
        for event in (
            device_pb2.Preparation(launched=device_pb2.Launched()),
            device_pb2.Preparation(notified=device_pb2.Notified(prepared_model=handle)),
        ):
            yield device_pb2.PrepareModelWithConfigResponse(preparation=event)


class _Backend(_Servicer, backend_pb2_grpc.BackendServiceServicer):
    def Describe(self, request: Any, context: Any) -> Any:
        return backend_pb2.DescribeResponse(
            name="foreign",
            imports=[backend_pb2.MEMORY_KIND_ASHMEM, backend_pb2.MEMORY_KIND_MMAP_FD],
            alignment=1,
            workers=1,
            tensor_handle_factories=[],
            transfer_costs=backend_pb2.TransferCosts(),
            realisation="A test's device.",
            can_be_wired=True,
            optimizes_nothing=True,
            ignores_networks=True,
        )

    def AssessModel(self, request: backend_pb2.AssessModelRequest, context: Any) -> Any:
        answers = supported(request.model)
        return backend_pb2.AssessModelResponse(
            operations=[
                backend_pb2.OperationSupport(supported=each, code="" if each else "OPERATION", got="", allowed="")
                for each in answers
            ],
            operation_ns=[1.0 if each else 0.0 for each in answers],
        )

    def WireStep(self, request: chain_pb2.WireStepRequest, context: Any) -> Any:
        session = self._session(context)
        self._found(context, request.execution, Execution)
        return chain_pb2.WireStepResponse(stage=session.keep(Stage(session, request, self.runs)))

    def GetStageUsage(self, request: chain_pb2.GetStageUsageRequest, context: Any) -> Any:
        counts = self._found(context, request.stage, Stage).counts
        return chain_pb2.GetStageUsageResponse(
            runs=counts.runs, failed_runs=counts.failed_runs, duration_ns=counts.duration_ns
        )

    def UnwireStep(self, request: chain_pb2.UnwireStepRequest, context: Any) -> Any:
        self._found(context, request.stage, Stage).end()
        del self._session(context).objects[request.stage]
        return chain_pb2.UnwireStepResponse(runs=False)

    def GetUsage(self, request: Any, context: Any) -> Any:
        return backend_pb2.GetUsageResponse(sessions=len(self._links.sessions))


class _PreparedModels(_Servicer, prepared_model_pb2_grpc.PreparedModelServiceServicer):
    def ExecuteSynchronouslyWithConfig(
        self, request: prepared_model_pb2.PreparedModelServiceExecuteSynchronouslyWithConfigRequest, context: Any
    ) -> Any:
        prepared = self._found(context, request.prepared_model, Prepared)
        result = self.runs.result(Execution(prepared, request.request, self._session(context)))
        return prepared_model_pb2.PreparedModelServiceExecuteSynchronouslyWithConfigResponse(result=result)

    def CreateReusableExecution(self, request: prepared_model_pb2.CreateReusableExecutionRequest, context: Any) -> Any:
        session, prepared = self._session(context), self._found(context, request.prepared_model, Prepared)
        handle = session.keep(Execution(prepared, request.request, session))
        return prepared_model_pb2.CreateReusableExecutionResponse(execution=handle)

    def ConfigureExecutionBurst(self, request: prepared_model_pb2.ConfigureExecutionBurstRequest, context: Any) -> Any:
        session, prepared = self._session(context), self._found(context, request.prepared_model, Prepared)
        if self.faults.strikes("no socket"):
            number = self._file(session)
        else:
            channel, number = session.channel()
            in_thread(serve_runs, channel, session, self.runs, prepared, RunCounts())
        return prepared_model_pb2.ConfigureExecutionBurstResponse(
            burst=session.keep("burst"), channel_descriptor_id=number
        )

    def Release(self, request: prepared_model_pb2.PreparedModelServiceReleaseRequest, context: Any) -> Any:
        self._session(context).objects.pop(request.prepared_model, None)
        return prepared_model_pb2.PreparedModelServiceReleaseResponse()


class _Executions(_Servicer, execution_pb2_grpc.ExecutionServiceServicer):
    def ExecuteSynchronously(
        self, request: execution_pb2.ExecutionServiceExecuteSynchronouslyRequest, context: Any
    ) -> Any:
        execution = self._found(context, request.execution, Execution)
        if self.faults.strikes("never answers"):
            _wait_for_the_end(context)
        return execution_pb2.ExecutionServiceExecuteSynchronouslyResponse(result=self.runs.result(execution))

    def OpenLaunchChannel(self, request: Any, context: Any) -> Any:
        session = self._session(context)
        if self.faults.strikes("no socket"):
            return execution_pb2.OpenLaunchChannelResponse(channel_descriptor_id=self._file(session))
        channel, number = session.channel()
        in_thread(serve_launches, channel, session, self.runs)
        return execution_pb2.OpenLaunchChannelResponse(channel_descriptor_id=number)

    def OpenRunChannel(self, request: execution_pb2.OpenRunChannelRequest, context: Any) -> Any:
        session, execution = self._session(context), self._found(context, request.execution, Execution)
        if self.faults.strikes("no socket"):
            return execution_pb2.OpenRunChannelResponse(channel_descriptor_id=self._file(session))
        channel, number = session.channel()
        execution.run_channel = channel
        in_thread(serve_runs, channel, session, self.runs, None, execution.counts)
        return execution_pb2.OpenRunChannelResponse(channel_descriptor_id=number)

    def GetRunChannelUsage(self, request: execution_pb2.GetRunChannelUsageRequest, context: Any) -> Any:
        execution = self._found(context, request.execution, Execution)
        if request.close:
            execution.close_run_channel()
        counts = execution.counts
        return execution_pb2.GetRunChannelUsageResponse(
            runs=counts.runs, failed_runs=counts.failed_runs, duration_ns=counts.duration_ns
        )

    def Release(self, request: execution_pb2.ExecutionServiceReleaseRequest, context: Any) -> Any:
        released = self._session(context).objects.pop(request.execution, None)
        if isinstance(released, Execution):
            released.close_run_channel()
        return execution_pb2.ExecutionServiceReleaseResponse()


class _Bursts(_Servicer, burst_pb2_grpc.BurstServiceServicer):
    def Release(self, request: burst_pb2.BurstServiceReleaseRequest, context: Any) -> Any:
        self._session(context).objects.pop(request.burst, None)
        return burst_pb2.BurstServiceReleaseResponse()


class _Answers(grpc.ServerInterceptor):  # type: ignore[type-arg]
    """Changes answers and leaves out methods as the commands say, and turns refusals into errors of the contract."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def intercept_service(self, continuation: Any, details: grpc.HandlerCallDetails) -> Any:
        handler = continuation(details)
        method = details.method.rpartition("/")[2]
        if not self._faults.has(method):
            return None
        if handler is None or handler.unary_unary is None:
            return handler

        def answer(request: Any, context: grpc.ServicerContext) -> Message:
            if self._faults.strikes(f"hangs in {method}"):  # type: ignore[arg-type]
                _wait_for_the_end(context)
            try:
                answered: Message = handler.unary_unary(request, context)
                return self._faults.changed(method, answered)
            except _RefusedError as refusal:
                _refuse(context, str(refusal))

        return grpc.unary_unary_rpc_method_handler(answer, handler.request_deserializer, handler.response_serializer)


def _wait_for_the_end(context: grpc.ServicerContext) -> None:
    """Hang until the client cancels the call."""
    ended = Event()
    if context.add_callback(ended.set):
        ended.wait()


def _refuse(context: grpc.ServicerContext, message: str) -> NoReturn:
    detail = AnyMessage()
    detail.Pack(types_pb2.ErrorDetail(status=types_pb2.ERROR_STATUS_INVALID_ARGUMENT, message=message))
    code = grpc.StatusCode.INVALID_ARGUMENT
    status = status_pb2.Status(code=code.value[0], message=message, details=[detail])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, message)
    raise AssertionError


def serve(
    directory: Path, faults: Faults, capabilities: Sequence[link_pb2.LinkCapability.ValueType] = ()
) -> grpc.Server:
    """Serve the device in a directory. ``capabilities`` are those that its link names."""
    links = LinkServer(directory, faults, capabilities)
    server = grpc.server(ThreadPoolExecutor(_THREADS), interceptors=[_Answers(faults)])
    services: tuple[tuple[type[_Servicer], Callable[[Any, grpc.Server], None]], ...] = (
        (_Device, device_pb2_grpc.add_DeviceServiceServicer_to_server),
        (_Backend, backend_pb2_grpc.add_BackendServiceServicer_to_server),
        (_PreparedModels, prepared_model_pb2_grpc.add_PreparedModelServiceServicer_to_server),
        (_Executions, execution_pb2_grpc.add_ExecutionServiceServicer_to_server),
        (_Bursts, burst_pb2_grpc.add_BurstServiceServicer_to_server),
    )
    for service, add in services:
        add(service(links, faults), server)
    server.add_insecure_port(f"unix:{directory}/device.sock")
    server.start()
    return server
