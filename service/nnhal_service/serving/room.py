"""How much memory a run's outputs get if the model does not know their dimensions."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from nnhal.tensors import GUESS, Tensor
from nnhal.types.layout import Dimensions

Shapes = tuple[Dimensions, ...]
"""The dimensions of all inputs, in the model's order."""


class OutputRoom:
    """Guesses the bytes of open outputs from what they took in earlier runs. Safe to use from several threads.

    An output that took much once must not cost every later run as much: the guess grows with the inputs of the run, as
    most outputs do, and is never more than the most that the output took.
    """

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], has_batch: bool) -> None:
        self._inputs = tuple(inputs)
        self._open = tuple(tensor for tensor in outputs if tensor.is_open)
        self._has_batch = has_batch
        self._lock = threading.Lock()
        self._most = dict.fromkeys((tensor.name for tensor in self._open), 0)
        self._for_each_byte = dict.fromkeys(self._most, 0.0)

    def guess(self, shapes: Shapes) -> dict[str, int]:
        """The bytes of each open output: exact if only its batch axis is unknown."""
        with self._lock:
            return {tensor.name: self._guess(tensor, shapes) for tensor in self._open}

    def least(self, shapes: Shapes) -> dict[str, int]:
        """What the open outputs get if there is no memory for a guess: a run that needs more says so."""
        return {tensor.name: self._exact(tensor, shapes) or GUESS for tensor in self._open}

    def learn(self, shapes: Shapes, taken: Mapping[str, int]) -> None:
        """Note the bytes that open outputs took in a run with inputs of these dimensions."""
        given = self._bytes_of(shapes)
        with self._lock:
            for name, size in taken.items():
                self._most[name] = max(size, self._most[name])
                self._for_each_byte[name] = max(size / given, self._for_each_byte[name])

    def _guess(self, tensor: Tensor, shapes: Shapes) -> int:
        scaled = int(self._for_each_byte[tensor.name] * self._bytes_of(shapes)) + 1
        return self._exact(tensor, shapes) or max(GUESS, min(self._most[tensor.name], scaled))

    def _exact(self, tensor: Tensor, shapes: Shapes) -> int:
        if self._has_batch and tensor.dimensions and 0 not in tensor.dimensions[1:]:
            return tensor.bytes_of((shapes[0][0], *tensor.dimensions[1:]))
        return 0

    def _bytes_of(self, shapes: Shapes) -> int:
        return max(1, sum(tensor.bytes_of(shape) for tensor, shape in zip(self._inputs, shapes, strict=True)))
