"""A model that a client gives with a call: a file or a model of the HAL, and how it is to be split."""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nnhal.codec.bounds import at_most
from nnhal.descriptor import Descriptor
from nnhal.errors import invalid_argument
from nnhal.memory import CopyBudget, Region
from nnhal.memory.ashmem import is_read_only
from nnhal.memory.file_identity import is_regular
from nnhal.near_names import did_you_mean
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal_frontends import DEFAULT_LIMITS, ImportLimits, ModelFormat, StatePair, import_model, parse_onnx
from nnhal_frontends.content import ModelContent
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.tflite_identifier import is_tflite
from nnhal_frontends.weights_pool import Weights, WeightsPool
from nnhal_service.native.convert import (
    cache_token_from_wire,
    devices_from_wire,
    dimensions_from_wire,
    format_from_wire,
    options_from_wire,
    states_from_wire,
    tensor_dimensions_from_wire,
)
from nnhal_service.native.hal_model import content_of, hal_model_from_wire, import_hal_model
from nnhal_service.native.session import NativeSession
from nnhal_service.runtime import (
    CacheDirectory,
    Fleet,
    LoadedModel,
    LoadTarget,
    OutlinedLoad,
    PlannedModel,
    PlannedNodes,
    ReadModel,
    UntakenNode,
    WholeFile,
    cache_of,
    plan_model,
)
from nnhal_service.runtime.loading.planned_groups import FileParts, GroupPlanner, is_number

if TYPE_CHECKING:
    from nnhal_frontends.tflite import TfliteFile

_MAX_MODEL_BYTES = 2**31 - 1
"""What one protobuf message or flatbuffer can hold, and so one model file."""
_LARGE_BYTES = 8 << 20
"""Files from this size on are copied to large pages."""
_WEIGHTS_FACTOR = 2
"""Copies of other files in memory: one that cannot change, and constants in another layout."""
_MOST_WEIGHTS_FILES = 4096
_LOAD_FACTOR = 3
"""Copies of a model file in memory while it is loaded: its bytes, its message, and its constants in a pool."""


