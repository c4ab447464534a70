"""Operators of ONNX at the points where the HAL's operations could differ, on cpu_ref and cpu_acc."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.support import SUPPORTED
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Driver, DriverOptions
from nnhal_frontends.onnx import import_onnx
from tests.support.extended import run_extended
from tests.support.onnx_models import by_onnxruntime, resolved
from tests.support.onnx_points import POINTS, Point, model_of

OPERATORS = sorted({(point.operator, point.opset) for point in POINTS if not point.open})


def is_taken(driver: Driver, point: Point) -> bool:
    imported = import_onnx(model_of([point])[0])
    return set(driver.supported_operations(resolved(imported.model))) <= {SUPPORTED}


@pytest.mark.parametrize(("operator", "opset"), OPERATORS)
@pytest.mark.parametrize("device", ["cpu_ref", "cpu_acc"])
def test_points_are_as_in_onnx_runtime(device: str, operator: str, opset: int) -> None:
    driver = CpuAcc(DriverOptions()) if device == "cpu_acc" else CpuRef()
    points = [p for p in POINTS if (p.operator, p.opset) == (operator, opset) and not p.open and is_taken(driver, p)]
    model, inputs, outputs = model_of(points)
    found = run_extended(driver, import_onnx(model), inputs)
    wanted = iter(by_onnxruntime(model, inputs))
    for point, names in zip(points, outputs, strict=True):
        for name in names:
            got, expected = found[name], next(wanted)
            got = np.asarray(got).reshape(expected.shape) if expected.shape == () else np.asarray(got)
            if expected.dtype == np.bool_:
                got = got.astype(np.bool_)  # of BOOL8
            relative, absolute = (1e-4, 1e-5) if expected.dtype.kind == "f" else (0.0, 0.0)
            what = f"{operator}, {point.what}"
            np.testing.assert_allclose(got, expected, relative, absolute, err_msg=what, strict=True)
