"""Parts of a compiled model that a compilation cache keeps: its binaries, how they are joined, what lies in the tiles'
memory while they run, and what they were made of.

The bytes are a magic, a digest of the model and the choices, a digest of a JSON text, its length and that text, then
the binaries, one behind the other.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict, astuple
from itertools import accumulate
from typing import Any

import numpy as np

from nnhal.resolved import ResolvedModel
from nnhal_mlip.compilation import FED, CompiledModel, CompiledStep, ValuePlace
from nnhal_mlip.compiler.memory_map import TileMemoryRange
from nnhal_mlip.options import MlipOptions

_MAGIC = b"nnhal mlip 2\0\0\0\0"
_HEADER = struct.Struct(f"<{len(_MAGIC)}s32s32sQ")


def fingerprint(model: ResolvedModel, options: MlipOptions) -> bytes:
    """Return a digest of all that decides what a model is compiled into. Names do not, nor where constants lie."""
    main = model.model.main
    kinds = [
        (operand.type, operand.dimensions, operand.scale, operand.zero_point, operand.extra_params)
        for operand in main.operands
    ]
    graph = [(operation.type, operation.inputs, operation.outputs) for operation in main.operations]
    ports = (main.input_indexes, main.output_indexes, model.model.relax_computation_float32_to_float16)
    choices = (asdict(options.profile), options.tiles, options.pinned, options.public)
    digest = hashlib.sha256(repr((kinds, graph, ports, choices)).encode())
    for index, values in sorted(model.constants[0].items()):
        digest.update(struct.pack("<QQ", index, values.nbytes))
        digest.update(np.ascontiguousarray(values).data)
    return digest.digest()


def write_artifact(compiled: CompiledModel) -> bytes:
    steps = [
        {"bytes": len(step.binary), "inputs": step.inputs, "memory": [asdict(each) for each in step.memory]}
        for step in compiled.steps
    ]
    text = json.dumps({"steps": steps, "outputs": compiled.outputs}).encode()
    header = _HEADER.pack(_MAGIC, compiled.origin, hashlib.sha256(text).digest(), len(text))
    return b"".join((header, text, *(step.binary for step in compiled.steps)))


def read_artifact(data: bytes, origin: bytes) -> CompiledModel | None:
    """Return the compiled model, None if the bytes are damaged or were made of something else.

    The binaries are not looked at: who loads them checks them.
    """
    if len(data) < _HEADER.size:
        return None
    magic, made_of, digest, length = _HEADER.unpack_from(data)
    text = data[_HEADER.size : _HEADER.size + length]
    if (magic, made_of, digest) != (_MAGIC, origin, hashlib.sha256(text).digest()):
        return None
    try:
        return _read(text, data[_HEADER.size + length :], origin)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _read(text: bytes, binaries: bytes, origin: bytes) -> CompiledModel:
    """Raises ValueError, KeyError, TypeError, OverflowError and RecursionError."""
    described = json.loads(text)
    ends = list(accumulate((int(step["bytes"]) for step in described["steps"]), initial=0))
    if ends[-1] != len(binaries) or ends != sorted(ends):
        raise ValueError(f"binaries of {len(binaries)} bytes, expected {ends[-1]}")
    steps = tuple(
        CompiledStep(
            binaries[ends[number] : ends[number + 1]], _places(step["inputs"], number), _memory(step["memory"])
        )
        for number, step in enumerate(described["steps"])
    )
    return CompiledModel(steps, _places(described["outputs"], len(steps)), origin)


def _places(given: list[list[int]], before: int) -> tuple[ValuePlace, ...]:
    places = tuple(ValuePlace(int(step), int(port)) for step, port in given)
    if any(not FED <= place.step < before or place.port < 0 for place in places):
        raise ValueError(f"values of steps from {FED} to before {before} were expected, got {given}")
    return places


def _memory(given: list[dict[str, Any]]) -> tuple[TileMemoryRange, ...]:
    ranges = tuple(TileMemoryRange(**each) for each in given)
    for each in ranges:
        *numbers, what, _ = astuple(each)
        if any(not isinstance(number, int) or number < 0 for number in numbers) or not isinstance(what, str):
            raise ValueError(f"numbers from 0 on and a text were expected, got {each}")
    return ranges
