"""A replica that is one host: a whole nnhal, and what clients of the protocol ask of it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from functools import partial
from http import HTTPStatus
from typing import Any

import ray
from ray import serve
from ray.serve.handle import DeploymentHandle

from nnhal.errors import NnhalError
from nnhal_hosting.processor_time import ProcessorTime
from nnhal_ray.changes import Change, HostReply, change_of, has_succeeded, newest
from nnhal_ray.colleagues import Colleagues
from nnhal_ray.dashboards import OtherDashboards
from nnhal_ray.fan_out import FanOut
from nnhal_ray.forwarding import Forwarder
from nnhal_ray.http_forwarding import HttpForwarder
from nnhal_ray.http_inference import HttpInferences
from nnhal_ray.inference import HostInferences
from nnhal_ray.ingress import ProtocolIngress
from nnhal_ray.messages import Call, HttpCall, HttpReply, ProtocolCall, ProtocolReply, Reply
from nnhal_ray.metrics import merged
from nnhal_ray.native_models import NativeModels
from nnhal_ray.options import ScaleOutOptions
from nnhal_ray.protocol import INFER
from nnhal_ray.sequences import SequenceName, SequenceTurn
from nnhal_ray.testbed import HostTestbed

_log = logging.getLogger(__name__)
METRICS_PATH = "/metrics"
_READY_SECONDS = 5.0
_NAME_DIGITS = 8
"""Of the node's id, in the name of the host."""
_LOOKS_AT_OTHERS = 3
"""How often a new host asks the others for changes: one may be made after its first question, before it serves."""


class UnhealthyHostError(NnhalError):
    """The host's nnhal has ended, or does not say that it is ready. Ray Serve replaces the replica."""


