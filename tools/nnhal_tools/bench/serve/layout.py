"""Where tensors lie in a shared file: all inputs, then all outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnhal_tools.bench.serve.shared_file import SharedFile
from nnhal_tools.bench.serve.signature import ServedSignature

_ALIGNMENT = 64
Raw = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class SharedRange:
    """A tensor's place in the region."""

    offset: int
    byte_size: int


@dataclass(frozen=True, slots=True)
class SharedTensors:
    """A file with the inputs written into it, and room for the outputs."""

    file: SharedFile
    parts: Mapping[str, SharedRange]


def shared_tensors(inputs: Mapping[str, Raw], signature: ServedSignature, output_bytes: int) -> SharedTensors:
    """Lay them out in a new file. Raises OSError or BenchError."""
    sizes = {name: len(raw) for name, raw in inputs.items()}
    sizes |= {tensor.name: tensor.byte_size(output_bytes) for tensor in signature.outputs}
    parts, end = {}, 0
    for name, size in sizes.items():
        parts[name] = SharedRange(end, size)
        end += -(-max(1, size) // _ALIGNMENT) * _ALIGNMENT
    file = SharedFile(end)
    for name, raw in inputs.items():
        file.write(parts[name].offset, raw)
    return SharedTensors(file, parts)
