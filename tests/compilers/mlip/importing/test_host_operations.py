from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations.operand_types import F16, F32, Q8A, Q8AS
from nnhal.types import Operand, OperandType, OperationType
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.importing.host_operations import dequantised, host_evaluation
from nnhal_mlip.importing.model_import import import_hal_model
from tests.support.models import Recipe, run_on


@pytest.mark.parametrize("code, scale, zero_point", [(F16, 0.0, 0), (F32, 0.0, 0), (Q8A, 0.05, 90), (Q8AS, 0.05, -3)])
def test_the_host_computes_what_cpu_ref_does(code: OperandType, scale: float, zero_point: int) -> None:
    recipe = Recipe()
    x = recipe.input(code, (2, 6), scale, zero_point)
    bent = recipe.operation(OperationType.L2_NORMALIZATION, [x], Operand(code, (), *_normal_quantisation(code)))
    model = recipe.build(bent)
    real = np.random.default_rng(0).uniform(-3, 3, (2, 6)).astype(np.float32)
    operand = model.model.main.operands[model.model.main.input_indexes[0]]
    own = np.round(real / scale + zero_point) if scale else real
    own = own.astype({Q8A: np.uint8, Q8AS: np.int8, F16: np.float16, F32: np.float32}[code])
    (expected,) = run_on(CpuRef(), model, own)
    imported = import_hal_model(model)
    (name,) = imported.outputs
    got = evaluate(imported.graph, {imported.inputs[0]: dequantised(operand, own)})[imported.graph.outputs[name]]
    output = model.model.main.operands[model.model.main.output_indexes[0]]
    np.testing.assert_array_equal(got, dequantised(output, expected))
    assert got.dtype == np.float32


def test_an_operation_that_nobody_has_is_named() -> None:
    with pytest.raises(FlowError, match=r"node 'odd': got an operation that the host cannot compute"):
        host_evaluation(None, [0], "odd")([np.zeros(1)])


def _normal_quantisation(code: OperandType) -> tuple[float, int]:
    return {Q8A: (1 / 128, 128), Q8AS: (1 / 128, 0)}.get(code, (0.0, 0))
