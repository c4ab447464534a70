"""Agreement between operators and processes (see admin.proto)."""

from __future__ import annotations

ADMIN_KEY_METADATA = "nnhal-admin-key"
"""The metadata of a call that carries the process's admin key."""
EXIT_STATUS = 75
"""The exit status of a process that was asked to end so that it is started again: EX_TEMPFAIL of sysexits.h."""
DURATION_BOUNDS_NS = tuple(round(10 ** (4 + step / 4)) for step in range(25))
"""The bounds of the counts in ``ModelCounts.durations``: four to a decade, from 10 microseconds to 10 seconds."""
EVENTS_KEPT = 500
"""The events that a process keeps for those who ask later."""
SUPERVISOR = "supervisor"
"""The directory of a supervisor's own sockets, below that of its processes, and the name of its gRPC socket."""
