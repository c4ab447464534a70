"""The steps: each is a call of the HAL with valid or invalid arguments, compared with what the contract says of it.

All of them are in this file, so that it tells what may happen to a device.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from nnhal.clock import now_ns
from nnhal.descriptor import Descriptor
from nnhal.fence import FenceState, create_fence
from nnhal.types import ErrorStatus, MappableFile
from nnhal.v1 import backend_pb2, device_pb2, request_pb2
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from nnhal_conformance.channels import BurstChannel, settled, split
from nnhal_conformance.channels import Launch as RawLaunch
from nnhal_conformance.device import supported
from nnhal_conformance.device_buffers import allocate
from nnhal_conformance.random_steps.device import AskedDevice
from nnhal_conformance.random_steps.held import (
    NONE,
    Buffer,
    Burst,
    Cache,
    Client,
    Execution,
    Gate,
    Held,
    Launch,
    Model,
    Statuses,
    Work,
    filled,
    outcome,
    statuses,
)
from nnhal_conformance.random_steps.models import ENDLESS, Loop
from nnhal_conformance.random_steps.report import Walk
from nnhal_conformance.rule import FAILURE, INVALID, MISSED, NotOfferedError, offered, refused, require
from nnhal_conformance.rules.buffer_roles import invalid_allocations
from nnhal_conformance.rules.caching import CacheFiles, content_of, damages_of, overwrite
from nnhal_conformance.rules.executions import WITH_CONFIG, invalid_requests, require_result
from nnhal_conformance.rules.fences import memory_descriptor
from nnhal_conformance.rules.models import invalid_models, require_invalid
from nnhal_conformance.rules.pools import KINDS, bad_pools
from nnhal_conformance.runner import failure_in_words
from nnhal_conformance.session import Datagrams, DeviceSession
from nnhal_conformance.small_models import SHAPE, SmallRequest
from nnhal_conformance.victims import die_in_calls
from nnhal_conformance.ways import ALL_RUNS, LAUNCHES, PREPARATIONS, refused_run

Step = TypeVar("Step", bound=Callable[..., None])
_MOST_SESSIONS, _MOST_AT_ONCE = 4, 4
_FAR_NS = 60 * 10**9
_LOOP_NS = 2_000_000
"""How long a loop may repeat."""
_ASHMEM, _OPEN_FILE = "ashmem", "a part of a file"
"""Kinds of memory: the usual one, and one that may be truncated."""
_WITH_CONFIG = {*WITH_CONFIG, "launch-request"}
"""Ways that say how long a loop may repeat."""

SEEDS = st.integers(ENDLESS, 9)
WAYS = st.sampled_from(list(ALL_RUNS))
MEMORY = st.sampled_from(list(KINDS))
DEADLINES = st.sampled_from(["none", "none", "far", "past", "invalid"])
FACTS = ["version", "type", "capabilities", "extensions", "files", "describe"]
PICKS = st.none() | st.integers(0, 3)
"""Whether an argument lies in a buffer of the device, and in which of those that have its role."""


def one_of(kind: str) -> st.SearchStrategy[Any]:
    """Something of a kind that is there, when a step is drawn."""
    return st.runner().flatmap(lambda steps: st.sampled_from(steps.live(kind)))


def some_of(kind: str, most: int = 2) -> st.SearchStrategy[list[Any]]:
    """Some of what there is of a kind, or nothing."""
    return st.runner().flatmap(
        lambda steps: (
            st.lists(st.sampled_from(found), max_size=most, unique=True) if (found := steps.live(kind)) else st.just([])
        )
    )


def named(kind: str) -> st.SearchStrategy[str]:
    """A name out of a list of the device's."""
    return st.runner().flatmap(lambda steps: st.sampled_from(list(getattr(steps.device, kind))))


