"""Served models: requests queue, are batched and run on instances, and are counted."""

from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.config import Batching, QueuePolicy, ServingConfig, TimeoutAction
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.history.client_runs import ClientModelRuns, ClientModelUsage
from nnhal_service.serving.history.observer import Executed, FailureReason, Finished, Observer, OfRequests, Sampler
from nnhal_service.serving.history.statistics import BatchStatistics, DurationStatistics, ModelStatistics
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.models.request_server import RequestServer
from nnhal_service.serving.models.served_model import ServedModel
from nnhal_service.serving.requests.planned_run import PlannedEdge
from nnhal_service.serving.requests.request import InferenceRequest, InferenceResponse, Parameter, RequestTiming
from nnhal_service.serving.requests.signature import TensorDescription

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
    "OfRequests",
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
