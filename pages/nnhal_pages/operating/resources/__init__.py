"""Resources of a testbed, a module for each kind: commands, pages and the API read and act by these tables."""

from __future__ import annotations

from collections.abc import Mapping

from nnhal_pages.operating.resources.clients import CLIENTS
from nnhal_pages.operating.resources.devices import DEVICES
from nnhal_pages.operating.resources.events import EVENTS, LOGS
from nnhal_pages.operating.resources.faults import FAULTS
from nnhal_pages.operating.resources.memory import BUFFERS, FENCES, POOLS
from nnhal_pages.operating.resources.models import MODELS, PLANS
from nnhal_pages.operating.resources.processes import PROCESSES
from nnhal_pages.operating.resources.runs import EXECUTIONS, RECORDINGS, RUNS
from nnhal_pages.operating.resources.sessions import SESSIONS
from nnhal_pages.operating.table import Resource

_ALL = (
    PROCESSES,
    SESSIONS,
    POOLS,
    BUFFERS,
    EXECUTIONS,
    FENCES,
    DEVICES,
    MODELS,
    PLANS,
    RUNS,
    RECORDINGS,
    CLIENTS,
    EVENTS,
    FAULTS,
    LOGS,
)
RESOURCES: Mapping[str, Resource] = {each.name: each for each in _ALL}
"""In the order in which help lists them."""
