"""nnhal_client for asyncio.

from nnhal_client import aio

async with aio.connect("localhost:8001") as server:
    model = await server.open("digits")
    outputs = await model.run({"image": image})
"""

from nnhal_client.aio.binding import AsyncBinding, AsyncLaunchedRun, AsyncV2Binding
from nnhal_client.aio.connecting import connect
from nnhal_client.aio.framework import AsyncFramework
from nnhal_client.aio.memory import AsyncDomainMemory
from nnhal_client.aio.model import AsyncModel
from nnhal_client.aio.v2 import AsyncV2Model, AsyncV2Server

__all__ = [
    "AsyncBinding",
    "AsyncDomainMemory",
    "AsyncFramework",
    "AsyncLaunchedRun",
    "AsyncModel",
    "AsyncV2Binding",
    "AsyncV2Model",
    "AsyncV2Server",
    "connect",
]
