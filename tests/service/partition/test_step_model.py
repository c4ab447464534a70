from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from nnhal.arrays import Array
from nnhal.memory import create_ashmem
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import (
    DataLocation,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Subgraph,
)
from nnhal.validation import validate_model
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.driver import Control
from nnhal_service.partition import Plan, Step, StepError
from tests.service.planning import graph_of, split
from tests.support.additions import ELEMENTS, addition_model, addition_of_constant
from tests.support.models import Recipe
from tests.support.mutations import with_main, with_operand
from tests.support.searching import search

F32 = OperandType.TENSOR_FLOAT32
INPUT, OUTPUT = OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT


def dimensions_of(model: Model) -> list[tuple[int, ...]]:
    return [operand.dimensions for operand in model.main.operands]


def split_as_is(model: Model, devices: Sequence[str]) -> Plan:
    return split(model, devices, dimensions_of(model))


def run(model: Model, inputs: Sequence[Array]) -> list[Array]:
    return Interpreter(ResolvedModel(model, inline_constants(model))).run(0, inputs, Control())


def run_plan(model: Model, plan: Plan, inputs: Sequence[Array]) -> list[Array]:
    """Run a plan step by step, each with only the values among its inputs."""
    values = dict(zip(model.main.input_indexes, inputs, strict=True))
    for step in plan.steps:
        results = run(step.model, [values[operand] for operand in step.inputs])
        values.update(zip(step.outputs, results, strict=True))
    return [values[operand] for operand in model.main.output_indexes]


