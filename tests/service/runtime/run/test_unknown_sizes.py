"""Values between steps whose size is unknown before they are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.types import ErrorStatus, Model, Operand, OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal_service.partition import Fallback
from nnhal_service.runtime import OutputTooSmallError
from tests.support.picky import CPU, Bound, Loader, Picky, serving
from tests.support.subgraphs import I32, INT32, Program

F32 = OperandType.TENSOR_FLOAT32
PAD, ADD, FILL, RELU, TANH = (
    OperationType.PAD,
    OperationType.ADD,
    OperationType.FILL,
    OperationType.RELU,
    OperationType.TANH,
)
KNOWN, OPEN = (4,), (0,)
X0, X1 = np.array([1, 2], np.float32), np.array([[1, 1]], np.int32)


def padded(x2: Dimensions, x3: Dimensions, x4: Dimensions) -> Model:
    """Return a model with outputs x2 = PAD(x0, x1) and x4 = ADD(x2, PAD(x0, x1)), and given dimensions of results."""
    program = Program()
    main = program.graph()
    x0, x1 = main.input((2,), F32), main.input((1, 2), I32)
    first = main.operation(PAD, [x0, x1], Operand(F32, x2))
    second = main.operation(PAD, [x0, x1], Operand(F32, x3))
    total = main.operation(ADD, [first, second, main.constant(0, INT32)], Operand(F32, x4))
    main.returns(first, total)
    return program.model()


@pytest.fixture
def padding(short_path: Path) -> Iterator[Loader]:
    with serving(short_path, Picky("pad", (PAD,)), Picky("add", (ADD,))) as loader:
        yield loader


@pytest.mark.parametrize(
    ("x2", "x3", "x4", "is_learnt"),
    [
        pytest.param(OPEN, KNOWN, OPEN, False, marks=pytest.mark.contract("DT-01")),
        pytest.param(OPEN, OPEN, OPEN, True, marks=pytest.mark.contract("DT-02")),
        pytest.param(KNOWN, OPEN, KNOWN, True, marks=pytest.mark.contract("DT-03", "DT-04")),
    ],
)
def test_values_of_unknown_size_pass_between_steps(
    padding: Loader, x2: Dimensions, x3: Dimensions, x4: Dimensions, is_learnt: bool
) -> None:
    prepared = padding(padded(x2, x3, x4), Fallback.DENY)
    pad, add = prepared.plan.steps
    assert [pad.device, add.device] == ["pad", "add"]
    assert (pad.outputs, add.inputs) == ((2, 3), (3, 2))
    assert pad.downstream == (2,)
    assert (3 not in prepared.memory.layout.placements) == is_learnt
    bound = Bound(prepared, [X0, X1], [4, 4])
    for _ in range(2):
        report = bound.run()
        assert bound.outputs() == [[0, 1, 2, 0], [0, 2, 4, 0]]
        assert [step.device for step in report.steps] == ["pad", "add"]


@pytest.mark.parametrize(
    ("x3", "elements", "short"),
    [
        pytest.param(OPEN, (3, 3), "out0", marks=pytest.mark.contract("DT-06")),
        pytest.param(KNOWN, (3, 3), "out0", marks=pytest.mark.contract("DT-07")),
        pytest.param(KNOWN, (3, 4), "out0", marks=pytest.mark.contract("DT-08")),
        pytest.param(KNOWN, (4, 3), "out1", marks=pytest.mark.contract("DT-09")),
    ],
)
def test_a_too_small_output_of_the_client_ends_the_run(
    padding: Loader, x3: Dimensions, elements: Sequence[int], short: str
) -> None:
    bound = Bound(padding(padded(OPEN, x3, OPEN)), [X0, X1], elements)
    with pytest.raises(OutputTooSmallError) as caught:
        bound.run()
    assert caught.value.status == ErrorStatus.OUTPUT_INSUFFICIENT_SIZE
    assert [(o.name, o.dimensions) for o in caught.value.outputs if not o.sufficient] == [(short, (4,))]


@pytest.mark.contract("FB-02")
def test_a_too_small_output_of_a_single_step_is_reported_without_fallback(short_path: Path) -> None:
    program = Program()
    main = program.graph()
    main.returns(main.operation(PAD, [main.input((2,), F32), main.input((1, 2), I32)], Operand(F32, OPEN)))
    with serving(short_path, Picky("pad", (PAD,)), Picky(CPU, ratio=1.0)) as load:
        prepared = load(program.model())
        assert [step.device for step in prepared.plan.steps] == ["pad"]
        with pytest.raises(OutputTooSmallError, match="the step on pad") as caught:
            Bound(prepared, [X0, X1], [3]).run()
        assert [output.dimensions for output in caught.value.outputs] == [(4,)]


def filled() -> Model:
    """Return ``FILL(n, 2) + FILL(n, 2)`` on two devices; the input's value is the size."""
    program = Program()
    main = program.graph()
    twos = main.operation(FILL, [main.input(), main.constant(2, INT32)], Operand(I32, (0,)))
    main.returns(main.add(twos, twos, (0,)))
    return program.model()


def count(n: int) -> Array:
    return np.array([n], np.int32)


def test_the_next_run_may_have_values_of_other_sizes(short_path: Path) -> None:
    with serving(short_path, Picky("fill", (FILL,)), Picky("add", (ADD,))) as load:
        bound = Bound(load(filled()), [count(1)], [1000])
        for n in (1, 1000, 3, 500):
            bound.give(count(n))
            report = bound.run()
            assert bound.outputs()[0][:n] == [4] * n
            assert [(output.name, output.dimensions) for output in report.outputs] == [("out0", (n,))]


def test_if_a_value_has_no_elements_the_whole_model_runs_on_the_cpu(short_path: Path) -> None:
    cpu = Picky(CPU, ratio=1.0)
    with serving(short_path, Picky("fill", (FILL,)), Picky("add", (ADD,)), cpu) as load:
        bound = Bound(load(filled()), [count(0)], [1])
        report = bound.run()
        assert [step.device for step in report.steps] == [CPU]
        assert report.fell_back
        assert [output.dimensions for output in report.outputs] == [(0,)]
        denying = Bound(load(filled(), Fallback.DENY), [count(0)], [1])
        with pytest.raises(HalError, match=r"input 0 is empty, .*, expected elements"):
            denying.run()


def open_chain() -> Model:
    """Return ``tanh(relu(x))`` for an unknown number of rows of three."""
    program = Program()
    main = program.graph()
    positive = main.operation(RELU, [main.input((0, 3), F32)], Operand(F32, (0, 3)))
    main.returns(main.operation(TANH, [positive], Operand(F32, (0, 3))))
    return program.model()


def test_input_dimensions_of_a_binding_determine_the_sizes_of_other_values(short_path: Path) -> None:
    with serving(short_path, Picky("relu", (RELU,)), Picky("tanh", (TANH,))) as load:
        prepared = load(open_chain())
        assert prepared.memory.layout.placements == {}
        for rows in (1, 40):
            x = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
            bound = Bound(prepared, [x], [3 * rows], {"in0": (rows, 3), "out0": (rows, 3)})
            bound.run()
            np.testing.assert_allclose(bound.outputs()[0], np.tanh(np.maximum(x, 0)).ravel(), atol=1e-6)
            bound.close()
        with pytest.raises(HalError, match=r"bound with dimensions \[2, 4\], expected \[\?, 3\]") as caught:
            Bound(prepared, [np.zeros((2, 4), np.float32)], [8], {"in0": (2, 4)})
        assert caught.value.status == ErrorStatus.INVALID_ARGUMENT
