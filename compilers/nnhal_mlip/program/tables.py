"""The functions that a tile computes of each result before it is stored: those of its tables.

US patent 11,494,676 describes lookup tables for functions that are not linear behind the registers that hold a block's
results, US 10,997,510 those for tanh and sigmoid: what they compute needs no pass of its own over memory. Which other
functions there are, and that all are exact here, is nnhal's choice; how many entries the tables have is not public.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Array


class TableKind(IntEnum):
    """A function of one number x."""

    NONE = 0
    """x"""
    SIGMOID = 1
    TANH = 2
    SILU = 3
    """x * sigmoid(x)"""
    HARD_SIGMOID = 4
    """alpha * x + beta, within 0 and 1"""
    HARD_SWISH = 5
    """x * hard_sigmoid(x) with 1 / 6 and 1 / 2"""
    GELU = 6
    """x * (1 + erf(x / sqrt(2))) / 2"""
    GELU_TANH = 7
    """GELU, with erf approximated by tanh"""
    LEAKY_RELU = 8
    """x, or alpha * x if x is negative"""
    ERF = 9
    RSQRT = 10
    """1 / sqrt(x + beta); of normalizations, for their variances"""


class TaskTable(NamedTuple):
    """A function with its parameters."""

    kind: TableKind = TableKind.NONE
    alpha: float = 0.0
    beta: float = 0.0


NO_TABLE = TaskTable()


def looked_up(table: TaskTable, values: Array) -> Array:
    """Return the function of each value, in the floats of the values."""
    return values if table.kind is TableKind.NONE else _FUNCTIONS[table.kind](values, table).astype(values.dtype)


def sigmoid(values: Array) -> Array:
    """1 / (1 + exp(-x)), by the hyperbolic tangent, which cannot overflow."""
    half = values.dtype.type(0.5)
    result: Array = half * np.tanh(half * values) + half
    return result


def _hard_sigmoid(values: Array, alpha: float, beta: float) -> Array:
    kind = values.dtype.type
    result: Array = np.clip(kind(alpha) * values + kind(beta), kind(0), kind(1))
    return result


_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun, 7.1.26: within 1.5e-7."""
_ERF_SLOPE = 0.3275911


def _erf(values: Array) -> Array:
    wide = np.abs(values.astype(np.float64))
    at = 1 / (1 + _ERF_SLOPE * wide)
    total = np.zeros_like(at)
    for factor in reversed(_ERF):
        total = (total + factor) * at
    return np.asarray(np.copysign(1 - total * np.exp(-wide * wide), values))


def _gelu_tanh(values: Array) -> Array:
    inner = np.sqrt(2 / np.pi) * (values + 0.044715 * values**3)
    return np.asarray(0.5 * values * (1 + np.tanh(inner)))


_FUNCTIONS: Mapping[TableKind, Callable[[Array, TaskTable], Array]] = MappingProxyType(
    {
        TableKind.SIGMOID: lambda x, _: sigmoid(x),
        TableKind.TANH: lambda x, _: np.tanh(x),
        TableKind.SILU: lambda x, _: x * sigmoid(x),
        TableKind.HARD_SIGMOID: lambda x, table: _hard_sigmoid(x, table.alpha, table.beta),
        TableKind.HARD_SWISH: lambda x, _: x * _hard_sigmoid(x, 1 / 6, 1 / 2),
        TableKind.GELU: lambda x, _: x * (1 + _erf(x / np.sqrt(2))) / 2,
        TableKind.GELU_TANH: lambda x, _: _gelu_tanh(x),
        TableKind.LEAKY_RELU: lambda x, table: np.where(x < 0, x.dtype.type(table.alpha) * x, x),
        TableKind.ERF: lambda x, _: _erf(x),
        TableKind.RSQRT: lambda x, table: 1 / np.sqrt(x + x.dtype.type(table.beta)),
    }
)
