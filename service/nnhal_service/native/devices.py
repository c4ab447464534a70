"""ListDevices, GetSupportedOperations and CheckModel: what is asked before a model is loaded."""

from __future__ import annotations

import grpc

from nnhal.codec import extensions_to_wire, model_from_wire
from nnhal.errors import NnhalError, invalid_argument
from nnhal.memory import CopyBudget
from nnhal.types import Model
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal.validation import validate_draft
from nnhal_hosting.rpc import answers
from nnhal_service.native.convert import devices_from_wire
from nnhal_service.native.hal_model import check_rules, hal_model_from_wire
from nnhal_service.native.session import NativeSessions
from nnhal_service.partition.support import CPU, cannot_be_offered
from nnhal_service.runtime import Fleet, FleetMember

_FEATURE_LEVEL = 8
"""The feature level of every device: the contract has this one only."""


class FleetServicer:
    """The part of FrameworkService (framework.proto) that asks devices before a model is loaded."""

    _fleet: Fleet
    _sessions: NativeSessions
    _copies: CopyBudget

    @answers
    def ListDevices(self, request: wire.ListDevicesRequest, context: grpc.ServicerContext) -> wire.ListDevicesResponse:
        return wire.ListDevicesResponse(devices=[self._describe(name) for name in self._fleet.names])

    @answers
    def GetSupportedOperations(
        self, request: wire.FrameworkServiceGetSupportedOperationsRequest, context: grpc.ServicerContext
    ) -> wire.FrameworkServiceGetSupportedOperationsResponse:
        session = self._sessions.of(context)
        given = hal_model_from_wire(request.model, session.descriptors.get, self._copies)
        devices = devices_from_wire(request.devices)
        if not devices or len(set(devices)) < len(devices):
            invalid_argument(f"got devices {list(devices)}, expected at least one and none twice")
        answered = [_supported(self._member(name), given.model) for name in devices]
        by_index = dict(zip(given.order, map(any, zip(*answered, strict=True)), strict=True))
        return wire.FrameworkServiceGetSupportedOperationsResponse(
            supported=[by_index[index] for index in range(len(given.order))]
        )

    @answers
    def CheckModel(self, request: wire.CheckModelRequest, context: grpc.ServicerContext) -> wire.CheckModelResponse:
        session = self._sessions.of(context)
        if request.is_draft:
            validate_draft(model_from_wire(request.model, session.descriptors.get))
        elif request.reads_constants:
            hal_model_from_wire(request.model, session.descriptors.get, self._copies)
        else:
            check_rules(request.model, session.descriptors.get)
        return wire.CheckModelResponse()

    def _describe(self, name: str) -> wire.DeviceInfo:
        try:
            member = self._fleet.get(name)
        except NnhalError:
            return wire.DeviceInfo(name=name)
        return wire.DeviceInfo(
            name=name,
            version=member.version,
            type=types_pb2.DeviceType.ValueType(member.type),
            pid=member.remote.pid,
            available=True,
            feature_level=_FEATURE_LEVEL,
            extensions=extensions_to_wire(member.extensions),
        )

    def _member(self, name: str) -> FleetMember | None:
        """Return a device, None if it does not answer. Raises INVALID_ARGUMENT if the name is unknown."""
        try:
            return self._fleet.get(name)
        except LookupError as error:
            invalid_argument(str(error))
        except NnhalError:
            return None


def _supported(member: FleetMember | None, model: Model) -> list[bool]:
    """Say which operations a device takes; one that cannot answer takes none."""
    nothing = [False] * len(model.main.operations)
    if member is None:
        return nothing
    try:
        supported = member.remote.supported_operations(model)
    except NnhalError:
        return nothing
    refused = {index for index, answer in enumerate(supported) if not answer}
    return nothing if member.name != CPU and cannot_be_offered(model, refused) else supported
