"""What clients may do, in order."""

from __future__ import annotations

from enum import IntEnum


class AccessRole(IntEnum):
    """What a client may do; a higher role includes the lower ones."""

    NOBODY = 0
    """May ask whether the server is alive."""
    VIEW = 1
    """May also read everything, and changes nothing."""
    INFER = 2
    """May also run models and register memory for that."""
    ADMIN = 3
    """May also change what is served, traced and logged."""
