"""Real served models behind the protocols' fronts."""

from __future__ import annotations

from dataclasses import replace

from nnhal.arrays import Array
from nnhal_service.serving import InferenceRequest, ServedModel
from tests.support.v2 import FakeModel


def in_front_of(served: ServedModel) -> FakeModel:
    """What a front serves: ``x`` in and out, run by a model that has ``x`` of shape [1, n] and ``y``."""

    def run(request: InferenceRequest) -> dict[str, Array]:
        with served.infer(replace(request, inputs={"x": request.inputs["x"].reshape(1, -1)})) as response:
            return {"x": response.outputs["y"].copy()}

    return FakeModel(run)
