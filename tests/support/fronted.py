"""Real served models behind the fronts of the protocols."""

from __future__ import annotations

from dataclasses import replace

from nnhal.arrays import Array
from nnhal_service.serving import InferenceRequest, ServedModel
from tests.support.v2 import FakeModel


def in_front_of(served: ServedModel) -> FakeModel:
    """Adapt a served model from ``x`` of shape [1, n] to ``y``, for fronts whose model's input and output are ``x``."""

    def run(request: InferenceRequest) -> dict[str, Array]:
        with served.infer(replace(request, inputs={"x": request.inputs["x"].reshape(1, -1)})) as response:
            return {"x": response.outputs["y"].copy()}

    return FakeModel(run)
