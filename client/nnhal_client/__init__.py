"""nnhal_client: the client library and the ``nnhal`` command.

import nnhal_client

with nnhal_client.connect("localhost:8001") as server:
    outputs = server.open("digits").run({"image": image})
"""

from nnhal.reports import LedgerEntry, StepReport
from nnhal.tensors import Tensor
from nnhal_client.binding import Binding
from nnhal_client.connecting import connect
from nnhal_client.framework import Framework
from nnhal_client.memory import DomainMemory, MemoryRole
from nnhal_client.model import Model
from nnhal_client.reports import RunReport
from nnhal_client.v2 import V2Binding, V2Model, V2Server

__all__ = [
    "Binding",
    "DomainMemory",
    "Framework",
    "LedgerEntry",
    "MemoryRole",
    "Model",
    "RunReport",
    "StepReport",
    "Tensor",
    "V2Binding",
    "V2Model",
    "V2Server",
    "connect",
]
