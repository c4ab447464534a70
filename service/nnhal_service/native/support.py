"""GetSupportedOperations: what named devices would take of a model."""

from __future__ import annotations

import grpc

from nnhal.errors import NnhalError, invalid_argument
from nnhal.types import Model
from nnhal.v1 import framework_pb2 as wire
from nnhal_hosting.rpc import answers
from nnhal_service.native.client import Clients
from nnhal_service.native.hal_model import hal_model_from_wire
from nnhal_service.partition.support import CPU, cannot_be_offered
from nnhal_service.runtime import Fleet, FleetMember


class SupportServicer:
    """The part of FrameworkService that asks devices before a model is loaded."""

    _fleet: Fleet
    _clients: Clients

    @answers
    def GetSupportedOperations(
        self, request: wire.FrameworkServiceGetSupportedOperationsRequest, context: grpc.ServicerContext
    ) -> wire.FrameworkServiceGetSupportedOperationsResponse:
        """See framework.proto."""
        client = self._clients.of(context)
        given = hal_model_from_wire(request.model, client.descriptors.get)
        if not request.devices or len(set(request.devices)) < len(request.devices):
            invalid_argument(f"got devices {list(request.devices)}, expected at least one and none twice")
        answered = [_supported(self._member(name), given.model) for name in request.devices]
        by_index = dict(zip(given.order, map(any, zip(*answered, strict=True)), strict=True))
        return wire.FrameworkServiceGetSupportedOperationsResponse(
            supported=[by_index[index] for index in range(len(given.order))]
        )

    def _member(self, name: str) -> FleetMember | None:
        """A device; None where it does not answer."""
        try:
            return self._fleet.get(name)
        except LookupError as error:
            invalid_argument(str(error))
        except NnhalError:
            return None


def _supported(member: FleetMember | None, model: Model) -> list[bool]:
    """What a device takes; one that cannot answer takes nothing."""
    nothing = [False] * len(model.main.operations)
    if member is None:
        return nothing
    try:
        supported = member.remote.supported_operations(model)
    except NnhalError:
        return nothing
    refused = {index for index, answer in enumerate(supported) if not answer}
    return nothing if member.name != CPU and cannot_be_offered(model, refused) else supported
