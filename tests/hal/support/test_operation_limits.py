from __future__ import annotations

import pytest

from nnhal.types import OperationType
from nnhal_devices.driver import DriverOptions
from nnhal_devices.registry import create_driver


def limits(driver: str) -> dict[OperationType, str]:
    given = create_driver(driver, DriverOptions()).backend.operation_limits()
    found = {limit.operation: limit.conditions for limit in given}
    assert len(found) == len(given)
    return found


def test_the_reference_has_every_operation_without_conditions() -> None:
    assert limits("cpu_ref") == dict.fromkeys(OperationType, "")


@pytest.mark.parametrize(
    ("driver", "operation", "conditions"),
    [
        (
            "cpu_acc",
            OperationType.TRANSPOSE,
            "TENSOR_FLOAT16, TENSOR_FLOAT32, TENSOR_QUANT8_ASYMM or TENSOR_QUANT8_ASYMM_SIGNED as input 0; "
            "known ranks; scalars and input 1 constant",
        ),
        (
            "gpu_acc",
            OperationType.SLICE,
            "TENSOR_FLOAT16 or TENSOR_FLOAT32 as input 0; known ranks of up to 4; scalars and inputs 1 and 2 constant; "
            "conditions of its own, which a refusal names",
        ),
        (
            "ethos_n",
            OperationType.LOGISTIC,
            "TENSOR_QUANT8_ASYMM or TENSOR_QUANT8_ASYMM_SIGNED; known dimensions of rank 1 to 4, batch 1; "
            "height and width of at most 4096, and 32768 channels; scalars constant",
        ),
        (
            "ethos_u",
            OperationType.CONV_2D,
            "TENSOR_QUANT8_ASYMM or TENSOR_QUANT8_ASYMM_SIGNED; known dimensions of rank 1 to 4, batch 1; "
            "height and width of at most 65535, and 65535 channels; scalars and inputs 1 and 2 constant; "
            "conditions of its own, which a refusal names",
        ),
        (
            "mlip",
            OperationType.CAST,
            "TENSOR_FLOAT16, or TENSOR_FLOAT32 of a relaxed model; known dimensions of rank 1 to 4; scalars constant; "
            "conditions of its own, which a refusal names",
        ),
    ],
)
def test_a_device_says_what_it_takes_of_an_operation(driver: str, operation: OperationType, conditions: str) -> None:
    assert limits(driver)[operation] == conditions


def test_what_takes_no_floats_is_none_of_the_gpus_operations() -> None:
    assert OperationType.LOGICAL_AND in limits("cpu_acc")
    assert OperationType.LOGICAL_AND not in limits("gpu_acc")
    assert limits("gpu_acc")[OperationType.DEQUANTIZE].startswith("TENSOR_QUANT8_ASYMM or TENSOR_QUANT8_ASYMM_SIGNED")
