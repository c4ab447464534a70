"""Serving many channels with few threads."""

from nnhal_hosting.polling.poller import Poller
from nnhal_hosting.polling.work import Pace, Work

__all__ = ["Pace", "Poller", "Work"]
