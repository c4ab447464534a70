"""A session with a framework, for asyncio."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Mapping, Sequence

from nnhal.contexts import AsyncClosing
from nnhal.remote.calls import Calls
from nnhal.types import NO_DEADLINE, NO_HINTS, Ashmem, ExecutionPreference, Hints, Priority
from nnhal.types import Model as HalModel
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.aio.memory import AsyncDomainMemory
from nnhal_client.aio.model import AsyncModel
from nnhal_client.core.model_runs import CONCURRENCY
from nnhal_client.framework import DeviceInfo, FallbackName, Framework, PartitionerName
from nnhal_client.memory import MemoryRole
from nnhal_client.model import Model
from nnhal_client.planned import ModelPlan
from nnhal_client.tensors import ReservedDimensions


class AsyncFramework(AsyncClosing):
    """As ``Framework``, for one event loop. Use as a context."""

    def __init__(self, blocking: Framework, concurrency: int = CONCURRENCY) -> None:
        """``blocking`` is the session, which ends with this one."""
        self._blocking = blocking
        self._concurrency = concurrency
        self._models: weakref.WeakSet[AsyncModel] = weakref.WeakSet()

    async def devices(self) -> list[DeviceInfo]:
        """The devices that the framework knows, in order of preference."""
        return await asyncio.to_thread(self._blocking.devices)

    async def load(
        self,
        path: str | os.PathLike[str] | None = None,
        devices: Sequence[str] = (),
        pins: Mapping[str, str] | None = None,
        partitioner: PartitionerName = "least_time",
        fallback: FallbackName = "allow",
        min_nodes_per_partition: int = 1,
        cache_token: bytes = b"",
        relaxed: bool = False,
        dimensions: Mapping[str, ReservedDimensions] | None = None,
        states: Mapping[str, str] | None = None,
        signature: str = "",
        plan: ModelPlan | None = None,
        group: int = 0,
        weights: Mapping[str, Ashmem] | None = None,
    ) -> AsyncModel:
        """Load a model file, or a group of a plan, as ``Framework.load``."""
        return self._model(
            await asyncio.to_thread(
                self._blocking.load,
                path,
                devices,
                pins,
                partitioner,
                fallback,
                min_nodes_per_partition,
                cache_token,
                relaxed,
                dimensions,
                states,
                signature,
                plan,
                group,
                weights,
            )
        )

    async def plan(
        self,
        model: str | os.PathLike[str] | bytes,
        devices: Sequence[str] = (),
        pins: Mapping[str, str] | None = None,
        partitioner: PartitionerName = "least_time",
        fallback: FallbackName = "allow",
        min_nodes_per_partition: int = 1,
        cache_token: bytes = b"",
        relaxed: bool = False,
        dimensions: Mapping[str, ReservedDimensions] | None = None,
        states: Mapping[str, str] | None = None,
        signature: str = "",
        leaves_nodes: bool = False,
        explains: bool = False,
        weights: Mapping[str, Ashmem] | None = None,
        keeps: Sequence[int] = (),
        operators: Sequence[str] = (),
        tensor_dimensions: Mapping[int, Dimensions] | None = None,
    ) -> ModelPlan:
        """Plan a model without having any device prepare anything, as ``Framework.plan``."""
        return await asyncio.to_thread(
            self._blocking.plan,
            model,
            devices,
            pins,
            partitioner,
            fallback,
            min_nodes_per_partition,
            cache_token,
            relaxed,
            dimensions,
            states,
            signature,
            leaves_nodes,
            explains,
            weights,
            keeps,
            operators,
            tensor_dimensions,
        )

    async def release(self, plan: ModelPlan) -> None:
        """Have the framework forget a plan, as ``Framework.release``."""
        await asyncio.to_thread(self._blocking.release, plan)

    async def open(
        self, name: str, version: str = "", pins: Mapping[str, str] | None = None, devices: Sequence[str] = ()
    ) -> AsyncModel:
        """A model of the server's repository, as ``Framework.open``."""
        return self._model(await asyncio.to_thread(self._blocking.open, name, version, pins, devices))

    async def load_model(
        self,
        model: HalModel,
        devices: Sequence[str] = (),
        pins: Mapping[str, str] | None = None,
        partitioner: PartitionerName = "least_time",
        fallback: FallbackName = "allow",
        min_nodes_per_partition: int = 1,
        cache_token: bytes = b"",
        preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER,
        priority: Priority = Priority.MEDIUM,
        deadline_ns: int = NO_DEADLINE,
        hints: Hints = NO_HINTS,
    ) -> AsyncModel:
        """Load a model of the HAL, as ``Framework.load_model``."""
        return self._model(
            await asyncio.to_thread(
                self._blocking.load_model,
                model,
                devices,
                pins,
                partitioner,
                fallback,
                min_nodes_per_partition,
                cache_token,
                preference,
                priority,
                deadline_ns,
                hints,
            )
        )

    async def allocate(self, roles: Sequence[MemoryRole], dimensions: ReservedDimensions = ()) -> AsyncDomainMemory:
        """Memory for certain inputs and outputs of loaded models, as ``Framework.allocate``."""
        return AsyncDomainMemory(await asyncio.to_thread(self._blocking.allocate, roles, dimensions))

    @property
    def calls(self) -> Calls:
        """The session, for what this class has no method for. Its calls block."""
        return self._blocking.calls

    @property
    def stub(self) -> framework_pb2_grpc.FrameworkServiceStub:
        """The methods of FrameworkService, to be called through ``calls``."""
        return self._blocking.stub

    async def close(self) -> None:
        """End the session; runs that are under way fail."""
        for model in list(self._models):
            await model.close_bindings()
        await asyncio.to_thread(self._blocking.close)

    def _model(self, loaded: Model) -> AsyncModel:
        model = AsyncModel(loaded, self._concurrency)
        self._models.add(model)
        return model
