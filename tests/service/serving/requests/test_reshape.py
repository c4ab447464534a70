"""Tensors in another shape than the model's."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.types.layout import Dimensions
from nnhal_service.serving.requests.reshape import Reshape


@pytest.mark.parametrize(
    ("client", "model", "given", "found"),
    [
        ((4,), (2, 2), (4,), (2, 2)),
        ((1,), (), (1,), ()),
        ((-1, 3), (1, -1, 3), (5, 3), (1, 5, 3)),
        ((-1, 4, -1), (2, -1, 2, -1), (5, 4, 7), (2, 5, 2, 7)),
        ((-1, 1), (-1,), (6, 1), (6,)),
    ],
)
def test_a_tensor_goes_there_and_back(
    client: Dimensions, model: Dimensions, given: Dimensions, found: Dimensions
) -> None:
    reshape = Reshape(client, model)
    x = np.arange(np.prod(given), dtype=np.float32).reshape(given)
    there = reshape.for_model(x)
    assert reshape.is_valid
    assert there.shape == found
    np.testing.assert_array_equal(reshape.for_client(there), x)


@pytest.mark.parametrize(("client", "model"), [((4,), (2, 3)), ((-1,), (4,)), ((-1, 2), (-1, 3)), ((-1, -1), (-1, 1))])
def test_shapes_that_do_not_fit_are_no_pair(client: Dimensions, model: Dimensions) -> None:
    assert not Reshape(client, model).is_valid
