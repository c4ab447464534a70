"""Every operation of the HAL is declared, computed and tested, and every device has an answer about it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from nnhal.errors import HalError
from nnhal.kernels import KERNELS
from nnhal.operations import DEFINITIONS
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Unsupported
from nnhal.types import OperationType
from nnhal_devices.driver import Driver, DriverOptions
from nnhal_devices.registry import create_driver
from tests.operations.rows import Verb
from tests.operations.tables import ROWS
from tests.operations.variations import model_of, types_of, values_of

_CONTROL_FLOW = {OperationType.IF, OperationType.WHILE}
_PARTIAL = {OperationType.QUANTIZED_LSTM}
"""Its rows leave the scales of biases open, which a model must give."""
OPERATIONS = sorted(set(OperationType) - _CONTROL_FLOW)
DRIVERS = ("cpu_ref", "cpu_acc", "gpu_acc", "ethos_n", "ethos_u", "mlip")


@pytest.mark.parametrize("kind", OPERATIONS, ids=lambda kind: kind.name)
def test_an_operation_has_a_definition_a_kernel_and_rows(kind: OperationType) -> None:
    assert DEFINITIONS[kind].type is kind
    assert callable(KERNELS[kind])
    assert any(row.operation is kind for row in ROWS), "a forgotten row in tests/operations"


@pytest.fixture(scope="module", params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> Driver:
    return create_driver(request.param, DriverOptions())


@pytest.mark.parametrize("kind", [kind for kind in OPERATIONS if kind not in _PARTIAL], ids=lambda kind: kind.name)
def test_a_device_takes_an_operation_or_says_why_not(driver: Driver, kind: OperationType) -> None:
    (answer,) = driver.supported_operations(_valid_model(kind))
    if isinstance(answer, Unsupported):
        assert answer.code and answer.got and answer.allowed
    else:
        assert answer == SUPPORTED


def _valid_model(kind: OperationType) -> ResolvedModel:
    """Return the model of the first row that is valid by itself: some rows leave scales to their verb."""
    for row in ROWS:
        if row.operation is kind and row.verb in (Verb.TAKES, Verb.GIVES):
            _, typed = next(iter(types_of(row)))
            with suppress(HalError):
                return model_of(typed, values_of(typed))[0]
    raise LookupError(f"no row of {kind.name} is a valid model")
