"""Connecting, for asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import grpc

from nnhal_client.aio.framework import AsyncFramework
from nnhal_client.aio.v2 import AsyncV2Server
from nnhal_client.connecting import ServerAddress, target_of
from nnhal_client.connecting import connect as connect_blocking
from nnhal_client.core.model_runs import CONCURRENCY
from nnhal_client.framework import Framework


@asynccontextmanager
async def connect(
    target: str | os.PathLike[str],
    *,
    token: str = "",
    credentials: grpc.ChannelCredentials | None = None,
    native: bool = True,
    concurrency: int = CONCURRENCY,
) -> AsyncGenerator[AsyncFramework | AsyncV2Server]:
    """A session with a server, as ``nnhal_client.connect``, for one event loop."""
    found = target_of(target, credentials)
    blocking = await asyncio.to_thread(
        connect_blocking,
        os.fspath(target),
        token=token,
        credentials=credentials,
        native=native,
        concurrency=concurrency,
    )
    if isinstance(blocking, Framework):
        session: AsyncFramework | AsyncV2Server = AsyncFramework(blocking, concurrency)
    else:
        blocking.close()
        if not isinstance(found, ServerAddress):
            raise TypeError(f"a server answered at the directory {found}")
        session = AsyncV2Server(found.address, token, found.credentials, concurrency)
    try:
        yield session
    finally:
        await session.close()
