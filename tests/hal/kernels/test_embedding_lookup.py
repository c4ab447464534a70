from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import I32, Q8AS
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor

VALUES = tensor(Q8AS, [[1, 2], [-3, 4]], 0.5)


def test_slices_are_picked_as_they_are() -> None:
    (result,) = compute(OperationType.EMBEDDING_LOOKUP, [tensor(I32, [1, 0, 1]), VALUES], output(Q8AS, (), 0.5))
    assert result.tolist() == [[-3, 4], [1, 2], [-3, 4]]


def test_an_index_outside_the_values_is_refused() -> None:
    with pytest.raises(HalError, match="lookups: index 2, expected one in"):
        compute(OperationType.EMBEDDING_LOOKUP, [tensor(I32, [0, 2]), VALUES], output(Q8AS, (), 0.5))
