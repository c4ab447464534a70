"""Rows hold on devices: cpu_acc agrees with cpu_ref, or every device says why it takes no part in it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nnhal.arrays import Array
from nnhal.operations.operand_types import FLOATS, QUANT8
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.types import OperationType
from nnhal_cascade.support import supported_operations as by_ethos_u
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_acc.table import TABLE
from nnhal_devices.driver import DriverOptions
from nnhal_devices.ethos_n.support import supported_operations as by_ethos_n
from nnhal_devices.gpu_acc.support import supported_operations as by_gpu_acc
from nnhal_devices.mlip.driver import Mlip
from tests.operations.rows import Row, Verb
from tests.operations.tables import ROWS
from tests.operations.variations import (
    channels_first,
    has_weights,
    is_known,
    model_of,
    name_of,
    rows_of,
    types_of,
    values_of,
    with_open_axes,
)
from tests.support.agreement import assert_agrees
from tests.support.npu import Ask

ACCELERATED = CpuAcc(DriverOptions())
NPUS: tuple[Ask, ...] = (by_ethos_n, by_ethos_u, Mlip(DriverOptions()).supported_operations)


def of(*verbs: Verb) -> pytest.MarkDecorator:
    rows = [row for row in rows_of(ROWS, *verbs) if is_known(row)]
    return pytest.mark.parametrize("row", rows, ids=name_of)


@of(Verb.TAKES)
def test_cpu_acc_agrees_unless_a_row_says_that_it_declines(row: Row) -> None:
    for code, typed in types_of(row):
        for form in filter(None, (typed, channels_first(typed))):
            model, inputs = model_of(form, values_of(form))
            (answer,) = ACCELERATED.supported_operations(model)
            assert (answer == SUPPORTED) == (form.operation in TABLE and code not in typed.declined), answer
            if answer == SUPPORTED:
                assert_agrees(model, *inputs)
            else:
                assert_complete(answer)


@of(Verb.GIVES)
def test_cpu_acc_agrees_on_values_or_declines(row: Row) -> None:
    for form in filter(None, () if row.alone else (row, channels_first(row))):
        agrees_or_declines(*model_of(form, values_of(form)))


@pytest.mark.parametrize("row", [row for row in ROWS if has_weights(row) and is_known(row)], ids=name_of)
def test_weights_may_be_variables(row: Row) -> None:
    for _, typed in types_of(row):
        model, inputs = model_of(typed, values_of(typed), variables=True)
        if row.operation.name == "CONV_2D":
            assert ACCELERATED.supported_operations(model) == [SUPPORTED]
        agrees_or_declines(model, inputs)


@of(Verb.TAKES)
def test_cpu_acc_takes_open_axes_or_declines(row: Row) -> None:
    values = values_of(row)
    for axis, opened in with_open_axes(row):
        if axis and not row.opens:
            break
        model, inputs = model_of(opened, values)
        if row.opens:
            assert ACCELERATED.supported_operations(model) == [SUPPORTED], f"axis {axis}"
        agrees_or_declines(model, inputs)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_cpu_acc_needs_the_size_of_images_to_resize(axis: int) -> None:
    row = next(row for row in ROWS if row.operation == OperationType.RESIZE_NEAREST_NEIGHBOR)
    model, _ = model_of(dict(with_open_axes(row))[axis], values_of(row))
    (answer,) = ACCELERATED.supported_operations(model)
    assert isinstance(answer, Unsupported)
    assert answer.code == "DYN_SHAPE"


def agrees_or_declines(model: ResolvedModel, inputs: Sequence[Array]) -> None:
    (answer,) = ACCELERATED.supported_operations(model)
    if answer == SUPPORTED:
        assert_agrees(model, *inputs)
    else:
        assert_complete(answer)


@of(Verb.TAKES)
def test_gpu_acc_takes_what_cpu_acc_takes_of_floats_and_npus_answer_in_words(row: Row) -> None:
    for code, typed in types_of(row):
        model, _ = model_of(typed, values_of(typed))
        (accelerated,) = ACCELERATED.supported_operations(model)
        (answer,) = by_gpu_acc(model, ACCELERATED)
        axes = max(len(each.operand.dimensions) for each in (*typed.inputs, *typed.outputs))
        is_taken = code in FLOATS or (typed.operation == OperationType.DEQUANTIZE and code in QUANT8)
        if typed.operation != OperationType.CAST:
            assert (answer == SUPPORTED) == (accelerated == SUPPORTED and is_taken and axes <= 4), answer
        for each in (answer, *(ask(model)[0] for ask in NPUS)):
            assert_complete(each)


def assert_complete(answer: Support) -> None:
    """Check that a refusal says what was got and what is allowed."""
    if isinstance(answer, Unsupported):
        assert answer.code
        assert answer.got
        assert answer.allowed
