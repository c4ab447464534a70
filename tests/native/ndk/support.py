"""A framework over given devices for the library in this process, ways to compute, and a device that floors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.codec import memory_from_wire
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.fence import Fence, FenceError, create_fence, wait_for_all
from nnhal.link import channel_pair
from nnhal.memory import open_pool
from nnhal.operations.operand_types import F32
from nnhal.types import ErrorStatus, ExecutionConfig, Model, Operand, OperandType, OperationType, Timing
from nnhal.v1 import burst_pb2, execution_pb2, fenced_execution_callback_pb2, prepared_model_pb2, request_pb2, types_pb2
from nnhal_hosting.polling import Work
from nnhal_hosting.supervision import Child
from nnhal_native.ndk import Burst, Compilation, Device, Execution, NeuralNetworksError, ResultCode, devices
from tests.support.models import Recipe
from tests.support.processes import WARM
from tests.support.scripted import Call, Script


@contextmanager
def framework_over(directory: Path, endpoints: Mapping[str, Endpoint]) -> Iterator[None]:
    """Start a framework over devices that serve already, which is the one of the library from now on."""
    given = [word for name, e in endpoints.items() for word in ("--device", f"{name}={e.directory}")]
    child = Child("nnhal_service", ["--endpoint", str(directory / "framework"), *given], zygote=WARM)
    try:
        child.wait_until_ready()
        with framework_at(directory / "framework"):
            yield
    finally:
        child.stop()


@contextmanager
def framework_at(directory: Path) -> Iterator[None]:
    """Have the library open its next session with the framework in a directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNHAL_FRAMEWORK", str(directory))
        yield


def named(*names: str) -> list[Device]:
    """Return devices by name."""
    known = {device.name: device for device in devices()}
    return [known[name] for name in names]


def refused(code: ResultCode, call: Callable[[], object], words: str = "") -> NeuralNetworksError:
    """Check that a call fails with a code, and return its error."""
    with pytest.raises(NeuralNetworksError, match=words or None) as caught:
        call()
    assert caught.value.code == code, str(caught.value)
    return caught.value


Way = Callable[[Execution, Compilation], None]


def _asynchronous(execution: Execution, compilation: Compilation) -> None:
    with execution.start_compute() as event:
        event.wait()


def _synchronous(execution: Execution, compilation: Compilation) -> None:
    execution.compute()


def _burst(execution: Execution, compilation: Compilation) -> None:
    execution.burst_compute(Burst(compilation))


def _fenced(execution: Execution, compilation: Compilation) -> None:
    with execution.start_compute_with_dependencies() as event:
        event.wait()


WAYS: Mapping[str, Way] = {
    "asynchronous": _asynchronous,
    "synchronous": _synchronous,
    "burst": _burst,
    "fenced": _fenced,
}
"""The four ways to compute; each waits for the end."""


def model_of_unknown_size() -> Model:
    """Return FILL, whose input's value is the number of its output's elements."""
    recipe = Recipe()
    size, value = recipe.input(OperandType.TENSOR_INT32, (1,)), recipe.constant(OperandType.FLOAT32, 2)
    return recipe.build(recipe.operation(OperationType.FILL, [size, value], Operand(F32, (0,)))).model