@dataclass(frozen=True, slots=True)
class RequestedModel:
    """A model that a client has given."""

    target: LoadTarget
    imported: ImportedModel | None
    """The model of the HAL; None for a file."""
    content: ModelContent = b""
    format: ModelFormat | None = None
    states: tuple[StatePair, ...] = ()
    shapes: Mapping[str, Dimensions] | None = None
    signature: str | None = None
    limits: ImportLimits = DEFAULT_LIMITS
    weights: Weights = field(default_factory=dict)
    """The other files in which it has values."""
    tensor_dimensions: Mapping[int, Dimensions] = field(default_factory=dict)
    """Dimensions that count instead of those of a TFLite file, by the indices of its tensors."""

    def plan(self) -> PlannedModel:
        """Import it and plan it. Raises as ``plan_model`` does."""
        if self.imported is not None:
            return PlannedModel(self.target, self.target.planner(self.imported))
        return plan_model(self._read, self.target, self.shapes)

    def load(self, as_it_is: bool) -> LoadedModel:
        """Load it; ``as_it_is``, without looking at its operations, if it is a file that one device takes so, or that
        was loaded before.

        Raises as ``plan``, and as ``PlannedModel.load``.
        """
        if not as_it_is or self.imported is not None:
            return self.plan().load(self.target.options.deadline_ns)
        read, shapes = _ReadOnce(self._read), self.shapes or {}
        loaded = None
        if self._is_bare:
            is_onnx = not self.is_tflite_file
            file = WholeFile(self.content, read, self.target, self.limits, is_onnx=is_onnx, weights=self.weights)
            loaded = file.load(shapes)
        return loaded or OutlinedLoad(self.target, read, self.limits, shapes).load()

    def load_as_it_is(self, gives_numbers: bool = False) -> LoadedModel | None:
        """Load a file without looking at its operations; None unless one device takes it so.

        ``gives_numbers`` asks that a part of a client's graph may be such a model: all that passes is numbers, and it
        has as many nodes as a group must have.
        """
        if not self._is_bare or self.is_tflite_file:
            return None
        least = self.target.options.min_nodes_per_partition if gives_numbers else 0

        def accepts(imported: ImportedModel) -> bool:
            values = (*imported.inputs, *imported.outputs)
            return imported.node_count >= least and not (gives_numbers and not all(map(is_number, values)))

        file = WholeFile(self.content, self._read, self.target, self.limits, accepts, weights=self.weights)
        return file.load(self.shapes or {})

    @property
    def _is_bare(self) -> bool:
        """Return whether it is a file without demands on what it is to become, but for the dimensions of its inputs."""
        return self.imported is None and not (self.states or self.signature or self.tensor_dimensions)

    @property
    def _read(self) -> ReadModel:
        return partial(
            import_model,
            self._tflite() if self.tensor_dimensions else self.content,
            ModelFormat.TFLITE if self.tensor_dimensions else self.format,
            limits=self.limits,
            states=self.states,
            signature=self.signature,
            weights=self.weights,
        )

    def plan_groups(
        self, keeps: frozenset[int], operators: Collection[str]
    ) -> tuple[list[PlannedNodes], list[UntakenNode]]:
        """Plan the groups of nodes that devices take, and leave those that the client keeps, or that are none of the
        ``operators`` if some are given.

        Raises as ``GroupPlanner.plan``, and INVALID_ARGUMENT.
        """
        if self.imported is not None:
            invalid_argument("nodes can be left of a file only")
        if self.states:
            invalid_argument("got states for a model of which nodes may be left: a state is within one model")
        shapes, parts = self.shapes or {}, self._parts()
        known = {*parts.operators, *(node.op_type for node in parts.nodes)} if operators else set()
        for name in sorted(set(operators) - known):
            invalid_argument(f"got operator {name!r}, expected one of the file's format{did_you_mean(name, known)}")
        others = {n for n, node in enumerate(parts.nodes) if operators and node.op_type not in operators}
        kept = keeps.union(others)
        return GroupPlanner(parts, self.limits, self.target, shapes, self.weights, self.signature, kept).plan()

    def _parts(self) -> FileParts:
        if self.is_tflite_file:
            from nnhal_frontends.tflite.parts import TfliteParts

            return TfliteParts(self._tflite(), self.signature)
        # A framework without such models does not import what reads ONNX.
        from nnhal_frontends.onnx.parts import OnnxParts

        return OnnxParts(parse_onnx(self.content), self.limits, self.shapes or {}, self.weights)

    @property
    def is_tflite_file(self) -> bool:
        return self.format == ModelFormat.TFLITE if self.format is not None else is_tflite(self.content)

    def _tflite(self) -> TfliteFile:
        from nnhal_frontends.tflite import TfliteFile

        return TfliteFile.read(self.content, self.limits).with_dimensions(self.tensor_dimensions, self.signature)


class _ReadOnce:
    """Imports a model; what it has imported first, it gives once more if the next call asks for the same."""

    def __init__(self, read: ReadModel) -> None:
        self._read = read
        self._calls = 0
        self._first: tuple[object, ImportedModel] | None = None

    def __call__(self, *, shapes: Mapping[str, Dimensions], as_one: bool = False) -> ImportedModel:
        self._calls += 1
        asked, first, self._first = (dict(shapes), as_one), self._first, None
        if first is not None and first[0] == asked:
            return first[1]
        imported = self._read(shapes=shapes, as_one=as_one)
        if self._calls == 1:
            self._first = asked, imported
        return imported


