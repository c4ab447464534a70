"""The arguments of a request, bound to memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.memory import GuardedRegion
from nnhal_devices.driver import Argument
from nnhal_devices.host.buffer_uses import BufferUses
from nnhal_devices.host.staging import Staged, UsedPool


@dataclass(frozen=True, slots=True)
class BoundArguments:
    """The arguments of a request with their memory."""

    inputs: list[Argument]

    outputs: list[Argument]

    staged_inputs: Sequence[Staged]
    """The inputs that are copied in before a run."""

    staged_outputs: Sequence[Staged]
    """The outputs that are copied out after a run."""

    uses: BufferUses | None
    """The arguments in device memory, if any."""

    guarded: Sequence[GuardedRegion]
    """The mapped files that may shrink, in which arguments lie."""

    pools: Sequence[UsedPool]
    """Those that arguments lie in."""
