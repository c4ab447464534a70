"""Actions on objects that other threads use at the same time: any status that could occur is allowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nnhal.errors import HalError
from nnhal.fence import Fence, FenceError
from nnhal.memory import create_ashmem
from nnhal.types import BufferRole, DataLocation, ErrorStatus, ExecutionResult, Request, RequestArgument
from nnhal_tools.stress.actor import Actor, NotOffered
from nnhal_tools.stress.buffers import PreparedSpecimen
from nnhal_tools.stress.outcomes import ANY, FAILURE, OK, Violation, ask
from nnhal_tools.stress.shared import SharedObjects

_SECONDS = 50.0


def execute(actor: Actor, shared: SharedObjects) -> ErrorStatus:
    """Execute the same request in every way. If it succeeds, the output must be right."""
    plan = shared.plan
    ways: dict[str, Callable[[], ExecutionResult]] = {
        "synchronously": lambda: shared.prepared.remote.execute(plan.request, plan.config),
        "again": shared.execution.execute,
        "in a burst": lambda: shared.burst.execute(plan.request, None, plan.config).result,
        "again in a burst": lambda: shared.burst.run(shared.execution).result,
    }
    name = actor.random.choice(list(ways))
    actor.note(name)
    answer = ask(ways[name], ANY)
    if answer:
        plan.verify(answer.value)
    return answer.status


def launch(actor: Actor, shared: SharedObjects) -> ErrorStatus:
    """Launch the same reusable execution, with and without a channel."""
    on_channel = actor.perhaps(0.5)
    actor.note("on the channel" if on_channel else "over gRPC")

    def call() -> list[Fence | None]:
        if on_channel:
            return [shared.launcher.launch(shared.execution)]
        started = shared.execution.execute_fenced()
        started.release()  # its fence works without it
        return [started.fence]

    answer = ask(call, ANY)
    if answer and answer.value[0] is not None:
        try:
            answer.value[0].wait(_SECONDS)
        except FenceError:
            return ErrorStatus.GENERAL_FAILURE
        except TimeoutError:
            raise Violation(f"no fence after {_SECONDS:.0f} s") from None
        shared.plan.verify(None)
    return answer.status


def inquire(_: Actor, shared: SharedObjects) -> ErrorStatus:
    """Ask how the last launch of any thread ended."""
    return ask(lambda: shared.launcher.info(shared.execution), ANY, takes=False).status


def use_buffer(actor: Actor, shared: SharedObjects) -> ErrorStatus:
    """Read and write a buffer concurrently: only its content is undefined."""
    if shared.buffer is None:
        raise NotOffered
    buffer, plan, token = shared.buffer, shared.plan, shared.buffer.token
    size = 4 * 8 * 4
    memory = create_ashmem(size)
    whole, ranged = RequestArgument(DataLocation()), RequestArgument(DataLocation(1, 0, size))
    reading = Request((whole, ranged), (ranged,), (token, create_ashmem(size)))
    writing = Request((ranged, ranged), (whole,), (token, create_ashmem(size)))
    ways: dict[str, Callable[[], object]] = {
        "copy in": lambda: buffer.copy_from(memory),
        "copy out": lambda: buffer.copy_to(memory),
        "read": lambda: plan.prepared.remote.execute(reading),
        "write": lambda: plan.prepared.remote.execute(writing),
        "write in a burst": lambda: shared.burst.execute(writing),
    }
    name = actor.random.choice(list(ways))
    actor.note(name)
    return ask(ways[name], ANY).status


def use_cache(actor: Actor, shared: SharedObjects) -> ErrorStatus:
    """Save to the same files and load from them concurrently: what can be loaded must be right."""
    if actor.perhaps(0.4):
        actor.note("saves")
        remote = ask(lambda: actor.device.prepare_model(shared.plan.specimen.model, cache=shared.cache))
        if remote:
            remote.value.release()
        return remote.status
    actor.note("loads")
    loaded = ask(lambda: actor.device.prepare_model_from_cache(shared.cache), OK | FAILURE)
    if not loaded:
        return loaded.status
    plan = actor.plan(PreparedSpecimen(shared.plan.specimen, loaded.value))
    answer = ask(lambda: loaded.value.execute(plan.request, plan.config), plan.expected())
    if answer:
        plan.verify(answer.value)
    loaded.value.release()
    return answer.status


def replace_some(actor: Actor, shared: SharedObjects) -> ErrorStatus:
    """Replace an object that other threads may be using, and release it."""
    device, plan = actor.device, shared.plan
    kind = actor.random.choice(("prepared", "execution", "burst", "launcher", "buffer"))
    actor.note(kind)
    try:
        if kind == "prepared":
            prepared = replace(plan.prepared, remote=device.prepare_model(plan.specimen.model))
            old, plan.prepared = plan.prepared, prepared
            old.remote.release()
        elif kind == "execution":
            execution = plan.prepared.remote.create_reusable_execution(plan.request, plan.config)
            unused, shared.execution = shared.execution, execution
            unused.release()
        elif kind == "burst":
            shared.burst = plan.prepared.remote.configure_execution_burst()
        elif kind == "launcher":
            shared.launcher = device.open_launcher()
        elif shared.buffer is not None:
            role = [BufferRole(0, 0)]
            buffer = device.allocate([plan.prepared.remote], role, role)
            given_up, shared.buffer = shared.buffer, buffer
            given_up.release()
    except HalError as error:
        _check(error)
        return error.status
    return ErrorStatus.NONE


def _check(error: HalError) -> None:
    """Raise Violation if the status is not allowed."""

    def again() -> None:
        raise error

    ask(again, ANY)
