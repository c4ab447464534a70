"""Served models: requests queue, are batched and run on instances, and are counted."""

from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.client_runs import ClientModelRuns, ClientModelUsage
from nnhal_service.serving.config import Batching, QueuePolicy, ServingConfig, TimeoutAction
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.model import RequestServer
from nnhal_service.serving.observer import Executed, FailureReason, Finished, Observer, Sampler
from nnhal_service.serving.placement import PlannedEdge
from nnhal_service.serving.request import InferenceRequest, InferenceResponse, Parameter, RequestTiming
from nnhal_service.serving.served_model import ServedModel
from nnhal_service.serving.signature import TensorDescription
from nnhal_service.serving.statistics import BatchStatistics, DurationStatistics, ModelStatistics

__all__ = [
    "BatchStatistics",
    "Batching",
    "Cancellation",
    "ClientModelRuns",
    "ClientModelUsage",
    "DurationStatistics",
    "ErrorKind",
    "Executed",
    "FailureReason",
    "Finished",
    "InferenceRequest",
    "InferenceResponse",
    "ModelStatistics",
    "Observer",
    "Parameter",
    "PlannedEdge",
    "QueuePolicy",
    "RequestServer",
    "RequestTiming",
    "Sampler",
    "ServedModel",
    "ServingConfig",
    "ServingError",
    "ServingLoop",
    "TensorDescription",
    "TimeoutAction",
]