class RequestedModels:
    """Reads the models that clients give."""

    def __init__(self, fleet: Fleet, cache_directory: str, limits: ImportLimits, copies: CopyBudget) -> None:
        """``cache_directory`` is empty for no caching. Files may take what ``copies`` has room for."""
        self._fleet, self._cache_directory, self._limits = fleet, cache_directory, limits
        self.copies = copies

    @contextmanager
    def given(self, session: NativeSession, request: wire.LoadModelRequest) -> Iterator[RequestedModel]:
        """Read a model, whose memory counts as long as the context lasts.

        Raises INVALID_ARGUMENT, and RESOURCE_EXHAUSTED_TRANSIENT if there is no room for it.
        """
        if request.HasField("model"):
            yield self._hal_model(session, request)
            return
        file = session.descriptors.get(request.descriptor_id)
        weights = _weights(session, request)
        size = _LOAD_FACTOR * _size(file) + _WEIGHTS_FACTOR * sum(pool.size for pool in weights.values())
        with self.copies.taken(size, "loading the model file"):
            yield self._file(_content(file), weights, request)

    def _file(self, content: ModelContent, weights: Weights, request: wire.LoadModelRequest) -> RequestedModel:
        cache = self._cache(cache_token_from_wire(request))
        shapes, states = dimensions_from_wire(request.input_dimensions), _states_of(request)
        signature = request.signature or None
        given = tensor_dimensions_from_wire(request.tensor_dimensions)
        cache = cache and cache_of(cache, content, shapes, states, signature, weights)
        if given:
            cache = cache and cache.of_variant(str(sorted(given.items())))
        target = LoadTarget(self._fleet, devices_from_wire(request.devices), options_from_wire(request), cache)
        model_format = format_from_wire(request.format)
        model = RequestedModel(
            target, None, content, model_format, states, shapes, signature, self._limits, weights, given
        )
        if given and not model.is_tflite_file:
            invalid_argument("got dimensions of tensors by their indices, which a file in TFLite has only")
        return model

    def _hal_model(self, session: NativeSession, request: wire.LoadModelRequest) -> RequestedModel:
        if request.descriptor_id:
            invalid_argument("got a model and a file, expected one of them")
        if request.signature:
            invalid_argument(f"got signature '{request.signature[:80]}' for a model of the HAL, which has none")
        if request.states:
            invalid_argument("got states for a model of the HAL, which has inputs and outputs only")
        if request.input_dimensions or request.tensor_dimensions:
            invalid_argument("got dimensions of inputs for a model of the HAL, which gives its own")
        given = hal_model_from_wire(request.model, session.descriptors.get, self.copies)
        cache = self._cache(cache_token_from_wire(request))
        cache = cache and cache.of_content(content_of(request.model, given))
        target = LoadTarget(self._fleet, devices_from_wire(request.devices), options_from_wire(request), cache)
        return RequestedModel(target, import_hal_model(given))

    def _cache(self, token: bytes) -> CacheDirectory | None:
        """Return the place of compilations under a token; clients share the directory, and tokens."""
        return CacheDirectory(Path(self._cache_directory), token) if self._cache_directory and token else None


def _states_of(request: wire.LoadModelRequest) -> tuple[StatePair, ...]:
    """The inputs and outputs that are state, in the dimensions that the request gives."""
    given = dimensions_from_wire(request.input_dimensions)
    return tuple(replace(pair, dimensions=given.get(pair.input, ())) for pair in states_from_wire(request.states))


def _weights(session: NativeSession, request: wire.LoadModelRequest) -> Weights:
    """The other files that a client has handed over. Raises INVALID_ARGUMENT and InvalidModel."""
    found: dict[str, WeightsPool] = {}
    for file in at_most(_MOST_WEIGHTS_FILES, request.weights, "files with weights"):
        if file.location in found:
            invalid_argument(f"got two files for '{file.location}', expected one for each location")
        descriptor = session.descriptors.get(file.descriptor_id)
        if not is_regular(descriptor.fileno()):
            invalid_argument(f"what was handed over for '{file.location}' is no regular file")
        size = _length(descriptor)
        if not size:
            invalid_argument(f"the file for '{file.location}' is empty")
        found[file.location] = WeightsPool(descriptor, size, file.location)
    return found


def _length(descriptor: Descriptor) -> int:
    """The bytes of a file. Raises INVALID_ARGUMENT."""
    try:
        return os.fstat(descriptor.fileno()).st_size
    except OSError as error:
        invalid_argument(f"the model file cannot be read: {error.strerror}")


def _size(descriptor: Descriptor) -> int:
    """The bytes of a model file that a client has handed over. Raises INVALID_ARGUMENT."""
    size = _length(descriptor)
    if not 0 < size <= _MAX_MODEL_BYTES:
        invalid_argument(f"a model file of {size} bytes, expected 1 to {_MAX_MODEL_BYTES}")
    return size


def _content(descriptor: Descriptor) -> ModelContent:
    """A model file's content: in place if it can no longer change, otherwise as it is now. Raises INVALID_ARGUMENT."""
    size = _size(descriptor)
    try:
        if is_read_only(descriptor):
            return Region(descriptor, size, writable=False)
        return os.pread(descriptor.fileno(), size, 0) if size < _LARGE_BYTES else _copy(descriptor, size)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it has another size by now"
        invalid_argument(f"the model file cannot be read: {reason}")


def _copy(descriptor: Descriptor, size: int) -> mmap.mmap:
    """A copy of a file in large pages, which are given in a sixth of the time. Raises OSError and ValueError."""
    copy = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # the kernel has none
        copy.madvise(mmap.MADV_HUGEPAGE)
    with memoryview(copy) as view:
        if descriptor.read_into(view, 0) < size:
            raise ValueError("the file is shorter")
    return copy
