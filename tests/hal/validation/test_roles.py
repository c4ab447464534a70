from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal.types import ChannelQuant, ExtensionNameAndPrefix, Model, Operand, OperandType
from nnhal.types.layout import Dimensions
from nnhal.validation.roles import DeclaredRole, require_like, type_name, validate_roles
from tests.support.additions import addition_model
from tests.support.refusals import INVALID, refusal

QUANTISED = Operand(OperandType.TENSOR_QUANT8_ASYMM, (2, 0), 0.5, 3)
SCALAR = Operand(OperandType.INT32)
PER_CHANNEL = Operand(
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, (2, 3), extra_params=ChannelQuant((0.5, 0.25, 1.0), 1)
)


def role(operand: Operand, number: int = 0, probability: float = 1.0, model: Model | None = None) -> DeclaredRole:
    """A role of its own for each number."""
    named = type_name(operand, model or addition_model())
    return DeclaredRole(f"input {number}", number, operand, operand.dimensions, named, probability)


@pytest.mark.parametrize(
    ("others", "dimensions", "expected"),
    [
        ([], (), (2, 0)),
        ([], (2, 7), (2, 7)),
        ([(0, 5)], (), (2, 5)),
        ([(0, 5), ()], (2, 0), (2, 5)),
    ],
)
def test_memory_has_the_dimensions_that_all_say_together(
    others: list[Dimensions], dimensions: Dimensions, expected: Dimensions
) -> None:
    roles = [role(QUANTISED), *(role(replace(QUANTISED, dimensions=d), n) for n, d in enumerate(others, 1))]
    assert validate_roles(roles, dimensions) == expected


@pytest.mark.parametrize(
    ("others", "dimensions", "words"),
    [
        ([role(QUANTISED)], (), "input 0 is given twice for the same model"),
        ([role(QUANTISED, 1, 0.0)], (), "input 1 has probability 0.0, expected above 0 and at most 1"),
        ([role(QUANTISED, 1, 1.1)], (), "input 1 has probability 1.1, expected above 0 and at most 1"),
        (
            [role(replace(QUANTISED, type=OperandType.TENSOR_FLOAT32), 1)],
            (),
            "input 1 has type TENSOR_FLOAT32, the memory's first role has TENSOR_QUANT8_ASYMM",
        ),
        ([role(replace(QUANTISED, scale=1.0), 1)], (), "input 1 has scale 1.0, the memory's first role has 0.5"),
        ([role(replace(QUANTISED, zero_point=0), 1)], (), "input 1 has zero_point 0, the memory's first role has 3"),
        (
            [role(replace(QUANTISED, dimensions=(3, 4)), 1)],
            (),
            r"input 1 has dimensions \[3, 4\], the memory would have \[2, \?\]",
        ),
        ([], (2,), r"input 0 has dimensions \[2, \?\], the memory would have \[2\]"),
        ([], (2, -1), r"dimensions \[2, -1\], expected none below 0"),
    ],
)
def test_roles_that_do_not_agree_are_refused(others: list[DeclaredRole], dimensions: Dimensions, words: str) -> None:
    refusal(lambda: validate_roles([role(QUANTISED), *others], dimensions), INVALID, words)


def test_memory_without_a_role_and_a_scalar_with_dimensions_are_refused() -> None:
    refusal(lambda: validate_roles([], ()), INVALID, "without a role, expected at least one")
    refusal(lambda: validate_roles([role(SCALAR)], (1,)), INVALID, r"dimensions \[1\] for memory of a scalar")
    assert validate_roles([role(SCALAR)], ()) == ()


def test_the_scales_of_channels_have_to_agree() -> None:
    other = replace(PER_CHANNEL, extra_params=ChannelQuant((0.5, 0.25, 2.0), 1))
    refusal(lambda: require_like(role(other, 1), role(PER_CHANNEL)), INVALID, "input 1 has extra_params")
    require_like(role(PER_CHANNEL, 1), role(PER_CHANNEL))


def test_types_of_extensions_agree_by_name_whatever_their_prefix() -> None:
    first, second, other = (
        replace(addition_model(), extension_name_to_prefix=(ExtensionNameAndPrefix(name, prefix),))
        for name, prefix in (("test.one", 7), ("test.one", 8), ("test.other", 7))
    )
    here = role(Operand(7 << 16 | 1, (2,), 0.5), 0, model=first)
    require_like(role(Operand(8 << 16 | 1, (2,), 1.0), 1, model=second), here)
    strange = role(Operand(7 << 16 | 1, (2,)), 2, model=other)
    words = "input 2 has type 1 of test.other, the memory's first role has 1 of test.one"
    refusal(lambda: require_like(strange, here), INVALID, words)
