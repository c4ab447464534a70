"""The graph of a session as ONNX Runtime has optimised it, which ONNX Runtime writes to files when it compiles."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import BinaryIO, NamedTuple, Self

import numpy as np
import onnxruntime
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from nnhal.arrays import Array
from nnhal_devices.cpu_acc.proto import external

INLINE_BYTES = 1024
"""Constants up to this size go into a message; larger ones are handed over by reference."""


class SplitGraph(NamedTuple):
    """A serialised ModelProto, and the values of the initializers whose data it lacks."""

    content: bytes
    weights: Mapping[str, Array]


NO_GRAPH = SplitGraph(b"", {})


class OptimisedFiles:
    """Two files in memory, for the graph and for the data of its large initializers, which nobody has to copy."""

    def __init__(self, options: onnxruntime.SessionOptions) -> None:
        """Have the session that is made with ``options`` write its graph."""
        with ExitStack() as opened:
            self._graph, self._data = (_memory_file(opened, name) for name in ("nnhal-optimised", "nnhal-weights"))
            self._opened = opened.pop_all()
        options.optimized_model_filepath = f"/proc/self/fd/{self._graph.fileno()}"
        # ONNX Runtime looks for this file in the folder of the other.
        for key, value in (("file_name", self._data.fileno()), ("min_size_in_bytes", INLINE_BYTES + 1)):
            options.add_session_config_entry(f"session.optimized_model_external_initializers_{key}", str(value))

    def read(self) -> SplitGraph:
        """Return what was written. The weights are views of the file's memory."""
        proto = ModelProto.FromString(self._graph.read())
        size = os.fstat(self._data.fileno()).st_size
        data = mmap.mmap(self._data.fileno(), size, prot=mmap.PROT_READ) if size else b""
        weights = {}
        for tensor in _elsewhere(proto.graph):
            weights[tensor.name] = _values(tensor, data)
            tensor.CopyFrom(external(tensor.name, tensor.data_type, tensor.dims))
        for tensor in _inside(proto.graph):  # a session is not given these from elsewhere
            tensor.CopyFrom(numpy_helper.from_array(_values(tensor, data), tensor.name))
        return SplitGraph(proto.SerializeToString(), weights)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


def _memory_file(opened: ExitStack, name: str) -> BinaryIO:
    return opened.enter_context(os.fdopen(os.memfd_create(name), "rb"))


def _elsewhere(graph: GraphProto) -> Iterator[TensorProto]:
    """The initializers of a graph whose data is in the other file."""
    return (tensor for tensor in graph.initializer if tensor.data_location == TensorProto.EXTERNAL)


def _inside(graph: GraphProto) -> Iterator[TensorProto]:
    """Return the names inside the graphs of its nodes."""
    for node in graph.node:
        for attribute in node.attribute:
            for branch in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _elsewhere(branch)
                yield from _inside(branch)


def _values(tensor: TensorProto, data: mmap.mmap | bytes) -> Array:
    place = {entry.key: entry.value for entry in tensor.external_data}
    start, length = int(place["offset"]), int(place["length"])
    kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return np.frombuffer(data, np.uint8, length, start).view(kind).reshape(tuple(tensor.dims))
