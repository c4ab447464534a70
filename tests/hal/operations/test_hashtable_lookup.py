from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, I32, Q8A
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, level_of, open_tensor, output

LOOKUP = OperationType.HASHTABLE_LOOKUP
HITS = output(Q8A, (4,), 1.0)


def test_slices_and_hits_of_every_lookup() -> None:
    inputs = [open_tensor(I32, (4,)), open_tensor(I32, (3,)), open_tensor(F32, (0, 2))]
    assert level_of(LOOKUP, inputs, output(F32, (4, 2)), HITS) == 1
    assert dimensions_of(LOOKUP, inputs, output(F32), HITS) == ((4, 2), (4,))


def test_every_value_has_a_key_and_hits_are_plain_bytes() -> None:
    inputs = [open_tensor(I32, (4,)), open_tensor(I32, (3,)), open_tensor(F32, (5, 2))]
    with pytest.raises(HalError, match=r"input 1 has dimensions \[3\], expected \[5\]"):
        dimensions_of(LOOKUP, inputs, output(F32), HITS)
    with pytest.raises(HalError, match=r"output 1 has scale 0.5"):
        dimensions_of(LOOKUP, inputs, output(F32), output(Q8A, (4,), 0.5))
