"""The memory of domains that a context reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnhal.types.layout import Dimensions
from nnhal_service.runtime.binding import TensorBinding
from nnhal_service.runtime.reports import OutputReport


class UsedMemory:
    """Asked before a run, and told after it. ``dimensions`` are those of main's operands as far as known."""

    def __init__(
        self,
        inputs: Mapping[int, TensorBinding],
        outputs: Mapping[int, TensorBinding],
        dimensions: Sequence[Dimensions],
    ) -> None:
        self._read = [(b.memory, b.dimensions or dimensions[n]) for n, b in inputs.items() if b.memory is not None]
        self._written = [(b.name, b.memory, dimensions[n]) for n, b in outputs.items() if b.memory is not None]

    @property
    def is_empty(self) -> bool:
        """Whether there is none."""
        return not (self._read or self._written)

    def require_usable(self) -> None:
        """Before any device is called. Raises as ``DomainMemory.require_readable`` and ``require_alive``."""
        for memory, dimensions in self._read:
            memory.require_readable(dimensions)
        for _, memory, _ in self._written:
            memory.require_alive()

    def note_written(self, outputs: Sequence[OutputReport]) -> None:
        """A run has ended well, and has said so much of its outputs."""
        if self._written:
            said = {output.name: output.dimensions for output in outputs}
            for name, memory, dimensions in self._written:
                memory.written(said.get(name, dimensions), True)

    def note_failed(self) -> None:
        """A run has failed: its outputs hold nothing that is of use."""
        for _, memory, _ in self._written:
            memory.written((), False)
