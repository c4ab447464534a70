"""The part of FrameworkAdminService (framework_admin.proto) that shows, loads and unloads models of the repository."""

from __future__ import annotations

import json

import grpc

from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_hosting.admin.guard import OperatorGuard
from nnhal_hosting.rpc import answers
from nnhal_service.native.convert import model_to_wire
from nnhal_service.native.refusals import refused_as_hal
from nnhal_service.operating.targets import PlanTargets
from nnhal_service.repository.parameters import text_of


class OperatedModels:
    """GetServedModel, LoadServedModel and UnloadServedModel."""

    _guard: OperatorGuard
    _targets: PlanTargets

    @answers
    def GetServedModel(
        self, request: wire.GetServedModelRequest, context: grpc.ServicerContext
    ) -> wire.GetServedModelResponse:
        # A framework without a repository starts sooner without the protocol.
        from nnhal_service.v2.json_form import message_to_json, metadata_to_json, statistics_to_json

        self._guard.require_operator(context, "see the models of all")
        repository = self._targets.repository
        with refused_as_hal(), repository.models.model(request.name, request.version) as lease:
            served = lease.model
            description = repository.served.description(lease.name, lease.version)
            return wire.GetServedModelResponse(
                version=lease.version,
                config_json=json.dumps(message_to_json(lease.config)),
                statistics_json=json.dumps(statistics_to_json(repository.served, lease.name, lease.version)),
                metadata_json=json.dumps(metadata_to_json(description)),
                info=model_to_wire(lease.name, served.loaded.prepared.in_operations()),
                file=lease.file,
                labels={output: wire.Labels(labels=names) for output, names in served.config.labels.items()},
                placement=text_of(served.loaded.original.choice.pins),
            )

    @answers
    def LoadServedModel(
        self, request: wire.LoadServedModelRequest, context: grpc.ServicerContext
    ) -> wire.LoadServedModelResponse:
        self._guard.require_operator(context, "load models")
        with refused_as_hal():
            self._targets.repository.models.load(
                request.name, request.config_json or None, request.files, by_operator=True
            )
        return wire.LoadServedModelResponse()

    @answers
    def UnloadServedModel(
        self, request: wire.UnloadServedModelRequest, context: grpc.ServicerContext
    ) -> wire.UnloadServedModelResponse:
        self._guard.require_operator(context, "unload models")
        with refused_as_hal():
            self._targets.repository.models.unload(request.name, by_operator=True)
        return wire.UnloadServedModelResponse()
