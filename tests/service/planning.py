"""Models and devices for tests of the partitioner: graphs and made-up figures, without kernels or processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from random import Random

from nnhal.types import (
    Capabilities,
    Model,
    Operand,
    OperandLifeTime,
    OperandPerformance,
    OperandType,
    Operation,
    OperationType,
    PerformanceInfo,
    Subgraph,
)
from nnhal.types.layout import Dimensions
from nnhal_service.partition import Candidate, EdgeNs, Plan, Task
from nnhal_service.partition.grow import dependencies, grow
from nnhal_service.partition.problem import Problem, problem_of
from nnhal_service.partition.step_model import plan_of

F32 = OperandType.TENSOR_FLOAT32


def graph_of(reads: Sequence[Sequence[int]], outputs: Sequence[int] = (), inputs: int = 1) -> Model:
    """Return a model with an operation for each entry of ``reads``: the numbers of the values that it reads.

    Values are numbered: first the inputs, then each operation's result. The outputs are the results of the operations
    ``outputs``, and every result that nothing reads. The model cannot be executed; only its graph is meaningful.
    """
    unread = set(range(len(reads))) - {value - inputs for read in reads for value in read}
    written = {inputs + number for number in unread.union(outputs)}
    operands = [
        Operand(
            F32,
            (1 + index % 5,),
            lifetime=OperandLifeTime.SUBGRAPH_INPUT
            if index < inputs
            else OperandLifeTime.SUBGRAPH_OUTPUT
            if index in written
            else OperandLifeTime.TEMPORARY_VARIABLE,
        )
        for index in range(inputs + len(reads))
    ]
    operations = [
        Operation(OperationType.CONCATENATION, tuple(read), (inputs + number,)) for number, read in enumerate(reads)
    ]
    return Model(Subgraph(tuple(operands), tuple(operations), tuple(range(inputs)), tuple(sorted(written))))


def chain_of(operations: int) -> Model:
    """Return a model in which each operation reads the result of the one before."""
    return graph_of([[number] for number in range(operations)])


def random_graph(random: Random, operations: int) -> Model:
    """Return a model in which each operation reads one or two recent values, and some read results are outputs too."""
    inputs = random.randint(1, 2)
    reads = []
    for number in range(inputs, inputs + operations):
        near = range(max(0, number - 4), number)
        reads.append(random.sample(near, min(random.choice((1, 1, 2)), len(near))))
    return graph_of(reads, [number for number in range(operations) if random.random() < 0.15], inputs)


def repeated_block(blocks: int) -> Model:
    """Return blocks of ten operations: branches of one, two, three and two, a join, and a sum with the input."""
    reads: list[list[int]] = []
    source = 0
    for _ in range(blocks):
        first = 1 + len(reads)
        branches = ([source], [source], [first + 1], [source], [first + 3], [first + 4], [source], [first + 6])
        reads += [*branches, [first, first + 2, first + 5, first + 7], [first + 8, source]]
        source = first + 9
    return graph_of(reads)


def split(model: Model, devices: Sequence[str], dimensions: Sequence[Dimensions], order: Sequence[str] = ()) -> Plan:
    """Return the plan of an assignment. ``order`` lists all devices; the default is the order of first operations."""
    ordered = order or tuple(dict.fromkeys(devices))
    groups = grow(dependencies(model.main), [ordered.index(device) for device in devices])
    return plan_of(model, [(ordered[queue], operations) for queue, operations in groups], dimensions)


def device(
    name: str,
    operation_ns: Sequence[float | None] = (),
    hop_ns: float = 0.0,
    sync_ns: float = 0.0,
    refusals: Mapping[int, str] | None = None,
    ratio: float = 1.0,
) -> Candidate:
    """Return a device with a cost model; ``ratio`` is its performance in NNAPI's terms, for every type."""
    info = PerformanceInfo(ratio, ratio)
    types = (code for code in OperandType if code != OperandType.SUBGRAPH)
    capabilities = Capabilities(info, info, tuple(OperandPerformance(code, info) for code in types), info, info)
    return Candidate(name, capabilities, refusals or {}, tuple(operation_ns), hop_ns, sync_ns)


def made_up(random: Random, model: Model, devices: int, hop_ns: float = 20.0) -> tuple[Task, list[Candidate]]:
    """Return devices ``d0``, ``d1``, …, with random figures of the same order for operations, launches and edges.

    Every device but the first lacks about one operation in six.
    """
    count = len(model.main.operations)
    names = [f"d{number}" for number in range(devices)]
    edges = {ends: (random.uniform(0, 10), random.uniform(0, 0.5)) for ends in product((None, *names), (None, *names))}

    def edge_ns(source: str | None, destination: str | None, size: int) -> float:
        fixed, each = edges[source, destination]
        return fixed + each * size

    candidates = [
        device(
            name,
            [random.uniform(1, 30) if name == "d0" or random.random() > 1 / 6 else None for _ in range(count)],
            hop_ns=random.uniform(0, hop_ns),
            sync_ns=random.uniform(0, hop_ns / 4),
        )
        for name in names
    ]
    return task_of(model, edge_ns), candidates


def task_of(model: Model, edge_ns: EdgeNs, left_ns: EdgeNs | None = None) -> Task:
    """Return the task of a model whose operations come from nodes called op0, op1, …"""
    names = [(f"op{number}",) for number in range(len(model.main.operations))]
    return Task(model, names, [operand.dimensions for operand in model.main.operands], edge_ns, left_ns=left_ns)


def free(source: str | None, destination: str | None, size: int) -> float:
    """Return the cost of an edge that is free."""
    return 0.0


def figures_of(task: Task, candidates: Sequence[Candidate]) -> Problem:
    """Return the problem in which every device may take the operations that it has figures for."""
    able = [[c for c in candidates if c.operation_ns[number]] for number in range(len(task.names))]
    return problem_of(task.model, candidates, able, task.dimensions, task.edge_ns, {}, task.left_ns)
