"""Messages of the HAL's contract: models and requests that devices take, answers that clients take, and the wire."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Any, cast

from google.protobuf.message import DecodeError

from nnhal.codec import (
    config_from_wire,
    model_from_wire,
    model_to_wire,
    nanoseconds,
    request_from_wire,
    request_to_wire,
)
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, TransportError, invalid_argument
from nnhal.memory import CopyBudget, create_ashmem
from nnhal.remote.burst import checked_outcome
from nnhal.remote.calls import Calls
from nnhal.remote.run_channel import RemoteRunChannel
from nnhal.types import Model
from nnhal.v1 import burst_pb2, device_pb2, request_pb2, types_pb2, wire_pb2
from nnhal.validation import validate_request
from nnhal.validation.request import validate_hints
from nnhal_devices.driver import DriverOptions
from nnhal_devices.host.sessions.hosted_device import HostedDevice, Preparation
from nnhal_devices.host.sessions.models import ValidModel
from nnhal_devices.host.settings import DeviceSettings
from nnhal_devices.host.wire.constants import ConstantPacks, KeptConstants, MissingConstantsError, Uploads
from nnhal_devices.host.wire.limits import SessionBudget, WireLimits
from nnhal_devices.registry import create_driver
from tests.fuzz.mutators.messages import MessageMutator
from tests.fuzz.target import FuzzTarget
from tests.support.additions import POOL_BYTES, Addition, addition_model
from tests.support.device_trials import Nobody
from tests.support.sample_models import SAMPLES

_POOL_BYTES = 4096
_MOST_PREPARED_BYTES = 1 << 16
_LIMITS = WireLimits(
    sessions=2, session_bytes=1 << 20, upload_bytes=1 << 16, constant_bytes=1 << 18, objects=9, message_bytes=1 << 20
)
_CONSTANT = bytes(64)


_files = [create_ashmem(_POOL_BYTES).descriptor]
"""The files that the client has put: one for any use, and the pools of the seeds."""


def _descriptor(number: int) -> Descriptor:
    return _files[number - 1] if 0 < number <= len(_files) else invalid_argument(f"descriptor {number} is not known")


def _number(descriptor: Descriptor) -> int:
    _files.append(descriptor)
    return len(_files)


@cache
def _devices(*names: str) -> list[HostedDevice]:
    settings = DeviceSettings()
    return [HostedDevice(create_driver(name, DriverOptions()), settings) for name in names]


def _model(data: bytes) -> None:
    """Do with a model what PrepareModel and AssessModel do, on all kinds of devices."""
    asked = device_pb2.PrepareModelRequest.FromString(data)
    arguments = Preparation(asked.preference, asked.priority, nanoseconds(asked, "deadline_ns"))
    budget = CopyBudget(1 << 24, "of the fuzzer")
    model = ValidModel.of(model_from_wire(asked.model, _descriptor), budget)
    for device in _devices("cpu_ref", "cpu_acc", "ethos_n", "ethos_u", "gpu_acc", "mlip"):
        device.assess(model)
    if _largest(model.model) > _MOST_PREPARED_BYTES:
        return
    for device in _devices("cpu_ref", "cpu_acc"):
        if all(device.supported_operations(model)):
            device.launch(model, arguments, Nobody())()


def _largest(model: Model) -> int:
    """The bytes of the largest operand, as far as its dimensions are known."""
    operands = [operand for graph in (model.main, *model.referenced) for operand in graph.operands]
    return max((prod(max(extent, 1) for extent in operand.dimensions) for operand in operands), default=0)


def _model_seeds() -> Iterator[bytes]:
    for make in SAMPLES.values():
        yield device_pb2.PrepareModelRequest(
            model=model_to_wire(make(), _number),
            preference=types_pb2.EXECUTION_PREFERENCE_FAST_SINGLE_ANSWER,
            priority=types_pb2.PRIORITY_MEDIUM,
            deadline_ns=-1,
        ).SerializeToString()


def _request(data: bytes) -> None:
    """Do with a request what a burst does, up to the run."""
    call = burst_pb2.BurstCall.FromString(data)
    kind = call.WhichOneof("call")
    if kind == "execute":
        nanoseconds(call.execute, "loop_timeout_duration_ns")
        message = call.execute.request
    elif kind == "execute_with_config":
        config = config_from_wire(call.execute_with_config.config)
        validate_hints(config.execution_hints, config.extension_name_to_prefix)
        message = call.execute_with_config.request
    else:
        invalid_argument(f"got {kind}, expected a request")
    validate_request(addition_model(), request_from_wire(message, _descriptor))


def _request_seeds() -> Iterator[bytes]:
    request = request_to_wire(Addition(create_ashmem(POOL_BYTES)).request, _number)
    execute = burst_pb2.BurstServiceExecuteSynchronouslyRequest(request=request, memory_identifier_tokens=[-1])
    yield burst_pb2.BurstCall(execute=execute).SerializeToString()
    config = request_pb2.ExecutionConfig(measure_timing=True, loop_timeout_duration_ns=-1)
    with_config = burst_pb2.BurstServiceExecuteSynchronouslyWithConfigRequest(request=request, config=config)
    yield burst_pb2.BurstCall(execute_with_config=with_config).SerializeToString()


def _answer(data: bytes) -> None:
    """Take an answer of a device as clients and the framework do."""
    RemoteRunChannel(cast(Any, None), 7, False, ["y", ""]).check(data)
    checked_outcome(burst_pb2.BurstAnswer.FromString(data), [(0, 4), (2, 2)], "the device")


def _answer_seeds() -> Iterator[bytes]:
    shapes = [request_pb2.OutputShape(dimensions=each, is_sufficient=True) for each in ([3, 4], [2, 2])]
    timing = request_pb2.Timing(time_on_device_ns=5, time_in_driver_ns=9)
    result = request_pb2.ExecutionResult(output_sufficient_size=True, output_shapes=shapes, timing=timing)
    yield burst_pb2.BurstAnswer(result=result).SerializeToString()
    staging = request_pb2.Staging(bytes=8, duration_ns=3, copies=[request_pb2.Copy(started_ns=1, ended_ns=2, bytes=8)])
    span = request_pb2.Span(started_ns=1, ended_ns=5)
    yield burst_pb2.BurstAnswer(result=result, staging=staging, span=span).SerializeToString()


class _Calls:
    """Takes the descriptors of pools for a device."""

    def issue(self, descriptor: Descriptor) -> int:
        return 1


def _wire(data: bytes) -> None:
    """Take a model with packed constants, as a device does that other hosts use."""
    asked = wire_pb2.PrepareRequest.FromString(data)
    budget, kept = SessionBudget(_LIMITS), KeptConstants(_LIMITS.constant_bytes)
    kept.add("ci", hashlib.sha256(_CONSTANT).digest(), _CONSTANT)
    kept.add("ci", hashlib.sha256(b"").digest(), b"")
    uploads = Uploads("ci", kept, _LIMITS, budget)
    packs = ConstantPacks(cast(Calls, _Calls()), "ci", kept, uploads, budget)
    try:
        model = packs.model(asked.model)
        for constant in asked.model.constants:
            uploads.receive(constant.digest, constant.length, 0, iter([_CONSTANT]))
    finally:
        packs.close()
        uploads.close()
    ValidModel.of(model_from_wire(model, _descriptor))


def _wire_seeds() -> Iterator[bytes]:
    model = model_to_wire(addition_model(), _number)
    digest = hashlib.sha256(_CONSTANT).digest()
    constants = [wire_pb2.PackedConstant(digest=digest, offset=place, length=64) for place in (0, 64)]
    for given in ([], constants):
        packed = wire_pb2.PackedModel(model=model, constants=given, pool_bytes=64 * len(given))
        yield wire_pb2.PrepareRequest(model=packed).SerializeToString()


TARGETS = (
    FuzzTarget(
        "model",
        _model,
        (HalError, DecodeError),
        _model_seeds,
        MessageMutator(device_pb2.PrepareModelRequest),
        cpu_seconds=5,
    ),
    FuzzTarget("request", _request, (HalError, DecodeError), _request_seeds, MessageMutator(burst_pb2.BurstCall)),
    FuzzTarget(
        "answer", _answer, (HalError, TransportError), _answer_seeds, MessageMutator(burst_pb2.BurstAnswer), plain=False
    ),
    FuzzTarget(
        "wire",
        _wire,
        (HalError, DecodeError, MissingConstantsError),
        _wire_seeds,
        MessageMutator(wire_pb2.PrepareRequest),
    ),
)
