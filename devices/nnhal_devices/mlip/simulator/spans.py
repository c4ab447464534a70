"""Whether what a program reads and writes lies in the memory."""

from __future__ import annotations

from nnhal_devices.mlip.program.program import OCM_BYTES, OcmView, Strided
from nnhal_devices.mlip.simulator.elements import ELEMENT_DTYPES
from nnhal_devices.mlip.simulator.errors import ProgramFaultError


def check_pieces(bytes_: Strided, size: int, memory: str, written: bool) -> None:
    """Check that pieces lie in a memory of ``size`` bytes, and that those that are written do not overlap."""
    start, number, length, stride = bytes_
    if number < 1 or length < 1 or stride < 0 or (written and number > 1 and stride < length):
        raise ProgramFaultError(f"{_words(bytes_)}, expected at least one piece of one byte, which do not overlap")
    end = start + (number - 1) * stride + length
    if start < 0 or end > size:
        raise ProgramFaultError(f"{_words(bytes_)} end at {end}, {memory} has {size} bytes")


def check_within(start: int, floor: int, what: str) -> None:
    """Check that a run writes above the floor that the program names."""
    if start < floor:
        raise ProgramFaultError(f"{what} writes at {start}, expected {floor} or above, the scratch floor")


def check_view(view: OcmView, what: str, written: bool = False) -> None:
    """Check that a tensor lies in OCM, and that no two elements of one that is written share a byte."""
    size = ELEMENT_DTYPES[view.type].itemsize
    reach = [(extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True)]
    low = lowest_of(view)
    high = view.address + sum(each for each in reach if each > 0) + size
    if min(view.shape) < 1 or low < 0 or high > OCM_BYTES:
        raise ProgramFaultError(f"{what} of shape {view.shape} at {low} to {high}, OCM has {OCM_BYTES} bytes")
    if not written:
        return
    inner = size
    for stride, extent in sorted((abs(stride), n) for stride, n in zip(view.strides, view.shape, strict=True) if n > 1):
        if stride < inner:
            raise ProgramFaultError(f"{what} of shape {view.shape} has the strides {view.strides}: elements overlap")
        inner = stride * (extent - 1) + inner


def check_bytes(start: int, size: int, what: str) -> None:
    """Check that bytes lie in OCM."""
    if start < 0 or start + size > OCM_BYTES:
        raise ProgramFaultError(f"{what} at {start} to {start + size}, OCM has {OCM_BYTES} bytes")


def lowest_of(view: OcmView) -> int:
    """Return the lowest address of a tensor."""
    return view.address + sum(
        min((extent - 1) * stride, 0) for extent, stride in zip(view.shape, view.strides, strict=True)
    )


def _words(bytes_: Strided) -> str:
    return f"{bytes_.pieces} pieces of {bytes_.length} bytes from {bytes_.start}, {bytes_.stride} apart,"
