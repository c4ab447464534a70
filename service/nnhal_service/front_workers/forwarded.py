"""Requests and responses on their way between a front worker and the framework's process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Array
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.requests.client_memory import to_array
from nnhal_service.serving.requests.request import InferenceRequest, InferenceResponse, Parameter, RequestTiming


class ForwardedRequest(NamedTuple):
    """A request on its way to the framework."""

    inputs: Mapping[str, Array]
    outputs: Sequence[str]
    id: str
    parameters: Mapping[str, Parameter]
    priority: int
    timeout_ns: int
    deadline_ns: int
    arrived_ns: int

    @classmethod
    def of(cls, request: InferenceRequest) -> ForwardedRequest:
        """A request with its tensors. Raises ServingError if a region of the client cannot be read."""
        return cls(
            {name: to_array(tensor) for name, tensor in request.inputs.items()},
            tuple(request.outputs),
            request.id,
            dict(request.parameters),
            request.priority,
            request.timeout_ns,
            request.deadline_ns,
            request.arrived_ns,
        )

    def as_request(self, cancellation: Cancellation) -> InferenceRequest:
        return InferenceRequest(
            self.inputs,
            self.outputs,
            self.id,
            self.parameters,
            self.priority,
            self.timeout_ns,
            self.deadline_ns,
            cancellation,
            self.arrived_ns,
        )


class ForwardedResponse(NamedTuple):
    """A response on its way to the worker."""

    model_name: str
    model_version: str
    outputs: Mapping[str, Array]
    parameters: Mapping[str, Parameter]
    timing: RequestTiming

    @classmethod
    def of(cls, response: InferenceResponse) -> ForwardedResponse:
        outputs = {name: np.array(to_array(tensor)) for name, tensor in response.outputs.items()}
        return cls(response.model_name, response.model_version, outputs, response.parameters, response.timing)

    def as_response(self) -> InferenceResponse:
        return InferenceResponse(*self, release=lambda: None)
