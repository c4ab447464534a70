"""The language of the tables of ONNX operators: what one node becomes, or why the HAL has no operations for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx.helper import make_node

from nnhal.arrays import Array
from tests.support.onnx_models import onnx_model, random


@dataclass(frozen=True)
class Fed:
    """An input that a run brings: random floats, or values."""

    shape: tuple[int, ...]
    """The dimensions of the values."""
    values: Array | None = None
    """The values; None for random ones."""
    low: float = -2.0
    """The least random value."""
    high: float = 2.0
    """The largest random value."""
    unknown: tuple[int, ...] = ()
    """The axes whose lengths the model leaves open."""


@dataclass(frozen=True)
class OnnxForm:
    """One node, and what becomes of it."""

    op_type: str
    """The operator."""
    inputs: tuple[Fed | Array | None, ...]
    """Inputs of the model, constants, and inputs that are left out."""
    attributes: dict[str, Any]
    """The attributes."""
    expected: list[str]
    """The names of the HAL's operations; after '?' of some that it becomes, or any if none is named."""
    words: str
    """A part of the reason for a refusal, as a regular expression; empty for a form that is imported."""
    opset: int
    """The opset."""
    outputs: int
    """How many outputs the node has."""
    near: float
    """How far floats may be off, relatively and absolutely."""
    fixed: bool
    """Whether it is imported for the shapes of its values."""
    then: str
    """The operator of a node that follows the last output; empty without one."""

    def model(self) -> onnx.ModelProto:
        names = ["" if each is None else f"x{position}" for position, each in enumerate(self.inputs)]
        outputs = [f"y{position}" for position in range(self.outputs)]
        nodes = [make_node(self.op_type, names, outputs, "n", **self.attributes)]
        if self.then:
            nodes.append(make_node(self.then, outputs[-1:], ["z"]))
            outputs = ["z"]
        shapes = {f"x{n}": _declared(each) for n, each in enumerate(self.inputs) if isinstance(each, Fed)}
        constants = {f"x{n}": each for n, each in enumerate(self.inputs) if isinstance(each, np.ndarray)}
        kinds = {name: values.dtype.type for name, values in self.values().items()}
        return onnx_model(nodes, shapes, outputs, constants, self.opset, element_types=kinds)

    def values(self) -> dict[str, Array]:
        return {f"x{n}": _values(each, n) for n, each in enumerate(self.inputs) if isinstance(each, Fed)}

    def shapes(self) -> dict[str, Sequence[int]] | None:
        """Return the shapes that the model is imported for; None for those that it declares."""
        return {name: values.shape for name, values in self.values().items()} if self.fixed else None


def fed(*shape: int, low: float = -2.0, high: float = 2.0, unknown: int | tuple[int, ...] = ()) -> Fed:
    """Return an input of random floats."""
    return Fed(shape, None, low, high, unknown if isinstance(unknown, tuple) else (unknown,))


def given(values: Any, kind: Any = np.float32, unknown: int | tuple[int, ...] = ()) -> Fed:
    """Return an input of values."""
    array = np.array(values).astype(kind)
    return Fed(array.shape, array, unknown=unknown if isinstance(unknown, tuple) else (unknown,))


def held(values: Any, kind: Any = np.int64) -> Array:
    """Return a constant of values."""
    return np.array(values, kind)


def drawn(*shape: int, seed: int = 1, low: float = -2.0) -> Array:
    """Return a constant of random floats."""
    return random(*shape, seed=seed, low=low)


def becomes(
    expected: str,
    op_type: str,
    *inputs: Fed | Array | None,
    opset: int = 21,
    outputs: int = 1,
    near: float = 1e-5,
    fixed: bool = False,
    then: str = "",
    **attributes: Any,
) -> OnnxForm:
    """Say which operations a node becomes; with them cpu_ref computes what ONNX Runtime does."""
    return OnnxForm(op_type, inputs, attributes, expected.split(), "", opset, outputs, near, fixed, then)


def refused(
    words: str,
    op_type: str,
    *inputs: Fed | Array | None,
    opset: int = 21,
    outputs: int = 1,
    **attributes: Any,
) -> OnnxForm:
    """Say why the HAL has no operations for a node."""
    return OnnxForm(op_type, inputs, attributes, [], words, opset, outputs, 0.0, False, "")


def of(**attributes: Any) -> dict[str, Any]:
    return attributes


def _declared(given: Fed) -> list[int | str]:
    return [f"N{axis}" if axis in given.unknown else length for axis, length in enumerate(given.shape)]


def _values(given: Fed, seed: int) -> Array:
    return random(*given.shape, seed=seed, low=given.low, high=given.high) if given.values is None else given.values
