"""IPreparedModel and IExecution that outlive their process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from nnhal.errors import DeadObjectError
from nnhal.fence import Fence
from nnhal.remote.burst import RemoteBurst
from nnhal.remote.execution import RemoteExecution
from nnhal.remote.fenced import RemoteFencedExecution
from nnhal.remote.prepared_model import PLAIN, RemotePreparedModel
from nnhal.remote.resilient.renewable import Renewable, alive
from nnhal.types import NO_DEADLINE, ExecutionConfig, ExecutionResult, Request

R = TypeVar("R")


class ResilientPreparedModel:
    """A prepared model that is prepared again where its device has died. Raises as RemotePreparedModel.

    A request that names device buffers is not tried again: what was in them is lost, and their names may be others'.
    """

    def __init__(self, prepared: Renewable[RemotePreparedModel]) -> None:
        self._prepared = prepared

    def alive(self) -> RemotePreparedModel:
        """The prepared model on the session of this moment, prepared again where that is needed."""
        return self._prepared.use(alive)

    def execute(
        self, request: Request, config: ExecutionConfig = PLAIN, deadline_ns: int = NO_DEADLINE
    ) -> ExecutionResult:
        """executeSynchronouslyWithConfig."""
        return self._run(request, lambda prepared: prepared.execute(request, config, deadline_ns))

    def execute_fenced(
        self,
        request: Request,
        wait_for: Sequence[Fence] = (),
        config: ExecutionConfig = PLAIN,
        deadline_ns: int = NO_DEADLINE,
        duration_ns: int = NO_DEADLINE,
    ) -> RemoteFencedExecution:
        """executeFencedWithConfig. Once launched, an execution dies with its device, and its fence with it."""
        return self._run(
            request, lambda prepared: prepared.execute_fenced(request, wait_for, config, deadline_ns, duration_ns)
        )

    def create_reusable_execution(self, request: Request, config: ExecutionConfig = PLAIN) -> ResilientExecution:
        """createReusableExecution. The arguments are kept."""

        def create(_: object = None) -> RemoteExecution:
            return self._run(request, lambda prepared: prepared.create_reusable_execution(request, config))

        def refuse(_: object) -> RemoteExecution:
            raise DeadObjectError("the request names device buffers, which died with their device")

        return ResilientExecution(Renewable(create(), refuse if _names_buffers(request) else create))

    def configure_execution_burst(self) -> RemoteBurst:
        """configureExecutionBurst. A burst dies with its device: then another one is to be configured."""
        return self._prepared.use(lambda prepared: prepared.configure_execution_burst())

    def release(self) -> None:
        """Give it up."""
        self._prepared.last.release()

    def _run(self, request: Request, call: Callable[[RemotePreparedModel], R]) -> R:
        return call(self._prepared.current) if _names_buffers(request) else self._prepared.use(call)


class ResilientExecution:
    """A reusable execution that is created again where its device has died. Raises as RemoteExecution."""

    def __init__(self, execution: Renewable[RemoteExecution]) -> None:
        self._execution = execution

    def execute(self, deadline_ns: int = NO_DEADLINE) -> ExecutionResult:
        """executeSynchronously."""
        return self._execution.use(lambda execution: execution.execute(deadline_ns))

    def execute_fenced(
        self, wait_for: Sequence[Fence] = (), deadline_ns: int = NO_DEADLINE, duration_ns: int = NO_DEADLINE
    ) -> RemoteFencedExecution:
        """executeFenced. Once launched, an execution dies with its device, and its fence with it."""
        return self._execution.use(lambda execution: execution.execute_fenced(wait_for, deadline_ns, duration_ns))

    def release(self) -> None:
        """Give it up."""
        self._execution.last.release()


def _names_buffers(request: Request) -> bool:
    return any(isinstance(pool, int) for pool in request.pools)
