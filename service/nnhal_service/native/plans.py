"""PlanModel and ReleasePlan: what would run where, and a handle to load it from."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from nnhal.errors import invalid_argument
from nnhal.v1 import framework_pb2 as wire
from nnhal_hosting.rpc import answers
from nnhal_service.native.convert import tensor_to_wire
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.native.kept_plans import KeptPlan, KeptPlans
from nnhal_service.native.refusals import refused_as_hal
from nnhal_service.native.requested_models import RequestedModel, RequestedModels
from nnhal_service.native.session import NativeSessions
from nnhal_service.runtime import PlannedNodes, UntakenNode

_NANOSECONDS = 1_000_000_000
_GIVEN_ON_LOADING = {"name", "plan", "group", "deadline_ns"}
"""The fields of a request that loads from a plan."""


class PlanServicer:
    """The part of FrameworkService (framework.proto) that plans models without preparing them."""

    _sessions: NativeSessions
    _requested: RequestedModels
    _plans: KeptPlans

    @answers
    def PlanModel(self, request: wire.PlanModelRequest, context: grpc.ServicerContext) -> wire.PlanModelResponse:
        session = self._sessions.of(context)
        session.intake.require_open()
        if request.model.plan:
            invalid_argument(f"got plan {request.model.plan} to plan, expected a model")
        with self._requested.given(session, request.model) as given, refused_as_hal():
            groups, left = _planned(given, request)
            answer = wire.PlanModelResponse(
                groups=[_group_to_wire(group, request.explains) for group in groups],
                left=map(_left_to_wire, left),
                node_count=len(left) + sum(len(group.nodes) for group in groups),
                kept_ns=int(self._plans.seconds * _NANOSECONDS),
            )
            constants = sum(group.model.sketch.constant_bytes for group in groups)
            held = len(given.content) * (1 + request.leaves_nodes) + constants  # parts are messages of their own
        if groups:
            answer.plan = self._plans.keep(session, KeptPlan(groups, held, self._requested.copies))
        return answer

    @answers
    def ReleasePlan(self, request: wire.ReleasePlanRequest, context: grpc.ServicerContext) -> wire.ReleasePlanResponse:
        self._plans.release(self._sessions.of(context), request.plan)
        return wire.ReleasePlanResponse()


def group_to_load(plan: KeptPlan, request: wire.LoadModelRequest) -> PlannedNodes:
    """Return the group that a request loads. Raises INVALID_ARGUMENT if it asks for what the plan has said."""
    given = [field.name for field, _ in request.ListFields() if field.name not in _GIVEN_ON_LOADING]
    if given:
        invalid_argument(f"got {', '.join(given)} with a plan, which has all but a name, a group and a deadline")
    if not 0 <= request.group < len(plan.groups):
        invalid_argument(f"group {request.group} of a plan of {len(plan.groups)} groups")
    return plan.groups[request.group]


def _planned(
    given: RequestedModel, request: wire.PlanModelRequest
) -> tuple[Sequence[PlannedNodes], Sequence[UntakenNode]]:
    """Plan the whole model, or those groups of its nodes that devices take."""
    if request.leaves_nodes:
        return given.plan_groups(frozenset(request.keeps), frozenset(request.operators))
    if request.keeps or request.operators:
        invalid_argument("got nodes that the client keeps, and no leave to leave nodes")
    model = given.plan()
    return [PlannedNodes(range(model.sketch.imported.node_count), model)], ()


def _group_to_wire(group: PlannedNodes, explains: bool) -> wire.PlannedGroup:
    sketch = group.model.sketch
    return wire.PlannedGroup(
        nodes=group.nodes,
        inputs=[tensor_to_wire(sketch, tensor) for tensor in sketch.imported.inputs],
        outputs=[tensor_to_wire(sketch, tensor) for tensor in sketch.imported.outputs],
        steps=[wire.PlannedStep(device=device, nodes=nodes) for device, nodes in group.steps],
        modelled_ns=sketch.modelled_ns or 0.0,
        explanation=explanation_to_wire(sketch) if explains else None,
    )


def _left_to_wire(left: UntakenNode) -> wire.LeftNode:
    return wire.LeftNode(
        node=left.index,
        name=left.node.name,
        op_type=left.node.op_type,
        reason=left.reason,
        refusals=[wire.DeviceRefusal(device=device, reason=reason) for device, reason in left.refusals.items()],
    )
