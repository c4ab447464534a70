"""Request in the terms of the protocol, over HTTP or gRPC: parameters, outputs and shared memory.

Nothing here reads or writes messages: the V2 servers decode requests into these objects, and encode what comes of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from nnhal.arrays import Array
from nnhal.inference.datatypes import (
    BYTES,
    Datatype,
    TensorError,
    array_from_raw,
    element_count,
    raw_from_array,
    require_bytes,
)
from nnhal_service.access import Charge
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.instances.in_place import LEAST_BYTES
from nnhal_service.serving.requests.client_memory import Place, PlacedTensor, TensorData
from nnhal_service.serving.requests.request import InferenceResponse, Parameter, ShownOutputs
from nnhal_service.v2.backend import ModelBackend, SharedMemory

PRIORITY, TIMEOUT = "priority", "timeout"
SEQUENCE_FLAGS = ("sequence_start", "sequence_end")
SHM_REGION, SHM_BYTE_SIZE, SHM_OFFSET = "shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"
CLASSIFICATION = "classification"
_RESERVED_PREFIX = "triton_"
_NS_PER_US = 1000
_MOST_AXES = 32
"""As many as an array may have."""
_LONGEST_NS = 1 << 62
"""146 years: a deadline after that time still fits into the HAL's 64 bits."""
MOST_STRINGS = 1 << 21
"""The most elements of a tensor of BYTES. To free them takes 50 ns for each, during which nothing else runs."""
STRING_BYTES = 64
"""What an element of BYTES takes beside its characters: an object, and where it is."""
_DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."


class RequestParameters(NamedTuple):
    """The parameters of a request; ``others`` are for the model."""

    priority: int
    timeout_ns: int
    others: Mapping[str, Parameter]


class RegionPart(NamedTuple):
    """A part of a registered region, which holds an input or receives an output."""

    name: str
    offset: int
    byte_size: int


class PlainInput(NamedTuple):
    """An input of numbers whose elements come as they lie in memory: any bytes are valid."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    byte_size: int

    @classmethod
    def of(cls, name: str, kind: Datatype, shape: tuple[int, ...]) -> PlainInput | None:
        """Return None if elements of this kind have to be looked at, or there may be none of them."""
        is_valid = len(shape) <= _MOST_AXES and min(shape, default=1) > 0
        if not kind.item_size or kind.dtype.kind == "b" or not is_valid:
            return None
        return cls(name, kind.dtype, shape, prod(shape) * kind.item_size)


class RequestedOutput(NamedTuple):
    """An output, and the form in which the client wants it."""

    name: str
    classes: int = 0
    """If above 0, this many of its highest elements, as the classification extension writes them."""
    part: RegionPart | None = None
    """The shared memory that receives it; None if the response carries it."""
    binary: bool = True
    """True if HTTP carries it as binary data, not as JSON. gRPC always does."""


@dataclass(slots=True)
class Caller:
    """The client of a request, and the shared memory of clients, None if the server has none."""

    owner: str
    """Whose regions the client may use; see ``SharedMemory``."""
    memory: SharedMemory | None

    @property
    def is_prompt(self) -> bool:
        """Return whether the event loop itself may use the client's regions."""
        return self.memory is not None and self.memory.is_prompt(self.owner)

    def input(self, kind: Datatype, shape: Sequence[int], part: RegionPart, charge: Charge) -> TensorData:
        """An input that lies in shared memory: in its place, or read if devices could not use it there. The charge
        grows by what is read.

        Raises ServingError as SharedMemory, and TensorError as ``array_from_raw``.
        """
        memory = enabled(self.memory)
        # The elements of BYTES and BOOL are checked.
        if kind.item_size and kind.dtype.kind != "b" and part.byte_size >= LEAST_BYTES and len(shape) <= _MOST_AXES:
            place = memory.place(part.name, part.offset, part.byte_size, self.owner)
            require_bytes(kind, shape, part.byte_size)
            return PlacedTensor(kind.dtype, tuple(shape), place)
        charge.copy(part.byte_size + copied_bytes(kind, shape, part.byte_size))
        return array_from_raw(kind, shape, memory.read(part.name, part.offset, part.byte_size, self.owner))

    def output_places(self, outputs: Sequence[RequestedOutput]) -> dict[str, Place]:
        """Return where large outputs are wanted in shared memory. Raises ServingError as SharedMemory."""
        return {
            output.name: enabled(self.memory).place(part.name, part.offset, part.byte_size, self.owner)
            for output in outputs
            if (part := output.part) is not None and part.byte_size >= LEAST_BYTES
        }

    def write(self, part: RegionPart, tensor: TensorData, name: str) -> int:
        """Write the output ``name`` into shared memory, unless a device has, and return its bytes.

        Raises ServingError as SharedMemory.
        """
        if isinstance(tensor, PlacedTensor):
            return tensor.nbytes
        raw = raw_from_array(tensor)
        if len(raw) > part.byte_size:
            raise refuse(
                f"shared memory size specified with the request for output '{name}' ({part.byte_size} bytes) should be "
                f"at least {len(raw)} bytes to hold the results"
            )
        enabled(self.memory).write(part.name, part.offset, raw, self.owner)
        return len(raw)


