"""Loaded models on devices: preparing the steps of a plan, and running them on one arena."""

from nnhal_service.runtime.binding import TensorBinding
from nnhal_service.runtime.compilation_cache import CacheDirectory
from nnhal_service.runtime.context import ExecutionContext
from nnhal_service.runtime.fleet import Fleet, FleetMember
from nnhal_service.runtime.loaded_model import LoadedModel
from nnhal_service.runtime.loading import load_model
from nnhal_service.runtime.planning import prepare
from nnhal_service.runtime.prepared_plan import PreparedPlan
from nnhal_service.runtime.reports import OutputReport, OutputTooSmallError, RunReport

__all__ = [
    "CacheDirectory",
    "ExecutionContext",
    "Fleet",
    "FleetMember",
    "LoadedModel",
    "OutputReport",
    "OutputTooSmallError",
    "PreparedPlan",
    "RunReport",
    "TensorBinding",
    "load_model",
    "prepare",
]
