"""A part of a model as a model of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import Subgraph


def part_of(model: ResolvedModel, numbers: Sequence[int]) -> ResolvedModel:
    """Return some operations of main as a model. What other operations compute is an input, what they read an output.

    ``numbers`` are ascending. Operands keep their indexes.
    """
    main = model.model.main
    operands = tuple(
        replace(operand, dimensions=dimensions)
        for operand, dimensions in zip(main.operands, propagate_dimensions(model), strict=True)
    )
    operations = tuple(main.operations[number] for number in numbers)
    made = dict.fromkeys(index for operation in operations for index in operation.outputs)
    read = dict.fromkeys(index for operation in operations for index in operation.inputs)
    fed = tuple(index for index in read if index not in made and index not in model.constants[0])
    taken = set(numbers)
    others = (operation for number, operation in enumerate(main.operations) if number not in taken)
    wanted = {*main.output_indexes, *(index for operation in others for index in operation.inputs)}
    results = tuple(index for index in made if index in wanted)
    part = Subgraph(operands, operations, fed, results)
    return ResolvedModel(replace(model.model, main=part), model.constants, model.names)
