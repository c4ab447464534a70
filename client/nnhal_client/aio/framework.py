"""A session with a framework, for asyncio."""

from __future__ import annotations

import asyncio
import weakref

from nnhal.contexts import AsyncClosing
from nnhal.remote.calls import Calls
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.aio.in_thread import in_thread
from nnhal_client.aio.memory import AsyncDomainMemory
from nnhal_client.aio.model import AsyncModel
from nnhal_client.core.model_runs import CONCURRENCY
from nnhal_client.framework import DeviceInfo, Framework
from nnhal_client.memory import DomainMemory
from nnhal_client.model import Model
from nnhal_client.planned import ModelPlan


class AsyncFramework(AsyncClosing):
    """As ``Framework``, for one event loop. Use as a context."""

    def __init__(self, blocking: Framework, concurrency: int = CONCURRENCY) -> None:
        """``blocking`` is the session, which ends with this one."""
        self.blocking = blocking
        self._concurrency = concurrency
        self._models: weakref.WeakSet[AsyncModel] = weakref.WeakSet()

    @in_thread(Framework.devices)
    def devices(self, found: list[DeviceInfo]) -> list[DeviceInfo]:
        return found

    @in_thread(Framework.load)
    def load(self, loaded: Model) -> AsyncModel:
        return self._model(loaded)

    @in_thread(Framework.plan)
    def plan(self, planned: ModelPlan) -> ModelPlan:
        return planned

    @in_thread(Framework.release)
    def release(self, _: None) -> None:
        pass

    @in_thread(Framework.open)
    def open(self, opened: Model) -> AsyncModel:
        return self._model(opened)

    @in_thread(Framework.load_model)
    def load_model(self, loaded: Model) -> AsyncModel:
        return self._model(loaded)

    @in_thread(Framework.allocate)
    def allocate(self, memory: DomainMemory) -> AsyncDomainMemory:
        return AsyncDomainMemory(memory)

    @property
    def calls(self) -> Calls:
        """The session, for what this class has no method for. Its calls block."""
        return self.blocking.calls

    @property
    def stub(self) -> framework_pb2_grpc.FrameworkServiceStub:
        """The methods of FrameworkService, to be called through ``calls``."""
        return self.blocking.stub

    async def close(self) -> None:
        """End the session; runs that are under way fail."""
        for model in list(self._models):
            await model.close_bindings()
        await asyncio.to_thread(self.blocking.close)

    def _model(self, loaded: Model) -> AsyncModel:
        model = AsyncModel(loaded, self._concurrency)
        self._models.add(model)
        return model