WITHOUT_REGIONS = Caller("", None)
"""The client of a request that names no regions."""


def is_kept(response: InferenceResponse, outputs: Sequence[RequestedOutput]) -> bool:
    """Return whether the next answer with the same outputs is encoded alike: if all are views of them, as they are."""
    if not isinstance(response.outputs, ShownOutputs) or any(output.part or output.classes for output in outputs):
        return False
    arrays = [array for array in response.outputs.values() if isinstance(array, np.ndarray)]
    are_views = all(array.flags.c_contiguous and array.dtype.isnative and not array.dtype.hasobject for array in arrays)
    return are_views and len(arrays) == len(response.outputs)


def refuse(message: str) -> ServingError:
    """The error for a request that is not valid: INVALID_ARGUMENT."""
    return ServingError(ErrorKind.INVALID_ARGUMENT, message)


def copied_bytes(kind: Datatype, shape: Sequence[int], size: int) -> int:
    """The memory that a tensor takes beside its ``size`` bytes on the wire: that of strings, since numbers are viewed.

    Raises TensorError as ``array_from_raw``, and for more than MOST_STRINGS.
    """
    if kind is not BYTES:
        return 0
    count = element_count(shape)
    if count > MOST_STRINGS:
        raise TensorError(f"shape {list(shape)[:8]} has {count} elements of BYTES, expected {MOST_STRINGS} at the most")
    return size + STRING_BYTES * count


def enabled(memory: SharedMemory | None) -> SharedMemory:
    """The shared memory of clients. Raises UNSUPPORTED if the server was started without it."""
    if memory is None:
        raise ServingError(ErrorKind.UNSUPPORTED, _DISABLED)
    return memory


def request_parameters(given: Mapping[str, Parameter], flags: Collection[str] = ()) -> RequestParameters:
    """The parameters of a request. ``flags`` name booleans that only the V2 server itself uses.

    Raises INVALID_ARGUMENT for a reserved name, or a value of the wrong type.
    """
    others = {}
    for key, value in given.items():
        if (key in flags or key in SEQUENCE_FLAGS) and not isinstance(value, bool):
            raise refuse(f"parameter '{key}' is {value!r}, expected true or false")
        if key in (PRIORITY, TIMEOUT) or key in flags:
            continue
        if key.startswith(_RESERVED_PREFIX):
            raise refuse(f"parameter '{key}': names that begin with '{_RESERVED_PREFIX}' are reserved")
        others[key] = value
    timeout_ns = min(count(given, TIMEOUT) * _NS_PER_US, _LONGEST_NS)
    return RequestParameters(count(given, PRIORITY), timeout_ns, others)


