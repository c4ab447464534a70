"""Limits of the lists of a request: more than models need, and no more than costs little to decode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from nnhal.errors import invalid_argument

MAX_POOLS = 4096
"""Pools of a request or of a model."""
MAX_ARGUMENTS = 65_536
"""Inputs of a request, and outputs of one."""
MAX_FENCES = 256
"""Fences that one execution waits for; on a launch channel as many as a datagram has descriptors."""
MAX_ROLES = 4096
"""Roles of one buffer, and prepared models that they refer to."""
MAX_HINTS = 1024
"""Hints of a preparation or an execution, and extensions of a request or a model."""
MAX_PINS = 1024
"""Pins of a plan; each is compared with each operation of the model."""
MAX_DEVICES = 256
"""Devices that one request names."""
T = TypeVar("T")


def at_most(most: int, entries: Sequence[T], what: str) -> Sequence[T]:
    """Return the entries of a list; ``what`` names them in messages. Raises INVALID_ARGUMENT if they are more."""
    if len(entries) > most:
        invalid_argument(f"{len(entries)} {what}, expected at most {most}")
    return entries
