"""Injected faults of devices: what a file of them says, checked.

pydantic checks it, which ``nnhal`` does without: of the language of faults, only the names of calls are there
(``nnhal.device_calls``).
"""

from nnhal_hosting.faults.conditions import Condition, device_of
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
    LayerCondition,
    MemoryFault,
    ShapesFault,
    ShrunkSramFault,
    SlowClockFault,
    ValuesFault,
    WithdrawnFault,
)

__all__ = [
    "DEATHS",
    "MAX_FAULTS",
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
    "LayerCondition",
    "MemoryFault",
    "ShapesFault",
    "ShrunkSramFault",
    "SlowClockFault",
    "ValuesFault",
    "WithdrawnFault",
    "device_of",
    "read_document",
    "read_faults_file",
]
