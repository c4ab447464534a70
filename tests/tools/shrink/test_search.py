"""Which simpler form of what fails is found: of a case, and of anything that has parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.types import (
    ChannelQuant,
    DataLocation,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Subgraph,
)
from nnhal_tools.shrink import Branch, Case, Search, shrink

Numbers = tuple[int, ...]
FLOAT, INT32 = OperandType.TENSOR_FLOAT32, OperandType.INT32
INPUT, OUTPUT = OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT
TEMPORARY = OperandLifeTime.TEMPORARY_VARIABLE


@dataclass
class Rule:
    """Cases that it is true of fail. Operations compute ones."""

    rule: Callable[[Case], object]
    calls: int = 0

    def fails(self, case: Case) -> bool:
        self.calls += 1
        return bool(self.rule(case))

    def inner_values(self, case: Case) -> Mapping[int, Array]:
        return {operand: np.ones(case.operands[operand].dimensions, np.float32) for operand in case.computed}


def kinds(case: Case) -> list[str]:
    return kinds_of(case.operations)


def has_any(case: Case, words: set[str]) -> bool:
    return not words.isdisjoint(kinds(case))


def kinds_of(operations: Sequence[Operation]) -> list[str]:
    return [OperationType(operation.type).name for operation in operations]


@pytest.fixture
def chain() -> Case:
    """Tanh, logistic and exp of an input [4, 6], one after another."""
    operands = tuple(Operand(FLOAT, (4, 6)) for _ in range(4))
    words = (OperationType.TANH, OperationType.LOGISTIC, OperationType.EXP)
    operations = tuple(Operation(word, (n,), (n + 1,)) for n, word in enumerate(words))
    return Case(operands, operations, (0,), (3,), {0: np.arange(24, dtype=np.float32).reshape(4, 6)})


@pytest.fixture
def layer() -> Case:
    """A fully connected layer of 6 inputs and 5 outputs, quantised for each channel."""
    kind = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    operands = (
        Operand(kind, (2, 6), 0.5, 3),
        Operand(kind, (5, 6), 0.25, 0),
        Operand(OperandType.TENSOR_INT32, (5,), 0.125),
        Operand(INT32),
        Operand(kind, (2, 5), 1.0, 0),
    )
    values: dict[int, Array] = {
        0: np.arange(12, dtype=np.int8).reshape(2, 6),
        1: np.arange(1, 31, dtype=np.int8).reshape(5, 6),
        2: np.arange(1, 6, dtype=np.int32),
        3: np.array(0, np.int32),
    }
    return Case(operands, (Operation(OperationType.FULLY_CONNECTED, (0, 1, 2, 3), (4,)),), (0,), (4,), values)


def test_one_operation_is_left_with_one_element(chain: Case) -> None:
    found = shrink(chain, Rule(lambda case: "LOGISTIC" in kinds(case)))
    assert found is not None
    assert kinds(found.case) == ["LOGISTIC"]
    assert [operand.dimensions for operand in found.case.operands] == [(1, 1), (1, 1)]
    assert found.case.given[0].tolist() == [[0.0]]
    assert found.is_least


def test_what_matters_is_kept(chain: Case) -> None:
    found = shrink(chain, Rule(lambda case: kinds(case)[-2:] == ["LOGISTIC", "EXP"] and case.given[0].max() > 0))
    assert found is not None
    assert kinds(found.case) == ["LOGISTIC", "EXP"]
    assert found.case.given[0].tolist() == [[1.0]]


def test_axes_that_belong_together_are_shortened_together(layer: Case) -> None:
    found = shrink(layer, Rule(lambda case: case.values[1].max() > 20))
    assert found is not None
    dimensions = [operand.dimensions for operand in found.case.operands]
    assert dimensions == [(1, 1), (1, 1), (1,), (), (1, 1)]
    assert found.case.values[0].tolist() == [[3]]
    assert found.case.values[2].tolist() == [0]
    assert found.case.values[3] == 0


def test_scales_of_channels_go_with_them() -> None:
    kind = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    operands = (
        Operand(kind, (1, 2, 2, 1), 0.5, 0),
        Operand(
            OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, (3, 1, 1, 1), extra_params=ChannelQuant((0.5, 0.25, 1.0), 0)
        ),
        Operand(OperandType.TENSOR_INT32, (3,)),
        Operand(INT32),
        Operand(INT32),
        Operand(kind, (1, 2, 2, 3), 1.0, 0),
    )
    values: dict[int, Array] = {
        0: np.ones((1, 2, 2, 1), np.int8),
        1: np.array([1, 2, 9], np.int8).reshape(3, 1, 1, 1),
        2: np.zeros(3, np.int32),
        3: np.array(1, np.int32),
        4: np.array(0, np.int32),
    }
    operation = Operation(OperationType.CONV_2D, (0, 1, 2, 3, 3, 3, 4), (5,))
    case = Case(operands, (operation,), (0,), (5,), values)
    found = shrink(case, Rule(lambda case: 9 in case.values[1]))
    assert found is not None
    assert found.case.operands[1].extra_params == ChannelQuant((1.0,), 0)
    assert found.case.operands[5].dimensions == (1, 1, 1, 1)


def test_all_results_of_an_operation_become_inputs_together() -> None:
    operands = (Operand(FLOAT, (4,)), Operand(INT32), Operand(INT32), *(Operand(FLOAT, (2,)) for _ in range(3)))
    values: dict[int, Array] = {0: np.arange(4, dtype=np.float32), 1: np.array(0, np.int32), 2: np.array(2, np.int32)}
    operations = (Operation(OperationType.SPLIT, (0, 1, 2), (3, 4)), Operation(OperationType.MAXIMUM, (3, 4), (5,)))
    found = shrink(Case(operands, operations, (0,), (5,), values), Rule(lambda case: "MAXIMUM" in kinds(case)))
    assert found is not None
    assert kinds(found.case) == ["MAXIMUM"]
    assert [array.tolist() for array in found.case.given] == [[0.0], [0.0]]


def test_parameters_become_plain() -> None:
    operands = (Operand(FLOAT, (1, 4, 4, 1)), *(Operand(INT32) for _ in range(6)), Operand(FLOAT, (1, 2, 2, 1)))
    scalars: dict[int, Array] = {n: np.array(value, np.int32) for n, value in enumerate((2, 2, 2, 2, 2, 1), 1)}
    values = {0: np.ones((1, 4, 4, 1), np.float32), **scalars}
    case = Case(operands, (Operation(OperationType.MAX_POOL_2D, tuple(range(7)), (7,)),), (0,), (7,), values)
    found = shrink(case, Rule(lambda case: case.values[4] > 1))
    assert found is not None
    assert [found.case.values[n].item() for n in range(1, 7)] == [1, 1, 1, 2, 1, 0]


def test_dimensions_that_only_an_execution_tells_stay_open() -> None:
    operands = (Operand(FLOAT, (2, 3)), Operand(OperandType.TENSOR_INT32, (1,)), Operand(FLOAT, (3, 2)))
    values: dict[int, Array] = {0: np.ones((2, 3), np.float32), 1: np.array([-1], np.int32)}
    case = Case(operands, (Operation(OperationType.RESHAPE, (0, 1), (2,)),), (0, 1), (2,), values)
    assert not case.has_open_dimensions
    found = shrink(case, Rule(bool))
    assert found is not None
    assert found.case.has_open_dimensions
    assert found.case.given[0].shape == (1, 1)


@pytest.mark.parametrize("word", ["TANH", "EXP"])
def test_a_branch_takes_the_place_of_the_operation_that_runs_it(word: str) -> None:
    """The second branch adds a constant before."""
    graph = Operand(OperandType.SUBGRAPH, lifetime=OperandLifeTime.SUBGRAPH)
    tensor = Operand(FLOAT, (2, 3))
    given, result = (replace(tensor, lifetime=lifetime) for lifetime in (INPUT, OUTPUT))
    plain = Subgraph((given, result), (Operation(OperationType.TANH, (0,), (1,)),), (0,), (1,))
    adding = Subgraph(
        (given, Operand(FLOAT, (3,)), Operand(INT32), replace(tensor, lifetime=TEMPORARY), result),
        (Operation(OperationType.ADD, (0, 1, 2), (3,)), Operation(OperationType.EXP, (3,), (4,))),
        (0,),
        (4,),
    )
    constants: dict[int, Array] = {1: np.ones(3, np.float32), 2: np.array(0, np.int32)}
    operands = (
        Operand(OperandType.TENSOR_BOOL8, (1,)),
        *(replace(graph, location=DataLocation(offset=branch)) for branch in range(2)),
        tensor,
        tensor,
    )
    case = Case(
        operands,
        (Operation(OperationType.IF, (0, 1, 2, 3), (4,)),),
        (0, 3),
        (4,),
        {0: np.ones(1, np.uint8), 3: np.ones((2, 3), np.float32)},
        branches=(Branch(plain, {}), Branch(adding, constants)),
    )

    def fails(form: Case) -> bool:
        return word in [*kinds(form), *(kind for branch in form.branches for kind in kinds_of(branch.graph.operations))]

    found = shrink(case, Rule(fails))
    assert found is not None
    assert kinds(found.case) == [word]
    assert found.case.branches == ()
    assert found.case.given[0].tolist() == [[0.0]]


def test_a_loop_becomes_one_turn_of_it() -> None:
    graph = Operand(OperandType.SUBGRAPH, lifetime=OperandLifeTime.SUBGRAPH)
    tensor, truth = Operand(FLOAT, (2,)), Operand(OperandType.TENSOR_BOOL8, (1,))
    given, result = (replace(tensor, lifetime=lifetime) for lifetime in (INPUT, OUTPUT))
    limit, axis, keep = Operand(FLOAT, (1,)), Operand(OperandType.TENSOR_INT32, (1,)), Operand(OperandType.BOOL)
    condition = Subgraph(
        (given, axis, keep, replace(limit, lifetime=TEMPORARY), limit, replace(truth, lifetime=OUTPUT)),
        (
            Operation(OperationType.REDUCE_MAX, (0, 1, 2), (3,)),
            Operation(OperationType.LESS, (3, 4), (5,)),
        ),
        (0,),
        (5,),
    )
    tested: dict[int, Array] = {1: np.zeros(1, np.int32), 2: np.ones((), np.uint8), 4: np.ones(1, np.float32)}
    body = Subgraph((given, result), (Operation(OperationType.EXP, (0,), (1,)),), (0,), (1,))
    case = Case(
        (*(replace(graph, location=DataLocation(offset=branch)) for branch in range(2)), tensor, tensor),
        (Operation(OperationType.WHILE, (0, 1, 2), (3,)),),
        (2,),
        (3,),
        {2: np.zeros(2, np.float32)},
        branches=(Branch(condition, tested), Branch(body, {})),
    )
    for word in ("EXP", "LESS"):
        found = shrink(case, Rule(partial(has_any, words={"WHILE", word})))
        assert found is not None
        assert kinds(found.case) == [word]


def test_the_search_ends_and_says_that_it_was_ended(chain: Case) -> None:
    rule = Rule(lambda case: "LOGISTIC" in kinds(case))
    found = shrink(chain, rule, most_tries=3)
    assert found is not None
    assert (found.tries, rule.calls, found.is_least) == (3, 3, False)


def test_a_case_that_does_not_fail_is_not_shrunk(chain: Case) -> None:
    assert shrink(chain, Rule(lambda case: not case.operations)) is None


def test_an_invalid_case_is_refused(layer: Case) -> None:
    with pytest.raises(HalError, match="FULLY_CONNECTED"):
        shrink(layer.with_values({2: np.zeros(7, np.int32)}), Rule(bool))


def fewest(search: Search[Numbers], parts: Numbers) -> Numbers:
    return search.fewest(parts, parts, tuple)


@pytest.mark.parametrize("needed", [{0}, {999}, {17, 900}, {1, 2, 3, 500}])
def test_only_the_parts_that_it_takes_are_left(needed: set[int]) -> None:
    search: Search[Numbers] = Search(lambda form: needed <= set(form))
    assert search.least(tuple(range(1000)), [lambda form: fewest(search, form)]) == tuple(sorted(needed))
    assert search.tries < 100


def test_a_single_part_is_left_as_it_is() -> None:
    search: Search[Numbers] = Search(lambda _: True)
    assert fewest(search, (7,)) == (7,)
    assert fewest(search, (7, 8)) in {(7,), (8,)}


def test_no_more_forms_are_tried_than_allowed() -> None:
    tried: list[Numbers] = []

    def fails(form: Numbers) -> bool:
        tried.append(form)
        return 1 in form

    search: Search[Numbers] = Search(fails, most_tries=4)
    left = search.least(tuple(range(1000)), [lambda form: fewest(search, form)])
    assert 1 in left
    assert len(left) < 1000
    assert (len(tried), search.is_over) == (4, True)
    assert not search.try_form((1,))