class Floors:
    """The script of a device that floors one element, or fails on demand.

    Executions wait for ``gate``, which is open at first, and end with ``status``. After ``accepts`` launches, further
    ones are refused with ``refuses``. ``timings`` are those of an unfenced execution, of a fenced one since its launch,
    and of a fenced one since its fences.
    """

    def __init__(
        self,
        status: ErrorStatus = ErrorStatus.NONE,
        refuses: ErrorStatus = ErrorStatus.NONE,
        timings: tuple[Timing, Timing, Timing] = (Timing(), Timing(), Timing()),
    ) -> None:
        self.status = status
        self.refuses = refuses
        self.timings = timings
        self.gate = threading.Event()
        self.gate.set()
        self.accepts = 0
        self.configs: list[ExecutionConfig] = []
        self.deadlines: list[int] = []
        self._ended: dict[int, ErrorStatus] = {}
        self._arguments: dict[int, tuple[Array, Array]] = {}

    @property
    def script(self) -> Script:
        """The script of the device."""
        return {
            "PreparedModel.CreateReusableExecution": self._create,
            "Execution.OpenLaunchChannel": self._open,
        }

    def on_burst(self, call: burst_pb2.BurstCall) -> burst_pb2.BurstAnswer:
        """Answer a call on a burst."""
        self.gate.wait()
        self.deadlines.append(call.run.deadline_ns)
        timing = _timing_to_wire(self.timings[0])
        if self.status == ErrorStatus.OUTPUT_INSUFFICIENT_SIZE:
            shape = request_pb2.OutputShape(dimensions=[1], is_sufficient=False)
            result = request_pb2.ExecutionResult(output_sufficient_size=False, output_shapes=[shape], timing=timing)
            return burst_pb2.BurstAnswer(result=result)
        if self.status:
            return burst_pb2.BurstAnswer(status=types_pb2.ErrorStatus.ValueType(self.status), message="on demand")
        self._compute(call.run.execution)
        return burst_pb2.BurstAnswer(result=request_pb2.ExecutionResult(output_sufficient_size=True, timing=timing))

    def _create(self, request: Any, call: Call) -> prepared_model_pb2.CreateReusableExecutionResponse:
        handle = next(call.device.handles)
        (given,), (result,) = request.request.inputs, request.request.outputs
        pools = [
            open_pool(
                memory_from_wire(pool.pool, call.owner.descriptors.get), writable=index == result.location.pool_index
            )
            for index, pool in enumerate(request.request.pools)
        ]
        source, destination = (
            pools[place.location.pool_index].view(place.location.offset, 4).view(np.float32)
            for place in (given, result)
        )
        self._arguments[handle] = source, destination
        self.configs.append(ExecutionConfig(request.config.measure_timing, request.config.loop_timeout_duration_ns))
        return prepared_model_pb2.CreateReusableExecutionResponse(execution=handle)

    def _open(self, request: Any, call: Call) -> execution_pb2.OpenLaunchChannelResponse:
        ours, theirs = channel_pair()
        call.owner.serve_launches(ours, "launch", self._launch, str.encode)
        return execution_pb2.OpenLaunchChannelResponse(channel_descriptor_id=call.offer(theirs))

    def _launch(self, message: bytes, descriptors: list[Descriptor]) -> tuple[bytes, list[Descriptor], Work | None]:
        call = execution_pb2.LaunchCall.FromString(message)
        if call.WhichOneof("call") == "info":
            return execution_pb2.LaunchAnswer(info=self._info(call.info.execution)).SerializeToString(), [], None
        self.accepts -= 1
        if self.refuses and self.accepts < 0:
            status = types_pb2.ErrorStatus.ValueType(self.refuses)
            refusal = execution_pb2.LaunchRefused(status=status, message="on demand")
            return execution_pb2.LaunchAnswer(refused=refusal).SerializeToString(), [], None
        self.deadlines.append(call.launch.deadline_ns)
        signal, fence = create_fence()
        awaited = [Fence(descriptor) for descriptor in descriptors]

        def run() -> None:
            self.gate.wait()
            ended = self.status
            try:
                wait_for_all(awaited)
            except FenceError:
                ended = ErrorStatus.GENERAL_FAILURE
            self._ended[call.launch.execution] = ended
            if ended:
                signal.fail()
            else:
                self._compute(call.launch.execution)
                signal.send()

        threading.Thread(target=run, daemon=True).start()
        answer = execution_pb2.LaunchAnswer(launch=execution_pb2.LaunchDone())
        return answer.SerializeToString(), [fence.descriptor], None

    def _info(self, execution: int) -> fenced_execution_callback_pb2.GetExecutionInfoResponse:
        _, launched, fenced = self.timings
        status = self._ended[execution]
        return fenced_execution_callback_pb2.GetExecutionInfoResponse(
            error_status=types_pb2.ErrorStatus.ValueType(status),
            timing_launched=_timing_to_wire(launched),
            timing_fenced=_timing_to_wire(fenced),
            message="on demand" if status else "",
        )

    def _compute(self, execution: int) -> None:
        source, destination = self._arguments[execution]
        destination[:] = np.floor(source)


def _timing_to_wire(timing: Timing) -> request_pb2.Timing:
    return request_pb2.Timing(time_on_device_ns=timing.time_on_device_ns, time_in_driver_ns=timing.time_in_driver_ns)
