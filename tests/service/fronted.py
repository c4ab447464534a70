"""Real served models behind the V2 servers."""

from __future__ import annotations

from dataclasses import replace

from nnhal.arrays import Array
from nnhal_service.serving import InferenceRequest, ServedModel
from nnhal_service.serving.requests.client_memory import to_array
from tests.support.v2 import FakeModel


def in_front_of(served: ServedModel) -> FakeModel:
    """Adapt a served model from ``x`` of shape [1, n] to ``y``, for V2 servers of a model from ``x`` to ``x``."""

    def run(request: InferenceRequest) -> dict[str, Array]:
        row = to_array(request.inputs["x"]).reshape(1, -1)
        with served.infer_and_wait(replace(request, inputs={"x": row})) as response:
            return {"x": to_array(response.outputs["y"]).copy()}

    return FakeModel(run)
