from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations.operand_types import Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.graph.paddings import fold_paddings
from nnhal_devices.cpu_ref.driver import CpuRef
from tests.support.agreement import QUANTIZATION, random
from tests.support.ethos_u import padded_convolution
from tests.support.models import run_on
from tests.support.npu import SAME, VALID

ZERO = QUANTIZATION[Q8A][1]
CONV_2D, DEPTHWISE_CONV_2D = OperationType.CONV_2D, OperationType.DEPTHWISE_CONV_2D


@pytest.mark.parametrize("kind", [CONV_2D, DEPTHWISE_CONV_2D])
@pytest.mark.parametrize("parameters", [(VALID, 2, 1), (SAME, 1, 2), (0, 1, 1, 0, 2, 1)])
@pytest.mark.parametrize("value", [None, ZERO])
def test_the_result_stays_the_same(kind: OperationType, parameters: tuple[int, ...], value: int | None) -> None:
    model = padded_convolution([[0, 0], [0, 1], [1, 1], [0, 0]], kind, parameters, value)
    folded = fold_paddings(model)
    (part,) = build_graph(folded).parts
    assert part.operations == (1,)
    x = random(Q8A, (1, 6, 5, 4))
    (expected,), (got,) = run_on(CpuRef(), model, x), run_on(CpuRef(), folded, x)
    assert len(np.unique(expected)) > 2
    np.testing.assert_array_equal(got, expected)


def test_a_padding_that_others_read_stays_for_them() -> None:
    folded = fold_paddings(padded_convolution([[0, 0], [1, 1], [1, 1], [0, 0]], outputs=True))
    graph = build_graph(folded)
    image = graph.tensor_of[folded.model.main.input_indexes[0]]
    assert [part.operation for part in graph.parts] == ["PAD", "CONV_2D"]
    assert graph.consumers[image] == (0, 1)


@pytest.mark.parametrize(
    "model",
    [
        padded_convolution([[0, 0], [1, 1], [1, 1], [0, 1]]),
        padded_convolution([[0, 0], [3, 1], [1, 1], [0, 0]]),
        padded_convolution([[0, 0], [1, 1], [1, 1], [0, 0]], value=0),
    ],
)
def test_other_paddings_stay(model: ResolvedModel) -> None:
    assert fold_paddings(model) is model
    assert len(build_graph(model).parts) == 2
