"""A model of three steps, and a device for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nnhal.types import Model, Operand, OperandType, OperationType
from tests.support.picky import CPU, Picky
from tests.support.subgraphs import INT32, Program

F32 = OperandType.TENSOR_FLOAT32
ADD, MUL, TANH = OperationType.ADD, OperationType.MUL, OperationType.TANH
X = np.array([0.5, -0.25], np.float32)
EXPECTED = pytest.approx([float(value) for value in np.tanh(2 * X * X)], abs=1e-6)


def add_mul_tanh() -> Model:
    """Return tanh(2 * x * x), which has three steps if each operation has its own device."""
    program = Program()
    main = program.graph()
    x, none = main.input((2,), F32), main.constant(0, INT32)
    doubled = main.operation(ADD, [x, x, none], Operand(F32, (2,)))
    product = main.operation(MUL, [doubled, x, none], Operand(F32, (2,)))
    main.returns(main.operation(TANH, [product], Operand(F32, (2,))))
    return program.model()


def one_device_each() -> list[Picky]:
    return [Picky("add", (ADD,)), Picky("mul", (MUL,)), Picky("tanh", (TANH,)), Picky(CPU, ratio=1.0)]


def runs(devices: Sequence[Picky]) -> list[int]:
    return [device.runs for device in devices]
