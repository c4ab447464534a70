"""The models that one host holds when models do not fit every host."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

from nnhal.errors import NnhalError
from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.forwarding import Forwarder
from nnhal_ray.messages import ProtocolReply

_UNLOADING_SECONDS = 60.0


class ModelNotHeldError(NnhalError):
    """A model that the host could not load; ``reply`` says why."""

    def __init__(self, reply: ProtocolReply) -> None:
        super().__init__(f"{reply.code.name}: {reply.details}")
        self.reply = reply


class HeldModel:
    """A model that the host has loaded. Ray Serve calls ``__del__`` to make room for another."""

    def __init__(self, unload: Callable[[], Future[None]]) -> None:
        """``unload`` begins to unload it in the host's event loop."""
        self._unload: Callable[[], Future[None]] | None = unload
        self._loop_thread = threading.get_ident()
        self.is_loaded = True
        """Whether the host has it, which a client may have had it unload."""

    def __del__(self) -> None:
        unload, self._unload = self._unload, None
        if unload is not None:
            done = unload()
            if threading.get_ident() != self._loop_thread:  # Serve calls it in another thread, and waits for its end
                done.result(_UNLOADING_SECONDS)


class HeldModels:
    """Loads and unloads models of one framework, for one event loop."""

    def __init__(self, forwarder: Forwarder, forget: Callable[[str], None]) -> None:
        """``forget`` is called with the name of a model before it is loaded or unloaded."""
        self._forwarder = forwarder
        self._forget = forget
        self._held: dict[str, HeldModel] = {}

    async def load(self, name: str) -> HeldModel:
        """Load a model. Raises ModelNotHeldError."""
        await self._load(name)
        loop = asyncio.get_running_loop()
        held = HeldModel(lambda: asyncio.run_coroutine_threadsafe(self._unload(name), loop))
        self._held[name] = held
        return held

    def has(self, name: str, held: HeldModel) -> bool:
        """Whether the host has a model still."""
        return held.is_loaded and self._held.get(name) is held

    async def ensure(self, name: str, held: HeldModel) -> None:
        """Load a model again that a client has had the host unload. Raises ModelNotHeldError."""
        if not held.is_loaded:
            await self._load(name)
            held.is_loaded = True

    async def reload(self, name: str) -> ProtocolReply | None:
        """Load a model anew if the host holds it; None if it does not."""
        if name not in self._held:
            return None
        try:
            await self._load(name)
        except ModelNotHeldError as error:
            return error.reply
        self._held[name].is_loaded = True
        return ProtocolReply()

    async def release(self, name: str) -> ProtocolReply | None:
        """Unload a model if the host holds it; None if it does not."""
        held = self._held.get(name)
        if held is None:
            return None
        held.is_loaded = False
        return await self._unloaded(name)

    async def _load(self, name: str) -> None:
        self._forget(name)
        reply = await self._forwarder.ask("RepositoryModelLoad", wire.RepositoryModelLoadRequest(model_name=name))
        if not reply.is_ok:
            raise ModelNotHeldError(reply)

    async def _unload(self, name: str) -> None:
        self._held.pop(name, None)
        await self._unloaded(name)

    async def _unloaded(self, name: str) -> ProtocolReply:
        self._forget(name)
        return await self._forwarder.ask("RepositoryModelUnload", wire.RepositoryModelUnloadRequest(model_name=name))
