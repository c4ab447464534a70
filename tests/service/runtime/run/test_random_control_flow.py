"""Random programs with nested branches and loops, walked over several devices and run whole on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from nnhal.types import Model, Operand, OperationType
from nnhal_service.partition import Strategy
from tests.support.picky import CPU, Bound, Loader, Picky, serving
from tests.support.subgraphs import I32, INT32, Graph, Program

ADD, MUL, SUB = OperationType.ADD, OperationType.MUL, OperationType.SUB
VALUE = Operand(I32, (2,))
ROUNDS = 3


def random_program(random: Random) -> Model:
    """Return a program with two inputs of two numbers each, and two outputs."""
    program = Program()
    main = program.graph()
    values = [main.input((2,)), main.input((2,))]
    decide(random, program, main, values, depth=2)
    for _ in range(4):
        add_something(random, program, main, values, depth=2)
    repeat(random, program, main, values, depth=2)
    main.returns(*values[-2:])
    return program.model()


def add_something(random: Random, program: Program, graph: Graph, values: list[int], depth: int) -> None:
    """Add an operation on the last value, or control flow if ``depth`` allows it, whose result is a further value."""
    kind = random.choice((compute, compute, decide, repeat) if depth else (compute,))
    kind(random, program, graph, values, depth)


def compute(random: Random, program: Program, graph: Graph, values: list[int], depth: int) -> None:
    code = random.choice((ADD, MUL, SUB))
    operands = [values[-1], random.choice(values), graph.constant(0, INT32)]
    values.append(graph.operation(code, operands, VALUE))


def inner_graph(random: Random, program: Program, inputs: int, depth: int) -> Graph:
    graph = program.graph()
    values = [graph.input((2,)) for _ in range(inputs)]
    compute(random, program, graph, values, 0)
    for _ in range(random.randint(1, 3)):
        add_something(random, program, graph, values, depth - 1)
    return graph.returns(values[-1])


def decide(random: Random, program: Program, graph: Graph, values: list[int], depth: int) -> None:
    """Add an IF whose condition compares the first numbers of two values."""
    numbers = [
        graph.operation(OperationType.SLICE, [value, graph.constant([0]), graph.constant([1])], Operand(I32, (1,)))
        for value in random.choices(values, k=2)
    ]
    given = [graph.constant([random.randint(-9, 9)] * 2), random.choice(values), values[-1]]
    branches = [graph.reference(inner_graph(random, program, len(given), depth)) for _ in range(2)]
    values.append(graph.operation(OperationType.IF, [graph.less(*numbers), *branches, *given], VALUE))


def repeat(random: Random, program: Program, graph: Graph, values: list[int], depth: int) -> None:
    """Add a WHILE of some rounds, which computes from the last round's value and from a value that stays the same."""
    condition, body = program.graph(), program.graph()
    first, _, _ = condition.input((1,)), condition.input((2,)), condition.input((2,))
    condition.returns(condition.less(first, condition.constant([random.randint(0, ROUNDS)])))
    count, inner = body.input((1,)), [body.input((2,)), body.input((2,))]
    compute(random, program, body, inner, 0)
    add_something(random, program, body, inner, depth - 1)
    compute(random, program, body, inner, 0)
    body.returns(body.add(count, body.constant([1])), inner[-1])
    given = [graph.constant([0]), values[-1], random.choice(values)]
    references = [graph.reference(condition), graph.reference(body)]
    loop = graph.operation(OperationType.WHILE, [*references, *given], Operand(I32, (1,)), VALUE)
    values.append(loop + 1)


@pytest.fixture
def load(short_path: Path) -> Iterator[Loader]:
    devices = Picky("adder", (ADD, OperationType.LESS)), Picky("multiplier", (MUL,)), Picky(CPU, ratio=1.0)
    with serving(short_path, *devices) as loader:
        yield loader


def results(load: Loader, model: Model, strategy: Strategy, inputs: Sequence[Sequence[int]]) -> list[list[list[float]]]:
    prepared = load(model, strategy=strategy)
    assert (prepared.plan.walk is not None) == (strategy is Strategy.NNAPI)
    bound = Bound(prepared, [np.zeros(2, np.int32)] * 2, [2, 2])
    found = []
    for values in inputs:
        bound.give(*(np.array([value, -value], np.int32) for value in values))
        assert not bound.run().fell_back
        found.append(bound.outputs())
    bound.close()
    return found


@pytest.mark.slow
@pytest.mark.contract("PT-27", "CF-10")
@pytest.mark.parametrize("seed", range(8))
def test_a_walk_computes_the_same_as_the_whole_model(load: Loader, seed: int) -> None:
    random = Random(seed)
    model = random_program(random)
    inputs = [(random.randint(-5, 5), random.randint(-5, 5)) for _ in range(4)]
    walked = results(load, model, Strategy.NNAPI, inputs)
    assert walked == results(load, model, Strategy.CPU_ONLY, inputs)