@dataclass(frozen=True)
class Case:
    """A model, and the device of each of its operations."""

    model: Model
    devices: tuple[str, ...]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Random graphs over up to three devices: values are read often or never, outputs are read by later operations."""
    recipe = Recipe()
    values = [recipe.input(F32, (2,)) for _ in range(draw(st.integers(1, 3)))]
    written = []
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.integers(0, 4)) == 0:
            values.append(recipe.constant(F32, [draw(st.integers(-3, 3)), 1]))
        first, second = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        inputs, code = [first, second, *recipe.integers(0)], OperationType.ADD
        if draw(st.booleans()):
            inputs, code = [first], OperationType.RELU
        result = recipe.operation(code, inputs, Operand(F32, (2,)))
        values.append(result)
        written.append(result)
    outputs = draw(st.lists(st.sampled_from(written), min_size=1, unique=True))
    model = recipe.build(*outputs).model
    devices = draw(st.lists(st.sampled_from("abc"), min_size=len(written), max_size=len(written)))
    try:
        split_as_is(model, devices)
    except StepError:  # a step needs inputs and outputs
        reject()
    return Case(model, tuple(devices))


@search(15)
@given(cases())
def test_every_operation_is_in_one_step_of_its_device_and_after_those_that_it_needs(case: Case) -> None:
    plan = split_as_is(case.model, case.devices)
    order = [operation for step in plan.steps for operation in step.operations]
    assert sorted(order) == list(range(len(case.devices)))
    assert all(case.devices[operation] == step.device for step in plan.steps for operation in step.operations)
    assert all(one.device != next_.device for one, next_ in pairwise(plan.steps))
    available = set(range(len(case.model.main.operands))) - {
        operand for operation in case.model.main.operations for operand in operation.outputs
    }
    for number in order:
        assert available >= set(case.model.main.operations[number].inputs)
        available |= set(case.model.main.operations[number].outputs)


@search(15)
@given(cases())
def test_every_step_is_a_valid_model_whose_inputs_and_outputs_are_those_it_names(case: Case) -> None:
    source = case.model.main.operands
    for step in split_as_is(case.model, case.devices).steps:
        validate_model(step.model)
        main = step.model.main
        for listed, named in ((main.input_indexes, step.inputs), (main.output_indexes, step.outputs)):
            assert len(listed) == len(named) == len(set(named))
            for index, operand in zip(listed, named, strict=True):
                assert replace(main.operands[index], lifetime=source[operand].lifetime) == source[operand]
        inner = [(o.type, len(o.inputs), len(o.outputs)) for o in main.operations]
        outer = [case.model.main.operations[number] for number in step.operations]
        assert inner == [(o.type, len(o.inputs), len(o.outputs)) for o in outer]


@pytest.mark.contract("PT-27")
@search(15)
@given(cases(), st.lists(st.integers(-4, 4), min_size=6, max_size=6))
def test_a_plan_computes_what_the_whole_model_computes(case: Case, numbers: list[int]) -> None:
    pairs = np.array(numbers, np.float32).reshape(3, 2)
    inputs = list(pairs[: len(case.model.main.input_indexes)])
    plan = split_as_is(case.model, case.devices)
    for got, expected in zip(run_plan(case.model, plan, inputs), run(case.model, inputs), strict=True):
        np.testing.assert_array_equal(got, expected, strict=True)


@search(15)
@given(cases())
def test_a_step_reads_what_the_client_gives_or_an_earlier_step_has_written(case: Case) -> None:
    known = set(case.model.main.input_indexes)
    for step in split_as_is(case.model, case.devices).steps:
        assert known.issuperset(step.inputs)
        assert known.isdisjoint(step.outputs)
        known.update(step.outputs)
    assert known.issuperset(case.model.main.output_indexes)


@pytest.mark.contract("PT-01")
def test_a_model_for_one_device_is_one_step_with_the_models_own_inputs_and_outputs() -> None:
    model = addition_model(operations=3)
    (step,) = split_as_is(model, ["cpu"] * 3).steps
    assert (step.device, step.operations) == ("cpu", (0, 1, 2))
    assert (step.inputs, step.outputs) == (model.main.input_indexes, model.main.output_indexes)


def inputs_and_outputs(steps: Sequence[Step]) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    return [(step.device, step.inputs, step.outputs) for step in steps]


@pytest.mark.contract("PT-03")
def test_a_models_own_inputs_come_before_temporaries() -> None:
    recipe = Recipe()
    a, b, c = (recipe.input(F32, (2,)) for _ in range(3))
    none, also_none = recipe.integers(0, 0)
    t = recipe.operation(OperationType.ADD, [a, b, none], Operand(F32, (2,)))
    out = recipe.operation(OperationType.ADD, [t, c, also_none], Operand(F32, (2,)))
    plan = split_as_is(recipe.build(out).model, ["0", "1"])
    assert inputs_and_outputs(plan.steps) == [("0", (a, b), (t,)), ("1", (c, t), (out,))]


@pytest.mark.contract("PT-11")
def test_an_output_that_a_later_step_reads_is_that_steps_input() -> None:
    recipe = Recipe()
    a, b = (recipe.input(F32, (2,)) for _ in range(2))
    (none,) = recipe.integers(0)
    x = recipe.operation(OperationType.ADD, [a, b, none], Operand(F32, (2,)))
    t = recipe.operation(OperationType.RELU, [a], Operand(F32, (2,)))
    out = recipe.operation(OperationType.ADD, [x, t, none], Operand(F32, (2,)))
    model = recipe.build(x, out).model
    plan = split_as_is(model, ["0", "0", "1"])
    assert inputs_and_outputs(plan.steps) == [("0", (a, b), (x, t)), ("1", (t, x), (out,))]
    first, second = plan.steps
    assert [first.model.main.operands[index].lifetime for index in first.model.main.output_indexes] == [OUTPUT] * 2
    assert [second.model.main.operands[index].lifetime for index in second.model.main.input_indexes] == [INPUT] * 2
    inputs = [np.array([1, -2], np.float32), np.array([-3, 5], np.float32)]
    for got, expected in zip(run_plan(model, plan, inputs), run(model, inputs), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.contract("PT-07")
def test_a_chain_that_changes_devices_twice_is_three_steps() -> None:
    plan = split_as_is(addition_model(operations=6), ["D", "D", "C", "C", "D", "D"])
    assert [(step.device, step.operations) for step in plan.steps] == [("D", (0, 1)), ("C", (2, 3)), ("D", (4, 5))]


def test_a_step_takes_everything_of_its_device_that_becomes_ready_on_the_way() -> None:
    """Two chains side by side, of which one waits for the other device."""
    recipe = Recipe()
    a, b = recipe.input(F32, (2,)), recipe.input(F32, (2,))
    first = recipe.operation(OperationType.RELU, [a], Operand(F32, (2,)))
    elsewhere = recipe.operation(OperationType.RELU, [b], Operand(F32, (2,)))
    second = recipe.operation(OperationType.RELU, [first], Operand(F32, (2,)))
    (none,) = recipe.integers(0)
    out = recipe.operation(OperationType.ADD, [second, elsewhere, none], Operand(F32, (2,)))
    plan = split_as_is(recipe.build(out).model, ["x", "y", "x", "x"])
    assert [(step.device, step.operations) for step in plan.steps] == [("y", (1,)), ("x", (0, 2, 3))]


def test_constants_go_with_the_steps_that_read_them_and_no_others() -> None:
    recipe = Recipe()
    a = recipe.input(F32, (2,))
    (none,) = recipe.integers(0)
    big = recipe.constant(F32, np.arange(200).reshape(100, 2))
    small = recipe.constant(F32, [5, 6])
    wide = recipe.operation(OperationType.ADD, [a, small, none], Operand(F32, (2,)))
    out = recipe.operation(OperationType.ADD, [wide, big, none], Operand(F32, (100, 2)))
    model = recipe.build(out).model
    first, second = split_as_is(model, ["0", "1"]).steps
    assert (len(first.model.operand_values), len(second.model.operand_values)) == (4 + 8, 4 + 800)
    assert first.inputs == (a,)


def test_constants_in_pools_stay_where_they_are() -> None:
    pool = create_ashmem(64)
    model = addition_of_constant(pool)
    (step,) = split_as_is(model, ["cpu"]).steps
    assert step.model.pools == (pool,)
    constants = [o for o in step.model.main.operands if o.lifetime == OperandLifeTime.CONSTANT_POOL]
    assert [operand.location for operand in constants] == [model.main.operands[1].location]


def test_dimensions_that_were_found_out_go_into_the_steps() -> None:
    model = with_operand(addition_model(operations=2), 3, dimensions=())
    known = [*dimensions_of(model)]
    known[3] = (ELEMENTS,)
    first, second = split(model, ["0", "1"], known).steps
    assert first.model.main.operands[first.model.main.output_indexes[0]].dimensions == (ELEMENTS,)
    assert second.model.main.operands[second.model.main.input_indexes[1]].dimensions == (ELEMENTS,)


def test_the_source_model_is_left_as_it_was() -> None:
    model = addition_model(operations=2)
    before = replace(model)
    split_as_is(model, ["0", "1"])
    assert model == before


def test_a_relaxed_model_has_relaxed_steps() -> None:
    model = replace(addition_model(operations=2), relax_computation_float32_to_float16=True)
    assert all(s.model.relax_computation_float32_to_float16 for s in split_as_is(model, ["0", "1"]).steps)


def test_an_input_that_nothing_reads_is_in_no_step_of_several() -> None:
    model = addition_model(operations=2)
    unread = Operand(F32, (ELEMENTS,), lifetime=INPUT)
    last = len(model.main.operands)
    model = with_main(model, operands=(*model.main.operands, unread), input_indexes=(last, 0, 1))
    assert [step.inputs for step in split_as_is(model, ["0", "1"]).steps] == [(0, 1), (1, 3)]


@pytest.mark.contract("PT-01")
def test_a_model_for_one_device_goes_there_as_it_is() -> None:
    model = with_operand(addition_model(operations=2), 3, dimensions=())
    known = [operand.dimensions or (ELEMENTS,) for operand in model.main.operands]
    (step,) = split(model, ["cpu", "cpu"], known).steps
    assert step.model is model


@pytest.mark.contract("PT-05")
def test_of_the_devices_that_are_ready_the_last_one_comes_first() -> None:
    model = graph_of([[0, 1], [0, 1], [0, 1], [2, 3], [2]], outputs=[0], inputs=2)
    order = ("1.0", "1.1", "1.2", "1.3")
    steps = split(model, ("1.0", "1.0", "1.1", "1.2", "1.3"), dimensions_of(model), order).steps
    assert inputs_and_outputs(steps) == [
        ("1.1", (0, 1), (4,)),
        ("1.0", (0, 1), (2, 3)),
        ("1.3", (2,), (6,)),
        ("1.2", (3, 2), (5,)),
    ]
    assert [step.downstream for step in steps] == [(), (2,), (), ()]


@pytest.mark.contract("PT-17")
def test_what_reads_constants_only_is_no_step_of_its_own() -> None:
    recipe = Recipe()
    a, fixed = recipe.input(F32, (2,)), recipe.constant(F32, [1, -2])
    folded = recipe.operation(OperationType.RELU, [fixed], Operand(F32, (2,)))
    out = recipe.operation(OperationType.ADD, [a, folded, *recipe.integers(0)], Operand(F32, (2,)))
    model = recipe.build(out).model
    with pytest.raises(StepError, match=r"a step of operation 0 \(RELU\) on 0 has no inputs"):
        split_as_is(model, ["0", "1"])
    assert len(split_as_is(model, ["0", "0"]).steps) == 1


@pytest.mark.contract("PT-18")
def test_what_nothing_reads_is_no_step_of_its_own() -> None:
    recipe = Recipe()
    a = recipe.input(F32, (2,))
    recipe.operation(OperationType.RELU, [a], Operand(F32, (2,)))
    out = recipe.operation(OperationType.TANH, [a], Operand(F32, (2,)))
    model = recipe.build(out).model
    with pytest.raises(StepError, match=r"a step of operation 0 \(RELU\) on 0 has no outputs"):
        split_as_is(model, ["0", "1"])
    assert len(split_as_is(model, ["1", "1"]).steps) == 1


def test_subgraphs_and_their_constants_go_with_the_steps_that_refer_to_them() -> None:
    """An addition, and an IF that takes its sum to one of two subgraphs."""
    addition = addition_model()
    branch = Subgraph(
        (Operand(F32, (ELEMENTS,), lifetime=INPUT), Operand(F32, (ELEMENTS,), lifetime=OUTPUT)),
        (Operation(OperationType.RELU, (0,), (1,)),),
        (0,),
        (1,),
    )
    references = (
        Operand(OperandType.SUBGRAPH, lifetime=OperandLifeTime.SUBGRAPH, location=DataLocation(offset=n))
        for n in range(2)
    )
    operands = (
        *addition.main.operands[:3],
        replace(addition.main.operands[3], lifetime=OperandLifeTime.TEMPORARY_VARIABLE),
        Operand(OperandType.TENSOR_BOOL8, (1,), lifetime=INPUT),
        *references,
        Operand(F32, (ELEMENTS,), lifetime=OUTPUT),
    )
    operations = (*addition.main.operations, Operation(OperationType.IF, (4, 5, 6, 3), (7,)))
    model = replace(addition, main=Subgraph(operands, operations, (0, 1, 4), (7,)), referenced=(branch, branch))
    validate_model(model)
    plan = split_as_is(model, ["0", "1"])
    assert inputs_and_outputs(plan.steps) == [("0", (0, 1), (3,)), ("1", (4, 3), (7,))]
    addition_step, if_step = (step.model for step in plan.steps)
    assert addition_step.referenced == ()
    assert (if_step.referenced, if_step.operand_values) == (model.referenced, model.operand_values)
    for step_model in (addition_step, if_step):
        validate_model(step_model)
