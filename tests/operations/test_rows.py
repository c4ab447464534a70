"""Rows hold for the definitions of operations, for cpu_ref's kernels, and for devices."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_ref.driver import CpuRef
from tests.operations.rows import TYPES, Row, Verb
from tests.operations.tables import ROWS
from tests.operations.variations import (
    channels_first,
    in_halves,
    in_type,
    model_of,
    name_of,
    rows_of,
    types_of,
    values_of,
    with_less_known,
)
from tests.support.kernels import compute
from tests.support.models import run_on
from tests.support.operations import Given, dimensions_of, level_of, output

HALF = 2e-3
"""How far results in float16 may be off, relatively and absolutely."""


CURVES = (OperationType.LOGISTIC, OperationType.TANH)
TAKEN: dict[OperationType, set[OperandType]] = {}
"""The types of each operation in all its rows."""
for _row in rows_of(ROWS, Verb.TAKES):
    TAKEN.setdefault(_row.operation, set()).update(code for code, _ in types_of(_row))


def of(*verbs: Verb) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows_of(ROWS, *verbs), ids=name_of)


def dimensions(row: Row) -> tuple[Dimensions, ...]:
    """Return the inferred dimensions; those that outputs declare are not looked at."""
    return dimensions_of(row.operation, row.inputs, *(_undeclared(each.operand) for each in row.outputs))


def _undeclared(operand: Operand) -> Operand:
    return output(OperandType(operand.type), (), operand.scale, operand.zero_point)


@of(Verb.TAKES)
def test_a_form_needs_its_level_and_has_its_dimensions(row: Row) -> None:
    for _, typed in types_of(row):
        for form in filter(None, (typed, channels_first(typed))):
            if form.level is not None:
                assert level_of(form.operation, form.inputs, *form.operands) == form.level
            assert dimensions(form) == tuple(each.dimensions for each in form.operands)


@of(Verb.TAKES)
def test_no_other_type_is_taken(row: Row) -> None:
    for code in set(TYPES.values()) - TAKEN[row.operation] if row.levels else ():
        other = in_type(row, code)
        with pytest.raises(HalError, match="expected"):
            level_of(other.operation, other.inputs, *other.operands)
            dimensions(other)


@of(Verb.TAKES)
def test_what_is_unknown_contradicts_nothing(row: Row) -> None:
    for less in with_less_known(row):
        try:
            found = dimensions(less)
        except UnknownYet:
            continue
        for some, all_of_them in zip(found, (each.dimensions for each in row.operands), strict=True):
            assert len(some) == len(all_of_them)
            assert all(a in (0, b) or b == 0 for a, b in zip(some, all_of_them, strict=True))


@of(Verb.WAITS)
def test_dimensions_are_known_later(row: Row) -> None:
    level_of(row.operation, row.inputs, *row.operands)
    with pytest.raises(UnknownYet):
        dimensions(row)


@of(Verb.REFUSES)
def test_a_form_is_refused_in_words(row: Row) -> None:
    known = all(each.value is not None for each in row.inputs)
    if row.level is not None:
        assert level_of(row.operation, row.inputs, *row.operands) == row.level
    with pytest.raises(HalError, match=row.words):
        level_of(row.operation, row.inputs, *row.operands)
        dimensions(row)
        if known:
            compute(row.operation, row.inputs, *(_undeclared(each) for each in row.operands))


@pytest.mark.parametrize("row", [row for row in ROWS if "rank 5" in row.words and row.operation in CURVES], ids=name_of)
def test_a_rank_that_becomes_known_late_is_checked_late(row: Row) -> None:
    with pytest.raises(HalError, match=row.words):
        dimensions(row)


@of(Verb.GIVES)
def test_kernels_compute_the_values(row: Row) -> None:
    for form in filter(None, (row, channels_first(row))):
        results = compute(form.operation, form.inputs, *(_undeclared(each) for each in form.operands))
        for got, expected in zip(results, form.outputs, strict=True):
            assert_near(got, expected, row.near)


@of(Verb.GIVES)
def test_values_are_the_same_in_float16(row: Row) -> None:
    form = in_halves(row)
    if form is None or not _is_valid(form):
        pytest.skip("no form in float16")
    results = compute(form.operation, form.inputs, *(_undeclared(each) for each in form.operands))
    for got, expected in zip(results, form.outputs, strict=True):
        assert_near(got, expected, max(row.near, HALF) if got.dtype == np.float16 else row.near)


def _is_valid(row: Row) -> bool:
    try:
        level_of(row.operation, row.inputs, *row.operands)
    except HalError:
        return False
    return True


@of(Verb.GIVES)
def test_cpu_ref_gives_the_values_of_a_model(row: Row) -> None:
    for relaxed in (False, True):
        model, inputs = model_of(row, values_of(row), relaxed=relaxed)
        for got, expected in zip(run_on(CpuRef(), model, *inputs), row.outputs, strict=True):
            assert_near(got, expected, row.near)


def assert_near(got: Array, given: Given, near: float) -> None:
    """Check values; of an output without any only the dimensions."""
    expected = given.value
    if expected is None:
        assert got.shape == given.operand.dimensions
        return
    assert got.shape == expected.shape
    if expected.dtype.kind == "f" and got.dtype.kind != "f":
        assert np.abs(got - expected).max(initial=0) <= 0.5 + 2.0**-6
    elif near and got.dtype.kind == "f":
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), near, near)
    else:
        np.testing.assert_array_equal(got, expected)
