"""Split a model over devices: pure functions from a model and what devices support to a plan."""

from nnhal_service.partition.candidate import Candidate, PlacementError
from nnhal_service.partition.carry import carry
from nnhal_service.partition.compound_plan import interpret
from nnhal_service.partition.control_flow import as_main
from nnhal_service.partition.objective import EdgeCost, PlanCost, StepCost
from nnhal_service.partition.partitioner import Options, Strategy, Task, may_fall_back, partition
from nnhal_service.partition.pins import PIN_FORMS, Pin, holding_pins
from nnhal_service.partition.plan import (
    CompoundPlan,
    CompoundStep,
    Fallback,
    GotoStep,
    IfStep,
    Plan,
    SourceOperand,
    Step,
    WhileStep,
)
from nnhal_service.partition.problem import EdgeNs
from nnhal_service.partition.refine import Failures, Refined, Refused, refine
from nnhal_service.partition.report import Partitioning, PlanReport
from nnhal_service.partition.step_model import StepError, whole
from nnhal_service.partition.support import require_pins

__all__ = [
    "PIN_FORMS",
    "Candidate",
    "CompoundPlan",
    "CompoundStep",
    "EdgeCost",
    "EdgeNs",
    "Failures",
    "Fallback",
    "GotoStep",
    "IfStep",
    "Options",
    "Partitioning",
    "Pin",
    "PlacementError",
    "Plan",
    "PlanCost",
    "PlanReport",
    "Refined",
    "Refused",
    "SourceOperand",
    "Step",
    "StepCost",
    "StepError",
    "Strategy",
    "Task",
    "WhileStep",
    "as_main",
    "carry",
    "holding_pins",
    "interpret",
    "may_fall_back",
    "partition",
    "refine",
    "require_pins",
    "whole",
]
