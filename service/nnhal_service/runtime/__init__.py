"""Loaded models on devices: preparing the steps of a plan, and running them on one arena."""

from nnhal_service.runtime.context.execution_context import ExecutionContext
from nnhal_service.runtime.context.loaded_model import LoadedModel
from nnhal_service.runtime.devices.fleet import Fleet, FleetMember
from nnhal_service.runtime.loading.deferred import DeferredPlanner, OutlinedLoad, load_model
from nnhal_service.runtime.loading.planned_model import (
    LoadTarget,
    PlannedModel,
    PlannedNodes,
    ReadModel,
    UntakenNode,
    cache_of,
    plan_model,
)
from nnhal_service.runtime.loading.whole_file import WholeFile
from nnhal_service.runtime.memory.bindings import TensorBinding
from nnhal_service.runtime.memory.state import CarriedState, StateLostError
from nnhal_service.runtime.plan.compilation_cache import CacheDirectory
from nnhal_service.runtime.plan.planning import prepare
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.plan.sketch import SketchedPlan
from nnhal_service.runtime.plan.substitutes import NO_SUBSTITUTES, Substitutes
from nnhal_service.runtime.run.reports import OutputReport, OutputTooSmallError, RunReport, TouchedMemoryError

__all__ = [
    "NO_SUBSTITUTES",
    "CacheDirectory",
    "CarriedState",
    "DeferredPlanner",
    "ExecutionContext",
    "Fleet",
    "FleetMember",
    "LoadTarget",
    "LoadedModel",
    "OutlinedLoad",
    "OutputReport",
    "OutputTooSmallError",
    "PlannedModel",
    "PlannedNodes",
    "PreparedPlan",
    "ReadModel",
    "RunReport",
    "SketchedPlan",
    "StateLostError",
    "Substitutes",
    "TensorBinding",
    "TouchedMemoryError",
    "UntakenNode",
    "WholeFile",
    "cache_of",
    "load_model",
    "plan_model",
    "prepare",
]
