"""Faults that devices are told to have: what a file of them says, checked."""

from nnhal_hosting.faults.conditions import EXECUTE, LAUNCHES, METHODS, PREPARE, Condition, device_of
from nnhal_hosting.faults.document import (
    MAX_FAULTS,
    Fault,
    FaultDocument,
    FaultDocumentError,
    read_document,
    read_faults_file,
)
from nnhal_hosting.faults.kinds import (
    DEATHS,
    AnswerFault,
    CacheFault,
    DeathFault,
    DelayFault,
    ErrorFault,
    FenceFault,
    HangFault,
    MemoryFault,
    ShapesFault,
    SlowClockFault,
    ValuesFault,
    WithdrawnFault,
)

__all__ = [
    "DEATHS",
    "EXECUTE",
    "LAUNCHES",
    "MAX_FAULTS",
    "METHODS",
    "PREPARE",
    "AnswerFault",
    "CacheFault",
    "Condition",
    "DeathFault",
    "DelayFault",
    "ErrorFault",
    "Fault",
    "FaultDocument",
    "FaultDocumentError",
    "FenceFault",
    "HangFault",
    "MemoryFault",
    "ShapesFault",
    "SlowClockFault",
    "ValuesFault",
    "WithdrawnFault",
    "device_of",
    "read_document",
    "read_faults_file",
]
