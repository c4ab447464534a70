"""Where tensors of a request lie and go, whatever the front."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnhal.arrays import Array
from nnhal.inference.datatypes import raw_from_array
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.request import Parameter
from nnhal_service.v2.backend import Model, SharedMemory
from nnhal_service.v2.classification import classify

SHM_REGION, SHM_BYTE_SIZE, SHM_OFFSET = "shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"
CLASSIFICATION = "classification"
_DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."


@dataclass(frozen=True, slots=True)
class RegionPart:
    """A part of a registered region: where a tensor lies or is to go."""

    name: str
    offset: int
    byte_size: int


@dataclass(frozen=True, slots=True)
class WantedOutput:
    """An output as it was asked for: as its ``classes`` highest elements if above 0, into a region if there is one."""

    name: str
    classes: int = 0
    part: RegionPart | None = None


def refuse(message: str) -> ServingError:
    """INVALID_ARGUMENT."""
    return ServingError(ErrorKind.INVALID_ARGUMENT, message)


def count(parameters: Mapping[str, Parameter], key: str, where: str = "") -> int:
    """A parameter that counts something, 0 where it is not there. ``where`` begins what is said of one that does not.

    Raises INVALID_ARGUMENT.
    """
    value = parameters.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(f"{where}parameter '{key}' is {value!r}, expected an integer")
    if value < 0:
        raise refuse(f"{where}parameter '{key}' is {value}, expected 0 or more")
    return value


def region_part(parameters: Mapping[str, Parameter], what: str) -> RegionPart | None:
    """What the parameters of a tensor say of shared memory, None where they say nothing. Raises INVALID_ARGUMENT."""
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
    where = f"{what}: "
    return RegionPart(name, count(parameters, SHM_OFFSET, where), count(parameters, SHM_BYTE_SIZE, where))


def wanted_output(name: str, parameters: Mapping[str, Parameter]) -> WantedOutput:
    """An output as it was asked for. Raises INVALID_ARGUMENT."""
    what = f"output '{name}'"
    part = region_part(parameters, what)
    classes = count(parameters, CLASSIFICATION, f"{what}: ")
    if classes and part:
        raise refuse(f"{what} cannot set both '{SHM_REGION}' and '{CLASSIFICATION}'")
    return WantedOutput(name, classes, part)


def presented(array: Array, wanted: WantedOutput, model: Model) -> Array:
    """An output as the client wants to see it. Raises INVALID_ARGUMENT."""
    if not wanted.classes:
        return array
    labels = model.labels.get(wanted.name, ())
    return classify(array, wanted.classes, model.max_batch_size > 0, labels, wanted.name)


def read_part(memory: SharedMemory | None, part: RegionPart, owner: str) -> bytes | memoryview:
    """The bytes of an input that lies in shared memory."""
    return enabled(memory).read(part.name, part.offset, part.byte_size, owner)


def write_part(memory: SharedMemory | None, part: RegionPart, array: Array, name: str, owner: str) -> int:
    """Put an output into shared memory; how many bytes it has."""
    raw = raw_from_array(array)
    if len(raw) > part.byte_size:
        raise refuse(
            f"shared memory size specified with the request for output '{name}' ({part.byte_size} bytes) should be at "
            f"least {len(raw)} bytes to hold the results"
        )
    enabled(memory).write(part.name, part.offset, raw, owner)
    return len(raw)


def enabled(memory: SharedMemory | None) -> SharedMemory:
    """The shared memory of clients. Raises UNSUPPORTED where the server was started without."""
    if memory is None:
        raise ServingError(ErrorKind.UNSUPPORTED, _DISABLED)
    return memory