class HostReplica(ProtocolIngress):
    """One host. It starts its nnhal, and ends it."""

    def __init__(self, options: ScaleOutOptions) -> None:
        """Wait until its nnhal serves. Raises StartError if it does not."""
        super().__init__(options)
        context = serve.get_replica_context()
        self._node = ray.get_runtime_context().get_node_id()
        hosts: DeploymentHandle[Any] = serve.get_deployment_handle(context.deployment, context.app_name)
        self._fan_out = FanOut(hosts)
        self._changes: dict[str, Change] = {}
        self._changing = asyncio.Lock()
        self._looks = 0
        self._catching_up: asyncio.Future[None] | None = None
        self._framework_pid = 0
        self._testbed = HostTestbed(options, f"{socket.gethostname()} {self._node[:_NAME_DIGITS]}")
        self._dashboards = OtherDashboards(partial(self._fan_out.tell, "dashboard"), self._testbed.name_hosts)
        self._forwarder = Forwarder(self._testbed.framework)
        self._http_forwarder = HttpForwarder(self._testbed)
        self._models = NativeModels(self._testbed.framework, self._forwarder) if options.native else None
        self._colleagues = Colleagues(
            self._node, hosts, self._fan_out, self._forward, self._forwarder.is_ready, not options.models_per_host
        )
        self._inferences = HostInferences(self._forwarder, self._models, self._colleagues)
        self._http_inferences = HttpInferences(self._http_forwarder, self._models, self._colleagues)

    async def answer(self, call: ProtocolCall) -> ProtocolReply:
        """Answer a call here; one that changes something, on all hosts."""
        change = change_of(call, time.time_ns())
        if call.method == INFER:
            reply = await self._inferences.infer(call)
        elif change is None:
            return await self._forwarder.forward(call)
        else:
            reply = await self._fan_out.make(change)
        assert isinstance(reply, ProtocolReply)
        return reply

    async def answer_http(self, call: HttpCall) -> HttpReply:
        """Answer a request here; one that changes something, on all hosts. Metrics are those of all hosts."""
        if call.path == METRICS_PATH:
            pages = await self._fan_out.tell("metrics")
            headers = {"content-type": "text/plain; version=0.0.4; charset=utf-8"}
            return HttpReply(HTTPStatus.OK, headers, merged(pages).encode())
        change = change_of(call, time.time_ns())
        reply = await (self._http_inferences.answer(call) if change is None else self._fan_out.make(change))
        assert isinstance(reply, HttpReply)
        return reply

    async def perform(self, change: Change) -> HostReply:
        """Make a change on this host alone, and remember it for hosts that join later."""
        async with self._changing:
            reply = await self._perform(change)
            if change.model and has_succeeded(reply):
                self._changes[change.model] = change
            return HostReply(self._node, reply)

    async def changes(self) -> list[Change]:
        """The last change of each model that this host has made."""
        return newest(self._changes.values())

    async def metrics(self) -> tuple[str, str]:
        """The node, and its metrics as Prometheus reads them."""
        return self._node, await self._http_forwarder.metrics() + self._colleagues.metrics

    async def dashboard(self) -> tuple[str, str]:
        """The host's name, and the address of its dashboard; empty without one."""
        return self._testbed.name, self._testbed.dashboard

    async def answer_for_another(self, node: str, call: Call) -> Reply | None:
        """Answer what the host of another node cannot; None if that is this node."""
        return await self._colleagues.answer_for(node, call)

    async def answer_in_sequence(self, turn: SequenceTurn, call: Call) -> Reply | None:
        """Answer a request of a sequence that this host has; None if it has it not."""
        return await self._colleagues.take_turn(turn, call)

    async def forget_sequence(self, name: SequenceName, node: str) -> None:
        """A sequence starts on a node."""
        await self._colleagues.forget(name, node)

    async def check_health(self) -> None:
        """Ray Serve asks this at the start, and again and again. Raises UnhealthyHostError."""
        if self._testbed.has_ended:
            raise UnhealthyHostError(f"the supervisor of {self._testbed.directory} has ended")
        began, its_time = time.monotonic(), ProcessorTime(self._framework_pid, os.getpid())
        if not await self._forwarder.is_ready(_READY_SECONDS):
            passed = time.monotonic() - began
            if passed >= _READY_SECONDS and its_time.passed() < passed / 2:
                return  # the machine is busy, and the framework is asked again
            raise UnhealthyHostError(f"the framework of {self._testbed.directory} does not say that it is ready")
        earlier = self._catching_up
        if earlier is not None and not earlier.done():  # a model may take long to load
            return
        await self._dashboards.check()
        self._catching_up = asyncio.ensure_future(self._catch_up())
        if earlier is None:
            await self._catching_up  # before the first request
        else:
            earlier.result()  # what has failed counts now

    async def __del__(self) -> None:
        """End the host's nnhal. Ray Serve awaits this once the replica has no requests any more."""
        if self._models is not None:
            await self._models.close()
        await self._forwarder.close()
        await self._http_forwarder.close()
        await asyncio.to_thread(self._testbed.close)

    async def _perform(self, change: Change) -> Reply:
        reply = await self._forward(change.call)
        self._forget(change.model)
        return reply

    async def _forward(self, call: Call) -> Reply:
        """Have the host's framework answer."""
        return await (
            self._http_forwarder.forward(call) if isinstance(call, HttpCall) else self._forwarder.forward(call)
        )

    def _forget(self, model: str) -> None:
        """Describe a model anew before it runs natively again."""
        if self._models is not None:
            self._models.forget(model)

    async def _catch_up(self) -> None:
        """Make the changes that other hosts know of, and anew those of a framework that was started again."""
        pid = await asyncio.to_thread(self._testbed.framework_pid)
        if pid != self._framework_pid:
            missed, self._framework_pid, self._changes = self._changes, pid, {}
        else:
            missed = {}
        if self._looks < _LOOKS_AT_OTHERS:
            self._looks += 1
            missed = {change.model: change for change in newest([*missed.values(), *await self._fan_out.made()])}
        for change in newest(missed.values()):
            known = self._changes.get(change.model)
            if known is None or known.made_ns < change.made_ns:
                done = await self.perform(change)
                if not has_succeeded(done.reply):
                    _log.warning("model %s is not as on other hosts: %s", change.model, done.reply)
