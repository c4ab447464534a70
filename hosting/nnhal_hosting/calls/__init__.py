"""Admitting the calls of gRPC: which client has how many threads, and how much memory their messages may take."""

from nnhal_hosting.calls.admission import CallAdmission
from nnhal_hosting.calls.answers import UntakenAnswers
from nnhal_hosting.calls.limits import CallLimits

__all__ = ["CallAdmission", "CallLimits", "UntakenAnswers"]
