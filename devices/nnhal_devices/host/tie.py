"""What a request has been tied to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal_devices.driver import Argument
from nnhal_devices.host.device_memory import BufferUses
from nnhal_devices.host.staging import Staged


@dataclass(frozen=True, slots=True)
class Tie:
    """The arguments of a request, where they lie, and which of them are staged or in device memory."""

    inputs: list[Argument]
    outputs: list[Argument]
    staged_inputs: Sequence[Staged]
    staged_outputs: Sequence[Staged]
    uses: BufferUses | None
