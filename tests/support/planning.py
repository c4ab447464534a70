"""Models and devices for the partitioner: the shape of a graph and made-up figures, no kernels and no processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from nnhal_service.partition import Candidate

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
