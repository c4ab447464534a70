"""Recordings of a device, sent again to another one: what differs, in which call, and from which operation on."""

from nnhal_tools.replay.outcomes import Difference, ReplayReport
from nnhal_tools.replay.replay import ReplayRequest, replay_recording

__all__ = ["Difference", "ReplayReport", "ReplayRequest", "replay_recording"]
