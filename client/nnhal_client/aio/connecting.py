"""See nnhal_client.connect."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import grpc

from nnhal_client.aio.native import AsyncFramework
from nnhal_client.aio.v2 import AsyncV2Server
from nnhal_client.connecting import connect as connect_blocking
from nnhal_client.framework import Framework
from nnhal_client.target import Server, target_of

CONCURRENCY = 8


@asynccontextmanager
async def connect(
    target: str | os.PathLike[str],
    *,
    token: str = "",
    credentials: grpc.ChannelCredentials | None = None,
    native: bool = True,
    concurrency: int = CONCURRENCY,
) -> AsyncGenerator[AsyncFramework | AsyncV2Server]:
    """As nnhal_client.connect, for one event loop. Of each model at most ``concurrency`` runs are under way at a time;
    others wait.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}, expected 1 or more")
    found = target_of(target, credentials)
    blocking = await asyncio.to_thread(
        connect_blocking, os.fspath(target), token=token, credentials=credentials, native=native
    )
    if isinstance(blocking, Framework):
        session: AsyncFramework | AsyncV2Server = AsyncFramework(blocking, concurrency)
    else:
        blocking.close()
        if not isinstance(found, Server):
            raise TypeError(f"a server answered at the directory {found}")
        session = AsyncV2Server(found.address, token, found.credentials, concurrency)
    try:
        yield session
    finally:
        await session.close()
