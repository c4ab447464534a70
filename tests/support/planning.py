"""Models and devices for the partitioner: the shape of a graph and made-up figures, no kernels and no processes."""

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
    """One operation for each entry, which reads values by number: first the inputs, then each operation's result.

    The outputs are the results of ``outputs``, by operation, and all that nothing reads. What operations do makes no
    sense; the model is for those who look at its shape.
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
    """Each operation reads the result of the one before."""
    return graph_of([[number] for number in range(operations)])


def random_graph(random: Random, operations: int) -> Model:
    """Each operation reads one or two of the last few values; some results are outputs of the model too."""
    inputs = random.randint(1, 2)
    reads = []
    for number in range(inputs, inputs + operations):
        near = range(max(0, number - 4), number)
        reads.append(random.sample(near, min(random.choice((1, 1, 2)), len(near))))
    return graph_of(reads, [number for number in range(operations) if random.random() < 0.15], inputs)


def repeated_block(blocks: int) -> Model:
    """Blocks of ten operations: branches of one, two, three and two, which are joined, and a sum with what came in."""
    reads: list[list[int]] = []
    source = 0
    for _ in range(blocks):
        first = 1 + len(reads)
        branches = ([source], [source], [first + 1], [source], [first + 3], [first + 4], [source], [first + 6])
        reads += [*branches, [first, first + 2, first + 5, first + 7], [first + 8, source]]
        source = first + 9
    return graph_of(reads)


def split(model: Model, devices: Sequence[str], dimensions: Sequence[Dimensions], order: Sequence[str] = ()) -> Plan:
    """The plan of an assignment. ``order`` is the order of all devices, by default that of their first operations."""
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
    """A device with a cost model; ``ratio`` is its figure in NNAPI's terms, whatever the type."""
    info = PerformanceInfo(ratio, ratio)
    types = (code for code in OperandType if code != OperandType.SUBGRAPH)
    capabilities = Capabilities(info, info, tuple(OperandPerformance(code, info) for code in types), info, info)
    return Candidate(name, capabilities, refusals or {}, tuple(operation_ns), hop_ns, sync_ns)


def made_up(random: Random, model: Model, devices: int, hop_ns: float = 20.0) -> tuple[Task, list[Candidate]]:
    """Devices ``d0``, ``d1``, …, with figures of the same order for operations, launches and edges.

    Every device but the first one lacks one operation in six.
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


def task_of(model: Model, edge_ns: EdgeNs) -> Task:
    """A model whose operations stand for nodes called op0, op1, …"""
    names = [(f"op{number}",) for number in range(len(model.main.operations))]
    return Task(model, names, [operand.dimensions for operand in model.main.operands], edge_ns)


def free(source: str | None, destination: str | None, size: int) -> float:
    """Edges that cost nothing."""
    return 0.0


def figures_of(task: Task, candidates: Sequence[Candidate]) -> Problem:
    """The problem, in which every device may take what it has figures for."""
    able = [[c for c in candidates if c.operation_ns[number]] for number in range(len(task.names))]
    return problem_of(task.model, candidates, able, task.dimensions, task.edge_ns, {})
