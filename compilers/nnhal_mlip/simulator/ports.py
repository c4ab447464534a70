"""Inputs and outputs of a run: float32 as a client of the driver has it, or the accelerator's own types.

The driver multiplies by a scale and rounds halves away from zero, with a zero point of 0; float16 it just converts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal_mlip.program.binary import MlipBinary
from nnhal_mlip.program.metadata_blocks import InputBlock, OutputBlock
from nnhal_mlip.program.program import DdrRange, ProgramPort, TensorType
from nnhal_mlip.simulator.arithmetic.rounding import rounded
from nnhal_mlip.simulator.errors import SimulatorInputError
from nnhal_mlip.simulator.memory import ELEMENT_DTYPES, ddr_bytes, is_float


def input_bytes(binary: MlipBinary, inputs: Sequence[Array]) -> Bytes:
    """Return what the inputs of a program hold in DDR.

    Arrays of a port's own type pass as they are; others are floats, which are converted as the metadata say.

    Raises:
        SimulatorInputError: the number, a shape or a type of them is not the program's.
    """
    ports = binary.program.inputs
    if len(inputs) != len(ports):
        raise SimulatorInputError(
            f"{len(inputs)} inputs, expected {len(ports)}: {', '.join(port.name for port in ports)}"
        )
    memory = np.zeros(ddr_bytes(binary.program, DdrRange.INPUTS), np.uint8)
    for port, block, values in zip(ports, binary.metadata.inputs, inputs, strict=True):
        if values.shape != port.shape:
            raise SimulatorInputError(f"the input {port.name} has the shape {values.shape}, expected {port.shape}")
        own = np.ascontiguousarray(_own(port, block, values))
        memory[port.offset : port.offset + port.bytes] = own.reshape(-1).view(np.uint8)
    return memory


def output_arrays(binary: MlipBinary, memory: Bytes) -> tuple[Array, ...]:
    """Return the outputs in the program's own types, from what they hold in DDR. They share its memory."""
    return tuple(
        memory[port.offset : port.offset + port.bytes].view(ELEMENT_DTYPES[port.type]).reshape(port.shape)
        for port in binary.program.outputs
    )


def real_outputs(binary: MlipBinary, raw: Sequence[Array]) -> tuple[Array, ...]:
    """Return outputs as the driver returns them: what the metadata say is converted to float32, the rest as it is."""
    return tuple(_returned(block, values) for block, values in zip(binary.metadata.outputs, raw, strict=True))


def _own(port: ProgramPort, block: InputBlock, values: Array) -> Array:
    """An input in the program's own type."""
    dtype = ELEMENT_DTYPES[port.type]
    if values.dtype == dtype:
        return values
    if block.given != TensorType.FP32 or values.dtype.kind != "f":
        expected = dtype.name if block.given == block.wanted else f"{dtype.name}, or float32"
        raise SimulatorInputError(f"the input {port.name} is {values.dtype}, expected {expected}")
    with np.errstate(over="ignore"):
        reals = values.astype(np.float32)
        if is_float(port.type):
            return reals.astype(dtype)
        if np.isnan(reals).any():
            raise SimulatorInputError(f"the input {port.name} holds NaN, expected numbers")
        return rounded(reals * np.float32(block.scale), dtype)


def _returned(block: OutputBlock, values: Array) -> Array:
    if block.returned != TensorType.FP32:
        return values
    reals = values.astype(np.float32)
    return reals if is_float(TensorType(block.produced)) else reals * np.float32(block.scale)