def count(parameters: Mapping[str, Parameter], key: str, of: str = "") -> int:
    """A parameter that is a number of 0 or more; 0 if it is missing. ``of`` begins the message of the error.

    Raises INVALID_ARGUMENT for any other value.
    """
    value = parameters.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(f"{of}parameter '{key}' is {value!r}, expected an integer")
    if value < 0:
        raise refuse(f"{of}parameter '{key}' is {value}, expected 0 or more")
    return value


def region_part(parameters: Mapping[str, Parameter], what: str) -> RegionPart | None:
    """The shared memory that a tensor's parameters name; None if they name none. ``what`` is the tensor, for errors.

    Raises INVALID_ARGUMENT if the parameters are incomplete or not valid.
    """
    name = parameters.get(SHM_REGION)
    if name is None:
        for key in (SHM_BYTE_SIZE, SHM_OFFSET):
            if key in parameters:
                raise refuse(f"{what} has parameter '{key}' without '{SHM_REGION}'")
        return None
    if not isinstance(name, str):
        raise refuse(f"{what}: parameter '{SHM_REGION}' is {name!r}, expected a string")
    if SHM_BYTE_SIZE not in parameters:
        raise refuse(f"{what} has parameter '{SHM_REGION}' without '{SHM_BYTE_SIZE}'")
    of = f"{what}: "
    return RegionPart(name, count(parameters, SHM_OFFSET, of), count(parameters, SHM_BYTE_SIZE, of))


def requested_output(name: str, parameters: Mapping[str, Parameter], binary: bool = True) -> RequestedOutput:
    """An output by its parameters. Raises INVALID_ARGUMENT if they are not valid."""
    what = f"output '{name}'"
    part = region_part(parameters, what)
    classes = count(parameters, CLASSIFICATION, f"{what}: ")
    if classes and part:
        raise refuse(f"{what} cannot set both '{SHM_REGION}' and '{CLASSIFICATION}'")
    return RequestedOutput(name, classes, part, binary)


def presented(array: TensorData, requested: RequestedOutput, model: ModelBackend) -> TensorData:
    """An output, or its classes if the client wants those. Raises INVALID_ARGUMENT if it has no numbers to classify."""
    if not requested.classes or isinstance(array, PlacedTensor):
        return array
    labels = model.labels.get(requested.name, ())
    return classify(array, requested.classes, model.max_batch_size > 0, labels, requested.name)


def classify(array: Array, count: int, batched: bool, labels: Sequence[str], name: str) -> Array:
    """The ``count`` highest elements, or all if there are fewer, as BYTES of shape [count], the highest first.

    Each is "value:index" or "value:index:label". A batched output has those of each item: [batch, count]. Equal
    elements are in the order of their indices. Raises INVALID_ARGUMENT if the elements are not numbers.
    """
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise refuse(f"output {name!r} cannot be classified: its elements are not numbers")
    rows = array.reshape(array.shape[0] if batched and array.ndim else 1, -1) if array.size else array.reshape(0, 0)
    chosen = [_classes(row, count, labels) for row in rows]
    shape = (len(chosen), min(count, rows.shape[1]))
    answer = np.empty(shape, object)
    for number, row in enumerate(chosen):
        answer[number, :] = row
    return answer if batched else answer.reshape(-1)


def _classes(row: Array, count: int, labels: Sequence[str]) -> list[bytes]:
    """The classes of one item. NaN is the lowest value."""
    order = np.argsort(_descending(row), kind="stable")[:count]
    number = "{:d}" if row.dtype.kind in "iu" else "{:f}"
    chosen = zip(order.tolist(), row[order].tolist(), strict=True)
    return [_entry(number.format(value), index, labels) for index, value in chosen]


def _descending(row: Array) -> Array:
    """Keys whose ascending order is the elements' descending order."""
    return ~row if row.dtype.kind in "iu" else -row.astype(np.float64)


def _entry(value: str, index: int, labels: Sequence[str]) -> bytes:
    label = f":{labels[index]}" if index < len(labels) and labels[index] else ""
    return f"{value}:{index}{label}".encode()
