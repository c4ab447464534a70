"""PlanModel and ReleasePlan: what would run where, and a handle to load it from."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from nnhal.errors import invalid_argument
from nnhal.v1 import framework_pb2 as wire
from nnhal_hosting.rpc import answers
from nnhal_service.native.convert import tensor_to_wire
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.native.kept_plans import KeptPlan
from nnhal_service.native.models import ModelServicer
from nnhal_service.native.refusals import refused_as_hal
from nnhal_service.native.requested_models import RequestedModel
from nnhal_service.runtime import LoadedModel, PlannedNodes, UntakenNode

_NANOSECONDS = 1_000_000_000


class PlanServicer(ModelServicer):
    """The part of FrameworkService (framework.proto) that plans models without preparing them."""

    @answers
    def PlanModel(self, request: wire.PlanModelRequest, context: grpc.ServicerContext) -> wire.PlanModelResponse:
        session = self._sessions.of(context)
        session.intake.require_open()
        if request.model.plan:
            invalid_argument(f"got plan {request.model.plan} to plan, expected a model")
        with self._requested.given(session, request.model) as given, refused_as_hal():
            if request.may_load and not (request.explains or request.keeps or request.operators):
                loaded = given.load_as_it_is(gives_numbers=request.leaves_nodes)
                if loaded is not None:
                    return _loaded_to_wire(loaded, self.added(session, request.model.name, loaded))
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


def _loaded_to_wire(model: LoadedModel, info: wire.ModelInfo) -> wire.PlanModelResponse:
    """The answer for a file that one device has taken as it is."""
    (step,), nodes = model.prepared.plan.steps, range(model.prepared.imported.node_count)
    steps = [wire.PlannedStep(device=step.device, nodes=nodes)]
    group = wire.PlannedGroup(nodes=nodes, inputs=info.inputs, outputs=info.outputs, steps=steps)
    return wire.PlanModelResponse(groups=[group], node_count=len(nodes), loaded=info)


def _left_to_wire(left: UntakenNode) -> wire.LeftNode:
    return wire.LeftNode(
        node=left.index,
        name=left.node.name,
        op_type=left.node.op_type,
        reason=left.reason,
        refusals=[wire.DeviceRefusal(device=device, reason=reason) for device, reason in left.refusals.items()],
    )
