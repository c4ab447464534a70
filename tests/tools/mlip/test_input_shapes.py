from __future__ import annotations

import pytest

from nnhal_tools.mlip.input_shapes import parse_shapes


def test_each_input_has_its_shape() -> None:
    assert parse_shapes(["x=1,3,224,224", "a=b=2x4", "scalar="]) == {
        "x": (1, 3, 224, 224),
        "a=b": (2, 4),
        "scalar": (),
    }


@pytest.mark.parametrize("text", ["x", "=1,2", "x=1,,2", "x=-1", "x=1,0", "x=many"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected INPUT=1,3,224,224"):
        parse_shapes([text])


def test_an_input_has_one_shape() -> None:
    with pytest.raises(ValueError, match="got 'x' twice"):
        parse_shapes(["x=1", "x=2"])
