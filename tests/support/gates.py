"""An execution that lasts until its client lets it end."""

from __future__ import annotations

from functools import cache

import numpy as np

from nnhal.memory import create_ashmem, open_pool
from nnhal.types import MAX_LOOP_TIMEOUT_NS, ExecutionConfig, Model, Operand, OperationType, Request
from tests.support.additions import argument
from tests.support.subgraphs import I32, Program

PATIENT = ExecutionConfig(loop_timeout_duration_ns=MAX_LOOP_TIMEOUT_NS)
"""The loop timeout of the model's executions: the longest that is allowed."""


@cache
def gate_model() -> Model:
    """Return a loop that runs while its second input is 0. It ends only on devices that use memory in place."""
    program = Program()
    main, condition, body = (program.graph() for _ in range(3))
    condition.input()
    condition.returns(condition.less(condition.input(), condition.constant([1])))
    count, _ = body.input(), body.input()
    body.returns(body.add(count, body.constant([1])))
    loop = [main.reference(condition), main.reference(body), main.input(), main.input()]
    main.returns(main.operation(OperationType.WHILE, loop, Operand(I32, (1,))))
    return program.model()


class Gate:
    """A request of the model; its execution ends once the gate has been opened."""

    def __init__(self) -> None:
        memory = create_ashmem(12)
        self.request = Request((argument(0, 4), argument(4, 4)), (argument(8, 4),), (memory,))
        self._pool = open_pool(memory, writable=True)

    def open(self) -> None:
        """Let the execution end by setting the second input."""
        self._pool.write(4, np.ones(1, np.int32).view(np.uint8))
