"""The part of FrameworkAdminService (framework_admin.proto) that explains plans, and plans models again.

A model of the repository is planned again without a request that fails.
"""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from nnhal.inference.model_config_pb2 import ModelConfig
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal.v1 import framework_pb2
from nnhal_hosting.admin.guard import OperatorGuard
from nnhal_hosting.rpc import answers
from nnhal_service.native.convert import devices_from_wire, partitioner_from_wire, pins_from_wire
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.native.refusals import refused_as_hal
from nnhal_service.operating.targets import OperatedRepository, PlanTargets
from nnhal_service.partition import Pin
from nnhal_service.repository import Opened
from nnhal_service.repository.parameters import placement_lines, set_placement
from nnhal_service.repository.source import ModelSource
from nnhal_service.runtime import LoadedModel
from nnhal_service.serving import ServedModel


def apply_plan(
    repository: OperatedRepository, name: str, version: str, pins: Sequence[Pin], devices: Sequence[str]
) -> str:
    """Serve a version by a plan with these pins and no others, over these devices if some are given.

    An empty version is the newest that is ready. Requests are served all the time. Returns what has to stand in the
    configuration file for the same plan. Raises ServingError, and changes nothing then.
    """
    lines = ""

    def reopen(opened: Opened[ServedModel], source: ModelSource) -> Opened[ServedModel]:
        nonlocal lines
        config = ModelConfig()
        config.CopyFrom(opened.config)
        set_placement(config, pins, devices)
        lines = placement_lines(config)
        served = opened.served

        def load() -> LoadedModel:
            return LoadedModel(served.loaded.original.planner.choose(pins, devices).prepare())

        return repository.opener.reopen(opened, load, config, served.config, source)

    repository.models.load_again(name, version, reopen)
    return lines


class OperatedPlans:
    """ExplainTarget, PlanTarget and ApplyPlan."""

    _guard: OperatorGuard
    _targets: PlanTargets

    @answers
    def ExplainTarget(
        self, request: wire.ExplainTargetRequest, context: grpc.ServicerContext
    ) -> wire.ExplainTargetResponse:
        self._guard.require_operator(context, "see the plans of all")
        with refused_as_hal(), self._targets.model(request.target) as loaded:
            plan = loaded.original if request.original else loaded.prepared
            return wire.ExplainTargetResponse(
                explanation=explanation_to_wire(plan if request.as_it_runs else plan.in_operations()),
                pins=[framework_pb2.Pin(match=pin.match, device=pin.device) for pin in plan.choice.pins],
                missing=sorted(loaded.missing | loaded.original.gone),
                prepared_models=[0 if part.member.remote.gone else part.prepared.handle for part in plan.parts],
                earlier=self._targets.earlier(request.target),
            )

    @answers
    def PlanTarget(self, request: wire.PlanTargetRequest, context: grpc.ServicerContext) -> wire.PlanTargetResponse:
        self._guard.require_operator(context, "plan the models of all")
        strategy = partitioner_from_wire(request.partitioner)
        pins, devices = pins_from_wire(request.pins), devices_from_wire(request.devices)
        with refused_as_hal(), self._targets.model(request.target) as loaded:
            planner = loaded.original.planner.choose(pins, devices, strategy)
            return wire.PlanTargetResponse(explanation=explanation_to_wire(planner.sketch()))

    @answers
    def ApplyPlan(self, request: wire.ApplyPlanRequest, context: grpc.ServicerContext) -> wire.ApplyPlanResponse:
        self._guard.require_operator(context, "change plans")
        pins, devices = pins_from_wire(request.pins), devices_from_wire(request.devices)
        with refused_as_hal():
            lines = apply_plan(self._targets.repository, request.model, request.version, pins, devices)
        return wire.ApplyPlanResponse(config_lines=lines)
