"""Valid models that fail, or never end, when they run."""

from __future__ import annotations

from functools import cache

import numpy as np

from nnhal.memory import create_ashmem, open_pool
from nnhal.types import DataLocation, Model, Operand, OperandType, OperationType, Request, RequestArgument
from tests.support.models import Recipe
from tests.support.subgraphs import B8, I32, Program

_ROWS, _COLUMNS = 3, 4


@cache
def lookup_model() -> Model:
    """Return a model that looks up four rows in a table of three."""
    recipe = Recipe()
    lookups = recipe.input(OperandType.TENSOR_INT32, (4,))
    table = recipe.constant(OperandType.TENSOR_FLOAT32, np.zeros((_ROWS, _COLUMNS)))
    found = Operand(OperandType.TENSOR_FLOAT32, (4, _COLUMNS))
    return recipe.build(recipe.operation(OperationType.EMBEDDING_LOOKUP, [lookups, table], found)).model


def lookup_beyond_the_table() -> Request:
    """Return a request to the lookup whose last row is beyond the table."""
    pool = create_ashmem(128)
    open_pool(pool, writable=True).write(0, np.arange(_ROWS + 1, dtype=np.int32).view(np.uint8))
    return Request((RequestArgument(DataLocation(0, 0, 16)),), (RequestArgument(DataLocation(0, 64, 64)),), (pool,))


@cache
def endless_loop() -> Model:
    """Return ``while true: x = x + 1``."""
    program = Program()
    main, condition, body = program.graph(), program.graph(), program.graph()
    count = condition.input()
    condition.returns(condition.operation(OperationType.EQUAL, [count, count], Operand(B8, (1,))))
    body.returns(body.add(body.input(), body.constant([1])))
    inputs = [main.reference(condition), main.reference(body), main.input()]
    main.returns(main.operation(OperationType.WHILE, inputs, Operand(I32, (1,))))
    return program.resolved().model


def request_for_one_number() -> Request:
    """Return a request to the loop."""
    return Request(
        (RequestArgument(DataLocation(0, 0, 4)),), (RequestArgument(DataLocation(0, 4, 4)),), (create_ashmem(8),)
    )
