"""Memory of the NDK's API: the application's own, and memory that is made for certain roles."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

from nnhal.types import Ashmem, MappableFile
from nnhal.types import Memory as SharedMemory
from nnhal_native.ndk.handle import Handle
from nnhal_native.ndk.library import NeuralNetworksError, ResultCode, asked, call, numbers

_PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE


class Memory(Handle):
    """ANeuralNetworksMemory: shared memory of the application, or what ``MemoryDesc.create`` has made.

    The latter is used whole, for its roles only. It holds values once some were copied to it or an execution has
    written it, and none after that has failed.
    """

    def __init__(self, shared: SharedMemory | MemoryDesc) -> None:
        """``shared`` is ashmem or a part of a file.

        Raises NeuralNetworksError: BAD_DATA for another kind, BAD_STATE for a description that is not finished.
        """
        if isinstance(shared, MemoryDesc):
            pointer = asked("Memory_createFromDesc", "ANeuralNetworksMemory*", shared.pointer)
        elif isinstance(shared, Ashmem):
            pointer = _of_file(shared.size, _PROTECTION, shared.descriptor.fileno(), 0)
        elif isinstance(shared, MappableFile):
            pointer = _of_file(shared.length, shared.prot, shared.descriptor.fileno(), shared.offset)
        else:
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"{type(shared).__name__}, expected ashmem or a file")
        super().__init__("Memory", pointer)

    def copy_to(self, destination: Memory) -> None:
        """Copy all values; a destination that was made for roles holds none if that fails.

        Raises BAD_DATA if this memory holds no values, or if sizes, dimensions or types differ.
        """
        call("Memory_copy", self.pointer, destination.pointer)


def _of_file(length: int, protection: int, descriptor: int, offset: int) -> object:
    return asked("Memory_createFromFd", "ANeuralNetworksMemory*", length, protection, descriptor, offset)


class MemoryDesc(Handle):
    """ANeuralNetworksMemoryDesc: the roles of memory.

    Every method raises BAD_STATE if it is called too early or too late, and changes nothing if it fails.
    """

    def __init__(self) -> None:
        super().__init__("MemoryDesc", asked("MemoryDesc_create", "ANeuralNetworksMemoryDesc*"))

    def add_input_role(self, compilation: Handle, index: int, frequency: float) -> None:
        """Add the role of an input of a finished compilation. ``frequency``, above 0 and at most 1, is its likelihood.

        Raises BAD_DATA if the role was added before, the frequency is out of range or the model has no such input; also
        if its type, scale, zero point, extra parameters or dimensions do not agree with those of other roles.
        """
        call("MemoryDesc_addInputRole", self.pointer, compilation.pointer, index, frequency)

    def add_output_role(self, compilation: Handle, index: int, frequency: float) -> None:
        """Add the role of an output. Raises as ``add_input_role``."""
        call("MemoryDesc_addOutputRole", self.pointer, compilation.pointer, index, frequency)

    def set_dimensions(self, dimensions: Sequence[int]) -> None:
        """Narrow the dimensions of its roles; 0 keeps a dimension. Raises BAD_DATA if they cannot be combined."""
        call("MemoryDesc_setDimensions", self.pointer, len(dimensions), numbers(dimensions))

    def finish(self) -> None:
        """End the description. Raises BAD_DATA if it has no role."""
        call("MemoryDesc_finish", self.pointer)

    def create(self) -> Memory:
        """Make memory for the roles. Raises BAD_STATE before ``finish``."""
        return Memory(self)