def step(**arguments: st.SearchStrategy[Any] | str) -> Callable[[Step], Step]:
    """Make a method a step. An argument that is a word stands for something of that kind, which must be there."""
    kinds = [given for given in arguments.values() if isinstance(given, str)]
    strategies: Any = {name: one_of(given) if isinstance(given, str) else given for name, given in arguments.items()}

    def register(method: Step) -> Step:
        @wraps(method)
        def taken(steps: DeviceSteps, **given: Any) -> None:
            steps.walk.taken[method.__name__] += 1
            arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
            steps.lines.append(f"state.{method.__name__}({arguments})")
            try:
                with steps.told():
                    method(steps, **given)
            except NotOfferedError:
                steps.walk.not_offered[method.__name__] += 1

        ready = precondition(lambda steps: all(steps.live(kind) for kind in kinds))
        rules: Any = rule(**strategies)
        made: Step = ready(rules(taken))
        return made

    return register


class DeviceSteps(RuleBasedStateMachine):
    """Clients of a device, and all that they may do."""

    device: ClassVar[AskedDevice]
    walk: ClassVar[Walk]
    """The report of all steps."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[Client] = []
        self.models: list[Model] = []
        self.executions: list[Execution] = []
        self.bursts: list[Burst] = []
        self.buffers: list[Buffer] = []
        self.gates: list[Gate] = []
        self.launches: list[Launch] = []
        self.caches: list[Cache] = []
        self.lines: list[str] = []
        """The steps as lines of Python."""
        self.is_broken = False
        self.device.revive()
        self._before = self.device.held()

    def live(self, kind: str) -> Sequence[Held]:
        """What there is of a kind by now."""
        if kind == "pending_gates":
            return [gate for gate in self.gates if gate.is_live and gate.is_pending]
        if kind == "held_launches":
            return [launch for launch in self.launches if launch.is_live and launch.is_held]
        if kind == "used_sessions":
            made = (self.executions, self.bursts, self.buffers, self.launches)
            used = {held.client for kept in made for held in kept}
            return [client for client in self.sessions if client.is_live and client in used]
        if kind == "idle_executions":
            return self._idle_executions()
        if kind == "files":
            return [held for held in self.executions if held.is_live and held.work.kind == _OPEN_FILE]
        if kind == "things":
            things = (self.models, self.executions, self.bursts, self.buffers)
            return [held for kept in things for held in kept if held.is_live]
        return [held for held in getattr(self, kind) if held.is_live]

    def keep(self, kind: str, held: Held) -> None:
        """Add something to what there is."""
        having = getattr(self, kind)
        held.text = f"state.{kind}[{len(having)}]"
        having.append(held)

    # Sessions

    @precondition(lambda steps: len(steps.live("sessions")) < _MOST_SESSIONS)
    @step(small=named("models"))
    def open_session(self, small: str) -> None:
        """Open a session, and prepare a model in it."""
        client = Client(DeviceSession(self.device.endpoint, self.device.seconds))
        self.keep("sessions", client)
        model = self.device.models[small]
        self.keep("models", Model(client, model, client.session.prepare(model.model)))

    @step(session="used_sessions")
    def close_session(self, session: Client) -> None:
        """Close a session. Its channels end, and launches that wait fail."""
        session.session.link.close()
        self._require_end_of(session)

    @step(session="used_sessions", seed=SEEDS)
    def kill_client(self, session: Client, seed: int) -> None:
        """Kill the process of a session's client in the midst of calls on channels and over gRPC."""
        calls: list[tuple[Datagrams, bytes]] = []
        for execution in self._idle_executions(session)[:_MOST_AT_ONCE]:
            execution.work.fill(seed)
            channel = self._channel_of(execution)
            calls.append((channel.channel, channel.call_of(execution.bound.handle).SerializeToString()))
        for model in [model for model in self.models if model.client is session and model.is_live][:_MOST_AT_ONCE]:
            work = Work(model, _OPEN_FILE)
            work.fill(seed)
            message = prepared_pb2.PreparedModelServiceExecuteSynchronouslyWithConfigRequest(
                prepared_model=model.prepared.handle, request=session.session.request(work.request), **split({})
            )
            stub: Any = session.session.prepared_model.ExecuteSynchronouslyWithConfig
            stub.future(message, metadata=session.session.metadata, timeout=self.device.seconds)
        die_in_calls(session.session, calls)
        self._require_end_of(session)

    @step(session="sessions", what=st.sampled_from(FACTS))
    def ask(self, session: Client, what: str) -> None:
        """Ask for a fact of the device, which never changes."""
        stub, backend = session.session.device, session.session.backend
        calls: dict[str, tuple[Callable[..., Any], Any]] = {
            "version": (stub.GetVersionString, device_pb2.GetVersionStringRequest()),
            "type": (stub.GetType, device_pb2.GetTypeRequest()),
            "capabilities": (stub.GetCapabilities, device_pb2.GetCapabilitiesRequest()),
            "extensions": (stub.GetSupportedExtensions, device_pb2.GetSupportedExtensionsRequest()),
            "files": (stub.GetNumberOfCacheFilesNeeded, device_pb2.GetNumberOfCacheFilesNeededRequest()),
            "describe": (backend.Describe, backend_pb2.DescribeRequest()),
        }
        answer = session.session.call(*calls[what])
        was = self.device.facts.setdefault(what, answer)
        require(answer == was, f"{what} {answer}", f"{was}, as before")

    # Models

    @step(
        session="sessions",
        small=named("models"),
        way=st.sampled_from(list(PREPARATIONS)),
        preference=st.integers(0, 2),
        priority=st.integers(0, 2),
    )
    def prepare(self, session: Client, small: str, way: str, preference: int, priority: int) -> None:
        model = self.device.models[small].model
        require(all(supported(session.session, model)), f"no support of {small}", "support, as before")
        events, error = PREPARATIONS[way](session.session, model, preference=preference, priority=priority)
        require(error is None and bool(events), f"{error}", "a preparation")
        ended = events[-1].notified
        require(not ended.status, f"{ErrorStatus(ended.status).name} ({ended.message})", "NONE")
        self.keep("models", Model(session, self.device.models[small], ended.prepared_model))

    @step(session="sessions", way=st.sampled_from(list(PREPARATIONS)), fault=named("invalid_models"))
    def prepare_invalid(self, session: Client, way: str, fault: str) -> None:
        """Prepare a model that contradicts itself, which is INVALID_ARGUMENT, and so is to ask for its support."""
        model = invalid_models(next(iter(self.device.models.values())))[fault]
        refused(lambda: supported(session.session, model), INVALID, what=fault)
        require_invalid(*PREPARATIONS[way](session.session, model), fault)

    @step(
        session="sessions",
        way=st.sampled_from(list(PREPARATIONS)),
        field=st.sampled_from([("preference", 3), ("priority", -1), ("deadline_ns", -2), ("token", bytes(31))]),
    )
    def prepare_with_invalid_argument(self, session: Client, way: str, field: tuple[str, Any]) -> None:
        model = next(iter(self.device.models.values())).model
        require_invalid(*PREPARATIONS[way](session.session, model, **dict([field])), field[0])

    @step(session="sessions", small=named("models"), token=st.integers(0, 255))
    def save(self, session: Client, small: str, token: int) -> None:
        """Prepare a model, and save what was compiled to files with junk in them."""
        files = CacheFiles.new(session.session)
        saved = files.save(self.device.models[small].model, bytes([token]) * 32)
        self.keep("models", Model(session, self.device.models[small], saved.prepared_model))
        self.keep("caches", Cache(session, self.device.models[small], files, bytes([token]) * 32))

    @step(cache="caches")
    def restore(self, cache: Cache) -> None:
        """Prepare a model from the files of a compilation."""
        ended = cache.files.load(cache.token)
        require(not ended.status, f"{ErrorStatus(ended.status).name} ({ended.message})", "NONE")
        self.keep("models", Model(cache.client, cache.small, ended.prepared_model))

    @step(cache="caches", damage=st.integers(0, 60))
    def restore_damaged(self, cache: Cache, damage: int) -> None:
        """Prepare a model from a damaged file, or with another token: GENERAL_FAILURE. Then the file is whole again."""
        files = [file for file in (*cache.files.model, *cache.files.data) if content_of(file)]
        if damage == 0 or not files:
            ended, what = cache.files.load(bytes(byte ^ 1 for byte in cache.token)), "another token"
        else:
            file = files[damage % len(files)]
            whole = content_of(file)
            damages = list(damages_of(whole).items())
            what, content = damages[damage % len(damages)]
            overwrite(file, content)
            ended = cache.files.load(cache.token)
            overwrite(file, whole)
        status = ErrorStatus(ended.status)
        require(status is FAILURE and not ended.prepared_model, f"{what}: {status.name}", "GENERAL_FAILURE")

    # Runs

    @step(
        model="models",
        way=WAYS,
        memory=MEMORY,
        reads=PICKS,
        writes=PICKS,
        seed=SEEDS,
        deadline=DEADLINES,
        measured=st.booleans(),
    )
    def run(
        self,
        model: Model,
        way: str,
        memory: str,
        reads: int | None,
        writes: int | None,
        seed: int,
        deadline: str,
        measured: bool,
    ) -> None:
        """Run a request in one of all ways."""
        work = self._work(model, memory, reads, None if deadline == "past" else writes)
        fields = _fields(model, way in _WITH_CONFIG, deadline)
        measured = measured and way in WITH_CONFIG
        if measured:
            fields["measure_timing"] = True
        seed = seed if "loop_timeout_duration_ns" in fields else abs(seed)
        self._run(work, lambda: ALL_RUNS[way](model.prepared, work.request)(**fields), seed, deadline, measured)

    @step(model="models", way=WAYS, fault=named("faults"))
    def run_invalid(self, model: Model, way: str, fault: str) -> None:
        """Run a request that does not fit the model: INVALID_ARGUMENT."""
        work = Work(model, _ASHMEM)
        work.fill()
        faulty = invalid_requests(work)
        refused_run(ALL_RUNS[way], model.prepared, faulty.get(fault, faulty["no outputs"]), INVALID, what=fault)
        work.conclude(INVALID, work.ending())

    @step(model="models", way=WAYS, pool=named("bad_pools"))
    def run_in_bad_pool(self, model: Model, way: str, pool: str) -> None:
        """Run a request in memory that contradicts its description: INVALID_ARGUMENT."""
        work = model.prepared.work()
        request = replace(work.request, pools=(bad_pools(SmallRequest.bytes_of(model.small))[pool],))
        refused_run(ALL_RUNS[way], model.prepared, request, INVALID, what=pool)

    # Reusable executions

    @step(model="models", memory=MEMORY, reads=PICKS, writes=PICKS)
    def bind(self, model: Model, memory: str, reads: int | None, writes: int | None) -> None:
        """Make a reusable execution. What is wrong with its buffers may be said now, or when it runs."""
        work = self._work(model, memory, reads, writes)
        allowed = statuses(NONE) | (work.ending().allowed & {INVALID})
        fields = {"loop_timeout_duration_ns": _LOOP_NS} if isinstance(model.small, Loop) else {}
        status, bound = self._outcome(lambda: model.prepared.bind(work.request, **fields), allowed, "bind")
        if status is NONE:
            self.keep("executions", Execution(work, bound))

    @step(execution="executions", over=st.sampled_from(["grpc", "burst", "channel"]), seed=SEEDS, deadline=DEADLINES)
    def run_again(self, execution: Execution, over: str, seed: int, deadline: str) -> None:
        """Run a reusable execution. While a launch of it waits that is GENERAL_FAILURE."""
        work = execution.work
        if deadline == "past" and work.target is not None:
            deadline = "none"
        run: Callable[..., Any] = execution.bound.run
        if over != "grpc":
            run = partial(self._channel_of(execution, in_burst=over == "burst").run, execution.bound)
        call = partial(run, deadline_ns=_deadline_ns(deadline))
        if execution.launch is not None and execution.launch.is_held:
            self._outcome(
                call, statuses(FAILURE, INVALID) if deadline == "invalid" else statuses(FAILURE), "a second run"
            )
            return
        self._settle(execution.launch)
        self._run(work, lambda: _result_of(call()), seed, deadline)

    @step(executions="files")
    def truncate(self, executions: Execution) -> None:
        """Truncate the file in which a reusable execution has its arguments: it may fail then, and nothing else may."""
        if executions.launch is not None and not executions.launch.is_held:
            self._settle(executions.launch)
        memory = executions.work.memory
        assert isinstance(memory, MappableFile)
        os.ftruncate(memory.descriptor.fileno(), 0)
        executions.work.is_truncated = True

    @precondition(lambda steps: len(steps.live("idle_executions")) > 1)
    @step(executions=some_of("idle_executions", _MOST_AT_ONCE), seed=SEEDS)
    def run_at_once(self, executions: list[Execution], seed: int) -> None:
        """Run several reusable executions on channels, all at once."""
        called = []
        for number, execution in enumerate(executions):
            channel = self._channel_of(execution)
            execution.work.fill(seed + number)  # so that an output of another run is seen
            channel.channel.send(channel.call_of(execution.bound.handle).SerializeToString())
            called.append((execution.work, channel))
        for work, channel in called:
            ending = work.ending()
            status, _ = self._outcome(partial(_received, channel), ending.allowed, work)
            work.conclude(status, ending)

    # Bursts

    @step(model="models")
    def open_burst(self, model: Model) -> None:
        self.keep("bursts", Burst(model))

    @step(
        burst="bursts", token=st.integers(-1, 2), memory=MEMORY, seed=SEEDS, deadline=DEADLINES, over_grpc=st.booleans()
    )
    def run_in_burst(self, burst: Burst, token: int, memory: str, seed: int, deadline: str, over_grpc: bool) -> None:
        """Run a request in a burst, which may have cached its memory under a token."""
        work = burst.works.get(token) or Work(burst.model, memory)
        if token >= 0:
            burst.works[token] = work
        fields = _fields(burst.model, True, deadline)

        def call() -> Any:
            if not over_grpc:
                return burst.channel.execute(work.request, [token], **fields).result
            message = burst.channel.message(work.request, [token], **fields)
            message.burst = burst.channel.handle
            session = burst.client.session
            stub = session.burst.ExecuteSynchronouslyWithConfig
            return offered(lambda: session.call(stub, message), "only clients without the channel miss it").result

        self._run(work, call, seed, deadline)

    @step(burst="bursts", tokens=st.sampled_from([[-2], [], [0, 1], [-(2**63)]]))
    def run_with_invalid_tokens(self, burst: Burst, tokens: list[int]) -> None:
        request = Work(burst.model, _ASHMEM).request
        refused(lambda: burst.channel.execute(request, tokens), INVALID, what=f"tokens {tokens}")

    @step(burst="bursts", token=st.sampled_from([0, 1, 2, -1, 12_345, -2]))
    def forget(self, burst: Burst, token: int) -> None:
        """Release memory that a burst may have cached; a token below -1 is INVALID_ARGUMENT."""
        self._outcome(lambda: burst.channel.forget(token), statuses(INVALID if token < -1 else NONE), f"token {token}")

    @step(burst="bursts", execution="executions")
    def run_foreign(self, burst: Burst, execution: Execution) -> None:
        """Run an execution of another prepared model in a burst: INVALID_ARGUMENT."""
        if execution.client is burst.client and execution.work.model is not burst.model:
            refused(lambda: burst.channel.run(execution.bound), INVALID, what="an execution of another model")

    # Launches

    @precondition(lambda steps: not steps.device.is_synchronous)
    @step(session="sessions")
    def open_gate(self, session: Client) -> None:
        """Create a fence that launches may wait for."""
        self.keep("gates", Gate(session))

    @step(gate="pending_gates", well=st.booleans())
    def end_gate(self, gate: Gate, well: bool) -> None:
        """Signal a fence, or have it fail."""
        gate.end(well)

    @step(
        model="models",
        way=st.sampled_from(list(LAUNCHES)),
        memory=MEMORY,
        reads=PICKS,
        writes=PICKS,
        gates=some_of("gates"),
        after=some_of("held_launches"),
        seed=SEEDS,
    )
    def launch(
        self,
        model: Model,
        way: str,
        memory: str,
        reads: int | None,
        writes: int | None,
        gates: list[Gate],
        after: list[Launch],
        seed: int,
    ) -> None:
        """Launch a request behind fences of the client and of other launches."""
        fields = _fields(model, way == "request", "none")
        seed = seed if "loop_timeout_duration_ns" in fields else abs(seed)
        work = self._work(model, memory, reads, writes)
        self._launch(
            work, lambda waits: LAUNCHES[way](model.prepared, work.request)(waits, **fields), gates, after, seed
        )

    @step(
        execution="executions",
        on_channel=st.booleans(),
        gates=some_of("gates"),
        after=some_of("held_launches"),
        seed=SEEDS,
    )
    def launch_again(
        self, execution: Execution, on_channel: bool, gates: list[Gate], after: list[Launch], seed: int
    ) -> None:
        """Launch a reusable execution over gRPC or on a launch channel. While a launch of it waits that is refused."""
        bound = execution.bound

        def call(waits: list[Descriptor]) -> RawLaunch:
            if on_channel:
                return execution.client.launcher.launch(bound.handle, waits)
            return bound.launch(waits)

        if execution.launch is not None and execution.launch.is_held:
            self._outcome(lambda: call([]), statuses(FAILURE), "a second launch")
            return
        self._settle(execution.launch)
        execution.launch = self._launch(execution.work, call, gates, after, seed)

    @step(
        model="models",
        way=st.sampled_from(list(LAUNCHES)),
        fault=st.sampled_from(["deadline_ns", "duration_ns", "a file as a fence", "a failed fence"]),
    )
    def launch_invalid(self, model: Model, way: str, fault: str) -> None:
        """Launch a request with numbers or fences that cannot be: INVALID_ARGUMENT."""
        launched = LAUNCHES[way](model.prepared, Work(model, _ASHMEM).request)
        if fault.endswith("_ns"):
            refused(lambda: launched(**{fault: -2}), INVALID, what=fault)
            return
        signal, failed = create_fence()
        signal.fail()
        wrong = memory_descriptor() if fault == "a file as a fence" else failed.descriptor
        refused(lambda: launched([wrong]), INVALID, what=fault)

    @step(launch="held_launches")
    def inquire(self, launch: Launch) -> None:
        """Ask how a launch ended that waits: GENERAL_FAILURE."""
        refused(launch.raw.info, FAILURE, what="a launch that waits")

    @step(launch="launches")
    def settle(self, launch: Launch) -> None:
        """Have a launch and all for which it waits end, and check how it ended."""
        self._settle(launch)

    # Buffers of the device

    @precondition(lambda steps: steps.device.allocates)
    @step(model="models", roles=st.sampled_from(["read", "written", "both"]), other=PICKS)
    def allocate(self, model: Model, roles: str, other: int | None) -> None:
        """Allocate a buffer with roles of a prepared model, or of two."""
        like = [
            each
            for each in self.models
            if each.is_live and each.client is model.client and each.small.output == model.small.output
        ]
        models = list(dict.fromkeys([model, *([] if other is None else [like[other % len(like)]])]))
        given = [(number, 0) for number in range(len(models))]
        reads, writes = roles != "written", roles != "read"
        handles = [each.prepared.handle for each in models]
        made = allocate(model.prepared, given if reads else (), given if writes else (), models=handles)
        uses = [*((each, False) for each in models if reads), *((each, True) for each in models if writes)]
        self.keep("buffers", Buffer(model.small, made.buffer, made.token, frozenset(uses)))

    @precondition(lambda steps: steps.device.allocates)
    @step(model="models", fault=st.sampled_from(list(invalid_allocations())))
    def allocate_invalid(self, model: Model, fault: str) -> None:
        refused(lambda: allocate(model.prepared, **invalid_allocations()[fault]), INVALID, what=fault)

    @step(buffer="buffers", memory=MEMORY, seed=st.integers(0, 9), stated=st.booleans())
    def copy_in(self, buffer: Buffer, memory: str, seed: int, stated: bool) -> None:
        """Fill a buffer from memory of any kind."""
        self._settle(*buffer.users)
        values = buffer.small.values(seed)[0]
        buffer.copy_from(filled(KINDS[memory], values), SHAPE if stated else ())
        buffer.became(values)

    @step(
        buffer="buffers",
        fault=st.sampled_from(["half the size", "twice the size", "another rank", "an open axis", "a truncated file"]),
    )
    def copy_in_invalid(self, buffer: Buffer, fault: str) -> None:
        """Fill a buffer with what does not fit. It holds nothing then."""
        self._settle(*buffer.users)
        size = {"half the size": buffer.small.bytes // 2, "twice the size": 2 * buffer.small.bytes}
        memory = KINDS[_OPEN_FILE](size.get(fault, buffer.small.bytes))
        assert isinstance(memory, MappableFile)
        allowed = [INVALID]
        if fault == "a truncated file":
            os.ftruncate(memory.descriptor.fileno(), 0)
            allowed.append(FAILURE)
        dimensions = {"another rank": (*SHAPE, 1), "an open axis": (0, SHAPE[1])}.get(fault, ())
        refused(lambda: buffer.copy_from(memory, dimensions), *allowed, what=fault)
        buffer.became(None)

    @step(buffer="buffers", more=st.sampled_from([0, 0, 4, -1]))
    def copy_out(self, buffer: Buffer, more: int) -> None:
        """Read a buffer, perhaps into memory of another size."""
        self._settle(*buffer.users)
        allowed = buffer.readable if not more else statuses(INVALID) | (buffer.readable - {NONE})
        status, raw = self._outcome(
            lambda: buffer.copy_to(buffer.small.bytes + more), allowed, "a copy out of a buffer"
        )
        if status is not NONE:
            return
        if buffer.is_known and buffer.content is not None:
            at = buffer.small.mismatch(raw, buffer.content)
            require(at is None, f"another value at {at} of a buffer", "what was last written to it")
        buffer.became(buffer.small.array(raw))

    # The end

    @step(thing="things")
    def release(self, thing: Model | Execution | Burst | Buffer) -> None:
        """Release something. The device must not know it from then on."""
        if isinstance(thing, Execution):
            self._settle(thing.launch)
        elif isinstance(thing, Buffer):
            self._settle(*thing.users)
        thing.release()
        thing.is_released = True
        refused(thing.use, INVALID, what=f"{type(thing).__name__} after its release")

    # A step of several names is drawn so much more often.
    run_, run__ = run, run
    bind_, bind__ = bind, bind
    run_again_, run_again__ = run_again, run_again
    launch_, launch__ = launch, launch
    launch_again_, settle_, allocate_, run_in_burst_ = launch_again, settle, allocate, run_in_burst
    run_at_once_, run_at_once__ = run_at_once, run_at_once

    def teardown(self) -> None:
        """Have all launches end, close all sessions, and check that nothing of them is left."""
        try:
            if not self.is_broken:
                with self.told():
                    self._settle(*self.launches)
        finally:
            for client in self.sessions:
                client.session.close()
        if not self.is_broken:
            with self.told():
                self.device.require_nothing_beyond(self._before)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Tell of what shows that the device breaks the contract."""
        try:
            yield
        except NotOfferedError:
            raise
        except Exception as error:  # the device may answer anything
            self.is_broken = True
            self.walk.broken, self.walk.steps = failure_in_words(error), self.lines
            raise

    # What steps share

    def _outcome(self, call: Callable[[], Any], allowed: Statuses, what: object) -> tuple[ErrorStatus, Any]:
        return outcome(call, allowed, what, self.device.forbidden)

    def _work(self, model: Model, memory: str, reads: int | None, writes: int | None) -> Work:
        """A request, with arguments in buffers that have their roles, if there are any."""
        return Work(model, memory, self._buffer(model, False, reads), self._buffer(model, True, writes))

    def _buffer(self, model: Model, writes: bool, pick: int | None) -> Buffer | None:
        fitting = [buffer for buffer in self.buffers if buffer.is_live and (model, writes) in buffer.roles]
        return fitting[pick % len(fitting)] if fitting and pick is not None else None

    def _run(
        self, work: Work, call: Callable[[], Any], seed: int, deadline: str = "none", measured: bool = False
    ) -> None:
        """Run a request, and check how that ends."""
        for buffer in work.buffers:
            self._settle(*buffer.users)
        work.fill(seed)
        ending = work.ending()
        allowed = {"past": ending.allowed | set(MISSED), "invalid": statuses(INVALID)}.get(deadline, ending.allowed)
        status, result = self._outcome(call, allowed, work)
        if status is NONE and not work.is_truncated:
            require_result(result, measured)
        work.conclude(status, ending)

    def _launch(
        self,
        work: Work,
        call: Callable[[list[Descriptor]], RawLaunch],
        gates: list[Gate],
        after: list[Launch],
        seed: int,
    ) -> Launch | None:
        """Launch a request, also behind what uses its buffers, and check that this is accepted if it must be."""
        for buffer in work.buffers:
            for user in [*buffer.users]:
                if user.is_held:
                    after = list(dict.fromkeys([*after, user]))
                else:
                    self._settle(user)
        work.fill(seed)
        ending = work.ending(frozenset(other.work.target for other in after if other.work.target is not None))
        allowed = ending.allowed
        if any(gate.fence.state is FenceState.ERROR for gate in gates):
            allowed = statuses(INVALID) | (allowed - {NONE, *MISSED})
        elif not self.device.is_synchronous and set(MISSED) & allowed:
            allowed = statuses(NONE)  # it begins when the call has returned
        fences = [gate.fence for gate in gates] + [other.raw.fence for other in after if other.raw.fence is not None]
        status, raw = self._outcome(
            lambda: call([fence.descriptor for fence in fences]), allowed, f"a launch of {work}"
        )
        if status is not NONE:
            work.conclude(status, ending)
            return None
        launch = Launch(work, raw, gates, after)
        self.keep("launches", launch)
        return launch

    def _settle(self, *launches: Launch | None) -> None:
        for launch in launches:
            if launch is not None and launch.is_live:
                launch.settle()

    def _idle_executions(self, client: Client | None = None) -> list[Execution]:
        """Executions that are not launched and use no buffers."""
        return [
            execution
            for execution in self.executions
            if execution.is_live
            and client in (None, execution.client)
            and not execution.work.buffers
            and (execution.launch is None or not execution.launch.is_live)
        ]

    def _channel_of(self, execution: Execution, in_burst: bool = False) -> BurstChannel:
        """A channel on which an execution runs: that of a burst, or its run channel."""
        for burst in self.bursts:
            if in_burst and burst.is_live and burst.model is execution.work.model:
                return burst.channel
        return execution.channel

    def _require_end_of(self, client: Client) -> None:
        """Check that a session has ended, whose link is closed: its channels close, and launches that wait fail."""
        pending = [launch for launch in self.launches if launch.is_live and launch.client is client]
        held = [launch for launch in pending if launch.is_held]
        bursts = [burst for burst in self.bursts if burst.is_live and burst.client is client]
        client.is_open = False
        for burst in bursts:
            burst.channel.channel.require_end()
        for launch in pending:
            fence, launch.is_released = launch.raw.fence, True
            launch.has_succeeded = fence is None or settled(fence, self.device.seconds)
            require(not (launch in held and launch.has_succeeded), "a signal after the end of the session", "an error")
        client.session.close()


def _fields(model: Model, has_config: bool, deadline: str) -> dict[str, Any]:
    """Fields of a call: its deadline, and how long a loop may repeat."""
    fields: dict[str, Any] = {"deadline_ns": _deadline_ns(deadline)}
    if has_config and isinstance(model.small, Loop):
        fields["loop_timeout_duration_ns"] = _LOOP_NS
    return fields


def _deadline_ns(deadline: str) -> int:
    return {"none": -1, "far": now_ns() + _FAR_NS, "past": 0, "invalid": -2}[deadline]


def _result_of(answer: Any) -> request_pb2.ExecutionResult:
    """The result of an execution, over gRPC or on a channel."""
    result: request_pb2.ExecutionResult = getattr(answer, "result", answer)
    return result


def _received(channel: BurstChannel) -> object:
    """Receive the answer to a call that was sent. Raises HalError if it is an error."""
    answer = channel.channel.receive()
    require(answer is not None, f"the end of {channel.channel.what}", "an answer")
    assert answer is not None
    return channel.decoded(answer.message)


def steps_with(device: AskedDevice, walk: Walk, begin: Callable[[], object] = lambda: None) -> type[DeviceSteps]:
    """Return the steps of a device, which are reported. ``begin`` is called before they begin, each time."""

    class Steps(DeviceSteps):
        def __init__(self) -> None:
            begin()
            super().__init__()

    Steps.device, Steps.walk = device, walk
    return Steps
