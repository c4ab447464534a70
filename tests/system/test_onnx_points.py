"""Operators of ONNX at ties, NaN and borders, on the devices that models have by default."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnhal_client import Framework
from tests.support.onnx_models import by_onnxruntime
from tests.support.onnx_points import POINTS, model_of


@pytest.mark.slow
@pytest.mark.parametrize("opset", sorted({point.opset for point in POINTS}))
def test_points_are_as_in_onnx_runtime(framework: Framework, tmp_path: Path, opset: int) -> None:
    points = [point for point in POINTS if point.opset == opset and not point.open]
    model, inputs, outputs = model_of(points)
    path = tmp_path / "points.onnx"
    path.write_bytes(model.SerializeToString())
    wanted = iter(by_onnxruntime(model, inputs))
    with framework.load(path) as loaded:
        found = loaded.run(inputs)
    for point, names in zip(points, outputs, strict=True):
        for name in names:
            got, expected = np.asarray(found[name]), next(wanted)
            what = f"{point.operator}, {point.what}"
            relative, absolute = (1e-4, 1e-5) if expected.dtype.kind == "f" else (0.0, 0.0)
            np.testing.assert_allclose(got, expected, relative, absolute, err_msg=what, strict=True)
