"""A session with a framework, for asyncio."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from nnhal.contexts import AsyncClosing
from nnhal.remote.calls import Calls
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.aio.memory import AsyncDomainMemory
from nnhal_client.aio.model import AsyncModel
from nnhal_client.core.model_runs import CONCURRENCY
from nnhal_client.framework import DeviceInfo, Framework
from nnhal_client.memory import DomainMemory
from nnhal_client.model import Model
from nnhal_client.planned import ModelPlan

P = ParamSpec("P")
B = TypeVar("B")
R = TypeVar("R")
T = TypeVar("T")
B_co = TypeVar("B_co", covariant=True)


class Wrapping(Protocol[B_co]):
    """An object for asyncio around a blocking one."""

    @property
    def blocking(self) -> B_co:
        """The blocking object."""
        ...


def in_thread(
    method: Callable[Concatenate[B, P], R],
) -> Callable[[Callable[[Any, R], T]], Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]]:
    """Make a method for asyncio of a blocking object's method, with the signature and docstring of that.

    The function that is decorated turns the blocking answer into its own.
    """

    def derive(answer_of: Callable[[Any, R], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
        @wraps(method)
        async def call(self: Wrapping[B], /, *args: P.args, **kwargs: P.kwargs) -> T:
            return answer_of(self, await asyncio.to_thread(method, self.blocking, *args, **kwargs))

        return call

    return derive


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
