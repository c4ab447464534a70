"""Serving many channels with few threads."""

from nnhal_hosting.polling.pace import Pace
from nnhal_hosting.polling.poller import Poller
from nnhal_hosting.polling.work import Work

__all__ = ["Pace", "Poller", "Work"]
