"""The structures of nnhal_backend.h, and models and arguments as they are there."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import c_char_p, c_double, c_float, c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Final

import numpy as np

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel
from nnhal.types import ChannelQuant, Operand
from nnhal.types.layout import Dimensions
from nnhal_devices.driver import Argument

MOST_DIMENSIONS = 8
MOST_WORDS = 256
_MOST_CODE = 32
_MOST_ALIGNMENT = 4096
_Lengths = c_uint32 * MOST_DIMENSIONS
_Indexes = ctypes.POINTER(c_uint32)


class COperand(ctypes.Structure):
    """NnhalOperand."""

    _fields_ = (
        ("type", c_int32),
        ("rank", c_uint32),
        ("dimensions", _Lengths),
        ("scale", c_float),
        ("zero_point", c_int32),
        ("channel_dimension", c_uint32),
        ("channel_count", c_uint32),
        ("channel_scales", ctypes.POINTER(c_float)),
        ("data", c_void_p),
        ("length", c_uint64),
    )


class COperation(ctypes.Structure):
    """NnhalOperation."""

    _fields_ = (
        ("type", c_int32),
        ("input_count", c_uint32),
        ("inputs", _Indexes),
        ("output_count", c_uint32),
        ("outputs", _Indexes),
    )


class CModel(ctypes.Structure):
    """NnhalModel."""

    _fields_ = (
        ("operand_count", c_uint32),
        ("operands", ctypes.POINTER(COperand)),
        ("operation_count", c_uint32),
        ("operations", ctypes.POINTER(COperation)),
        ("input_count", c_uint32),
        ("inputs", _Indexes),
        ("output_count", c_uint32),
        ("outputs", _Indexes),
        ("relaxed", c_int32),
    )


class CArgument(ctypes.Structure):
    """NnhalArgument."""

    _fields_ = (("data", c_void_p), ("length", c_uint64), ("rank", c_uint32), ("dimensions", _Lengths))


class COptions(ctypes.Structure):
    """NnhalOptions."""

    _fields_ = (
        ("threads", c_uint32),
        ("count", c_uint32),
        ("names", ctypes.POINTER(c_char_p)),
        ("values", ctypes.POINTER(c_char_p)),
    )


class CReason(ctypes.Structure):
    """NnhalReason. Its texts are arrays of bytes: one that fills its array has no 0 at its end."""

    _fields_ = (
        ("code", c_uint8 * _MOST_CODE),
        ("got", c_uint8 * MOST_WORDS),
        ("allowed", c_uint8 * MOST_WORDS),
        ("hint", c_uint8 * MOST_WORDS),
    )


class CPreparation(ctypes.Structure):
    """NnhalPreparation."""

    _fields_ = (
        ("preference", c_int32),
        ("priority", c_int32),
        ("deadline_ns", c_int64),
        ("artifact", c_void_p),
        ("artifact_length", c_uint64),
        ("is_cached", c_int32),
    )


class CRunLimits(ctypes.Structure):
    """NnhalRun."""

    _fields_ = (
        ("cancelled", ctypes.POINTER(c_int32)),
        ("deadline_ns", c_int64),
        ("time_on_device_ns", c_int64),
        ("status", c_int32),
        ("words", c_uint8 * MOST_WORDS),
    )


class CGroup(ctypes.Structure):
    """NnhalGroup."""

    _fields_ = (("is_failed", c_int32), ("words", c_uint8 * MOST_WORDS))


class CCosts(ctypes.Structure):
    """NnhalCosts."""

    _fields_ = (("hop_ns", c_double), ("sync_ns", c_double), ("import_ns", c_double), ("copy_ns_per_byte", c_double))


_Model = ctypes.POINTER(CModel)
_Arguments = ctypes.POINTER(CArgument)
_Run = ctypes.CFUNCTYPE(c_int32, c_void_p, _Arguments, _Arguments, ctypes.POINTER(CRunLimits), c_void_p)
_Notice = ctypes.CFUNCTYPE(None, c_void_p, c_uint64)


class CBackend(ctypes.Structure):
    """NnhalBackend."""

    _fields_ = (
        ("size", c_uint64),
        ("self", c_void_p),
        ("version", c_char_p),
        ("device_type", c_int32),
        ("exec_time", c_float),
        ("power_usage", c_float),
        ("is_serial", c_int32),
        ("configure", ctypes.CFUNCTYPE(c_int32, c_void_p, ctypes.POINTER(COptions), c_void_p)),
        ("supports", ctypes.CFUNCTYPE(c_int32, c_void_p, _Model, c_uint32, c_void_p)),
        ("operation_ns", ctypes.CFUNCTYPE(c_double, c_void_p, _Model, c_uint32)),
        ("prepare", ctypes.CFUNCTYPE(c_int32, c_void_p, _Model, ctypes.POINTER(c_void_p), c_void_p)),
        ("run", ctypes.CFUNCTYPE(c_int32, c_void_p, _Arguments, _Arguments, ctypes.POINTER(c_int32), c_void_p)),
        ("release", ctypes.CFUNCTYPE(None, c_void_p)),
        ("alignment", c_uint32),
        ("is_modelled", c_int32),
        ("realisation", c_char_p),
        ("costs", ctypes.POINTER(CCosts)),
        ("assess", ctypes.CFUNCTYPE(c_int32, c_void_p, _Model, c_uint32, ctypes.POINTER(CReason))),
        (
            "optimize",
            ctypes.CFUNCTYPE(c_int32, c_void_p, _Model, ctypes.POINTER(c_uint32), ctypes.POINTER(CGroup), c_void_p),
        ),
        (
            "compile",
            ctypes.CFUNCTYPE(
                c_int32, c_void_p, _Model, ctypes.POINTER(CPreparation), ctypes.POINTER(c_void_p), c_void_p
            ),
        ),
        ("save", ctypes.CFUNCTYPE(c_int32, c_void_p, ctypes.POINTER(c_void_p), ctypes.POINTER(c_uint64))),
        (
            "bind",
            ctypes.CFUNCTYPE(c_int32, c_void_p, _Arguments, _Arguments, ctypes.POINTER(c_void_p), c_void_p),
        ),
        ("unbind", ctypes.CFUNCTYPE(None, c_void_p)),
        ("execute", _Run),
        ("enqueue", _Run),
        ("sync", ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p)),
        ("acquire_memory", ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p)),
        ("release_memory", ctypes.CFUNCTYPE(None, c_void_p)),
        ("before_load_network", _Notice),
        ("after_load_network", _Notice),
        ("before_unload_network", _Notice),
        ("after_unload_network", _Notice),
    )


_REQUIRED = (("supports", "assess"), ("prepare", "compile"), ("run", "execute"), ("release",))
"""The functions of which a backend must have one each."""
_TOGETHER = (("bind", "unbind"), ("enqueue", "sync"), ("acquire_memory", "release_memory"))
"""The functions of which it has both or neither."""


def backend_at(address: int) -> CBackend:
    """Copy a backend, without the members that came after the version that it was made with.

    Raises ValueError if it is not whole.
    """
    size = c_uint64.from_address(address).value
    least = CBackend.alignment.offset
    if size < least:
        raise ValueError(f"BackendFactory returned a structure of {size} bytes, expected at least {least}")
    made = CBackend()
    ctypes.memmove(ctypes.addressof(made), address, min(size, ctypes.sizeof(made)))
    missing = [" or ".join(names) for names in _REQUIRED if not any(getattr(made, name) for name in names)]
    if missing:
        raise ValueError(f"the backend has no function {', '.join(missing)}")
    for names in _TOGETHER:
        had = [bool(getattr(made, name)) for name in names]
        if any(had) and not all(had):
            raise ValueError(f"the backend has no function {names[had.index(False)]}, and has {names[had.index(True)]}")
    if made.enqueue and not made.execute:
        raise ValueError("the backend has no function execute, and has enqueue")
    if not 0 <= made.alignment <= _MOST_ALIGNMENT or made.alignment & (made.alignment - 1):
        raise ValueError(f"alignment is {made.alignment}, expected a power of two of at most {_MOST_ALIGNMENT}")
    return made


class DescribedModel:
    """The main subgraph of a model for C: ``pointer`` is good as long as this object is there."""

    def __init__(self, model: ResolvedModel, dimensions: Sequence[Dimensions]) -> None:
        """``dimensions`` are those of main's operands. Of more than MOST_DIMENSIONS, none is told."""
        main = model.model.main
        self.outputs: Final = [(main.operands[index].type, dimensions[index]) for index in main.output_indexes]
        """The types of the outputs, and their dimensions as far as the model tells them."""
        self._kept: list[object] = []
        operands = (COperand * len(main.operands))()
        for number, (operand, known) in enumerate(zip(main.operands, dimensions, strict=True)):
            self._describe(operands[number], operand, known, model.constants[0].get(number))
        operations = (COperation * len(main.operations))()
        for filled, operation in zip(operations, main.operations, strict=True):
            filled.type = operation.type
            filled.input_count, filled.inputs = self._indexes(operation.inputs)
            filled.output_count, filled.outputs = self._indexes(operation.outputs)
        self.pointer: Final = ctypes.pointer(
            CModel(
                len(operands),
                operands,
                len(operations),
                operations,
                *self._indexes(main.input_indexes),
                *self._indexes(main.output_indexes),
                model.model.relax_computation_float32_to_float16,
            )
        )

    def _describe(self, filled: COperand, operand: Operand, dimensions: Dimensions, constant: Array | None) -> None:
        filled.type = operand.type
        write_dimensions(filled, dimensions)
        filled.scale, filled.zero_point = operand.scale, operand.zero_point
        if isinstance(operand.extra_params, ChannelQuant):
            scales = (c_float * len(operand.extra_params.scales))(*operand.extra_params.scales)
            filled.channel_dimension, filled.channel_count = operand.extra_params.channel_dim, len(scales)
            filled.channel_scales = scales  # the structure keeps the array
        if constant is not None:
            data = np.ascontiguousarray(constant)
            self._kept.append(data)
            filled.data, filled.length = data.ctypes.data, data.nbytes

    def _indexes(self, numbers: Sequence[int]) -> tuple[int, Any]:
        array = (c_uint32 * len(numbers))(*numbers)
        return len(numbers), ctypes.cast(array, _Indexes)  # which keeps the array


def write_dimensions(filled: COperand | CArgument, dimensions: Dimensions) -> None:
    """Write dimensions, unless there are more than C has room for."""
    known = dimensions if len(dimensions) <= MOST_DIMENSIONS else ()
    filled.rank = len(known)
    filled.dimensions[: len(known)] = known


def arguments_of(arguments: Sequence[Argument]) -> Any:
    """Return an array of CArgument. The memory of the arguments must outlive it."""
    filled = (CArgument * len(arguments))()
    for each, argument in zip(filled, arguments, strict=True):
        if argument.data is not None:
            each.data, each.length = argument.data.ctypes.data, argument.data.nbytes
        write_dimensions(each, argument.dimensions)
    return filled


def options_of(threads: int, extra: Mapping[str, str]) -> COptions:
    """Return the options of a device."""
    names = (c_char_p * len(extra))(*(name.encode() for name in extra))
    values = (c_char_p * len(extra))(*(value.encode() for value in extra.values()))
    return COptions(threads, len(extra), names, values)
