"""A plan of a model that no device has prepared: which nodes of the file would run where, and why others would not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnhal.tensors import Tensor
from nnhal.v1 import framework_pb2 as wire
from nnhal_client.explanation import Explanation, explanation_from_wire
from nnhal_client.tensors import tensor_from_wire


@dataclass(frozen=True, slots=True)
class GroupStep:
    """Operations that one device would run at a time."""

    device: str
    nodes: tuple[int, ...]
    """The nodes that its operations stand for. A node may be in several steps, or in none if it needs no operation."""


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Nodes of the file that would run as one model."""

    nodes: tuple[int, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    steps: tuple[GroupStep, ...]
    modelled_ns: float
    """The modelled time of a run; 0 if a device has no cost model."""
    explanation: Explanation | None
    """Why the plan is as it is, if that was asked for."""


@dataclass(frozen=True, slots=True)
class LeftNode:
    """A node that is in no group."""

    node: int
    name: str
    """Its name in the file, which may be empty."""
    op_type: str
    reason: str
    refusals: Mapping[str, str]
    """What devices say that do not take it, by their names."""


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """Plan of a model, which a framework keeps for this session: ``Framework.load`` loads it.

    Nodes are named by their indexes in the file's main graph, since names may be empty or repeated.
    """

    handle: int
    """What the framework calls it; 0 if there is no group."""
    groups: tuple[PlannedGroup, ...]
    """In an order in which they can run."""
    left: tuple[LeftNode, ...]
    node_count: int
    kept_seconds: float
    """The time that the framework keeps it after its last use."""


def plan_from_wire(message: wire.PlanModelResponse) -> ModelPlan:
    return ModelPlan(
        message.plan,
        tuple(map(_group_from_wire, message.groups)),
        tuple(
            LeftNode(each.node, each.name, each.op_type, each.reason, {r.device: r.reason for r in each.refusals})
            for each in message.left
        ),
        message.node_count,
        message.kept_ns / 1e9,
    )


def _group_from_wire(message: wire.PlannedGroup) -> PlannedGroup:
    return PlannedGroup(
        tuple(message.nodes),
        tuple(map(tensor_from_wire, message.inputs)),
        tuple(map(tensor_from_wire, message.outputs)),
        tuple(GroupStep(step.device, tuple(step.nodes)) for step in message.steps),
        message.modelled_ns,
        explanation_from_wire(message.explanation) if message.HasField("explanation") else None,
    )
