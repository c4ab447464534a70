from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from nnhal.errors import HalError
from nnhal.operations.operand_types import F32, Q8A
from nnhal.types import DeviceType, OperandType, OperationType
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.driver import DriverOptions, PrepareOptions
from nnhal_devices.registry import create_driver
from nnhal_frontends.tflite import import_tflite
from tests.support.agreement import like, random, single
from tests.support.models import run_on
from tests.support.onnx_models import resolved
from tests.support.tflite_files import Spec, int32
from tests.support.tflite_operators import one


def test_it_says_which_runtime_it_runs_on() -> None:
    driver = create_driver("cpu_acc", DriverOptions())
    assert isinstance(driver, CpuAcc)
    assert onnxruntime.__version__ in driver.version
    assert driver.type == DeviceType.CPU


def test_it_claims_to_be_faster_than_the_reference_for_what_it_computes() -> None:
    figures = {entry.type: entry.info.exec_time for entry in CpuAcc(DriverOptions()).capabilities.operand_performance}
    assert all(figures[code] < 1 for code in (F32, Q8A, OperandType.TENSOR_FLOAT16))
    assert list(figures) == sorted(figures)


def test_several_threads_compute_the_same() -> None:
    model, values = single(OperationType.SOFTMAX, F32, [(64, 64)], [1.0]), random(F32, (64, 64))
    one, two = (run_on(CpuAcc(DriverOptions(threads=n)), model, values)[0] for n in (1, 2))
    assert (one == two).all()


def test_operands_that_contradict_one_another_are_refused() -> None:
    model = single(OperationType.RELU, F32, [(2,)], [], like(F32, (3,)))
    with pytest.raises(HalError, match="dimensions"):
        CpuAcc(DriverOptions()).prepare(model, PrepareOptions())


def test_inputs_that_nothing_reads_may_have_any_type() -> None:
    model = resolved(import_tflite(one("SHAPE", [Spec((2, 3), np.int16, 0.05)], int32(2)).file()).model)
    (lengths,) = run_on(CpuAcc(DriverOptions()), model, np.zeros((2, 3), np.int16))
    assert lengths.tolist() == [2, 3]
