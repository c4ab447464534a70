"""nnhal_client: the client library.

import nnhal_client

with nnhal_client.connect("localhost:8001") as server:
    outputs = server.open("digits").run({"image": image})
"""

from nnhal.reports import LedgerEntry, StepReport
from nnhal.tensors import Tensor
from nnhal_client.binding import Binding
from nnhal_client.connecting import connect
from nnhal_client.core.binding_runs import OutputTooSmallError
from nnhal_client.core.native_model import OperationPlacement
from nnhal_client.framework import DeviceInfo, Framework
from nnhal_client.launched import LaunchedRun
from nnhal_client.memory import DomainMemory, MemoryRole
from nnhal_client.model import Model
from nnhal_client.planned import GroupStep, LeftNode, ModelPlan, PlannedGroup
from nnhal_client.reports import RunReport
from nnhal_client.v2 import V2Binding, V2Model, V2Server

__all__ = [
    "Binding",
    "DeviceInfo",
    "DomainMemory",
    "Framework",
    "GroupStep",
    "LaunchedRun",
    "LedgerEntry",
    "LeftNode",
    "MemoryRole",
    "Model",
    "ModelPlan",
    "OperationPlacement",
    "OutputTooSmallError",
    "PlannedGroup",
    "RunReport",
    "StepReport",
    "Tensor",
    "V2Binding",
    "V2Model",
    "V2Server",
    "connect",
]
