"""Random flow graphs of everything that the partition looks at."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from tests.support.flow_graphs import GraphOf


def random_flow_graph(seed: int, operations: int = 14) -> FlowGraph:
    """Return a graph with branches, several outputs, layers, and operators that only the host has."""
    return _Growing(seed).grown(operations)


class _Growing:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.g = GraphOf(str(self.random.choice(["NCHW", "NCHW", "NHWC"])), seed)
        batch = int(self.random.choice([1, 1, 1, 2]))
        self.values = [self._image_input(name, batch) for name in ("x", "y")[: self.random.integers(1, 3)]]
        self.used: set[str] = set()

    def grown(self, operations: int) -> FlowGraph:
        makers: list[Callable[[str], str]] = [
            self._conv,
            self._conv,
            self._conv,
            self._normalised,
            self._relu,
            self._relu,
            self._clip,
            self._host,
            self._pool,
            self._pad,
            self._joined,
            self._joined,
            self._flat,
            self._dense,
        ]
        for _ in range(operations):
            data = self._any()
            made = makers[self.random.integers(len(makers))](data)
            if made != data:
                self.values.append(made)
        outputs = [value for value in self.values if value not in self.used and value not in ("x", "y")]
        return self.g.build(*(outputs or self.values[-1:]))

    def _image_input(self, name: str, batch: int) -> str:
        shape = (batch, 4, 8, 8) if self.g.layout == "NCHW" else (batch, 8, 8, 4)
        return self.g.input(*shape, name=name)

    def _any(self) -> str:
        value = self.values[max(0, len(self.values) - 1 - int(self.random.geometric(0.5)) + 1)]
        self.used.add(value)
        return value

    def _is_image(self, data: str) -> bool:
        return len(self.g.shape(data)) == 4

    def _channels(self, data: str) -> int:
        return self.g.shape(data)[self.g.layout.index("C")]

    def _conv(self, data: str) -> str:
        if not self._is_image(data):
            return self.g.dense(data, 6)
        groups = int(self.random.choice([1, 1, 1, self._channels(data), 2]))
        channels = 4 if groups == 1 else self._channels(data)
        made = self.g.conv(data, channels, 3, pad=1, groups=groups if channels % groups == 0 else 1)
        return self.g.bias(made) if self.random.integers(2) else made

    def _normalised(self, data: str) -> str:
        return self.g.batch_norm(data) if self._is_image(data) else data

    def _relu(self, data: str) -> str:
        return self.g.relu(data)

    def _clip(self, data: str) -> str:
        return self.g.clip(data)

    def _host(self, data: str) -> str:
        if self.random.integers(2):
            return self.g.softmax(data)
        return self.g.op(str(self.random.choice(["sigmoid", "tanh", "silu", "gelu"])), data)

    def _pool(self, data: str) -> str:
        if not self._is_image(data):
            return data
        return self.g.max_pool(data, 3, 1, 1) if self.random.integers(2) else self.g.avg_pool(data, 3, 1, 1)

    def _pad(self, data: str) -> str:
        if not self._is_image(data):
            return data
        padded = self.g.pad(data, 1, value=float(self.random.choice([0.0, 0.0, 1.0])))
        return self.g.conv(padded, 4, 3) if self.random.integers(2) else self.g.max_pool(padded, 3, 1)

    def _joined(self, data: str) -> str:
        shape = self.g.shape(data)
        other = self.values[self.random.integers(len(self.values))]
        if self.g.shape(other) == shape and self.random.integers(3):
            self.used.add(other)
            return self.g.op(str(self.random.choice(["add", "add", "multiply"])), data, other)
        if self._is_image(data) and self._is_image(other) and self._channels(data) + self._channels(other) < 16:
            self.used.add(other)
            return self.g.concat(data, other)
        return data

    def _flat(self, data: str) -> str:
        return self.g.flatten(data) if self._is_image(data) and self.random.integers(2) else data

    def _dense(self, data: str) -> str:
        return self.g.dense(self.g.flatten(data) if self._is_image(data) else data, 6)
