"""The table of all pages."""

from __future__ import annotations

from nnhal_dashboard.pages.devices import page as devices
from nnhal_dashboard.pages.logs import page as logs
from nnhal_dashboard.pages.memory import page as memory
from nnhal_dashboard.pages.metrics import page as metrics
from nnhal_dashboard.pages.models import page as models
from nnhal_dashboard.pages.overview import page as overview
from nnhal_dashboard.pages.runs import page as runs
from nnhal_dashboard.pages.sessions import page as sessions
from nnhal_dashboard.pages.trying import page as trying

PAGES = (
    overview.PAGE,
    devices.PAGE,
    models.PAGE,
    runs.PAGE,
    memory.PAGE,
    sessions.PAGE,
    metrics.PAGE,
    trying.PAGE,
    logs.PAGE,
)
"""In the order of the navigation."""
