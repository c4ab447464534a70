"""Making changes on all hosts, and telling a host that joins of those that were made before."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Any

import grpc
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from nnhal_ray.changes import Change, HostReply, failures, newest
from nnhal_ray.messages import HttpCall, HttpReply, ProtocolReply
from nnhal_ray.replies import refused_over_http

_CHANGE_SECONDS = 600.0
"""As long as a framework may take to load a model."""
_ASK_SECONDS = 10.0


class FanOut:
    """Calls methods of all hosts of a deployment: ``perform``, ``changes``, and those that return a text."""

    def __init__(self, hosts: DeploymentHandle[Any]) -> None:
        self._hosts = hosts

    async def make(self, change: Change) -> ProtocolReply | HttpReply:
        """Make a change on all hosts that serve, and return one answer for all.

        A host that ends meanwhile does not count, since the one in its place learns of the change.
        """
        try:
            replies: list[HostReply] = await self._broadcast(_CHANGE_SECONDS, "perform", change)
        except TimeoutError:
            return _refused(change, f"not all hosts have answered within {_CHANGE_SECONDS:.0f} s")
        failed = failures(replies)
        if not replies:
            return _refused(change, "no host is left that could do it")
        if not failed:
            return replies[0].reply
        if len(failed) == len(replies) and len({_text(reply.reply) for reply in failed}) == 1:
            return failed[0].reply
        told = "; ".join(f"host {reply.node}: {_text(reply.reply)}" for reply in failed)
        return _with_text(failed[0].reply, f"{len(failed)} of {len(replies)} hosts have not done it: {told}")

    async def made(self) -> list[Change]:
        """The changes of models that hosts know of, the last one of each model; none if hosts do not answer."""
        try:
            known: list[list[Change]] = await self._broadcast(_ASK_SECONDS, "changes")
        except TimeoutError:
            return []
        return newest(change for changes in known for change in changes)

    async def tell(self, method: str, *arguments: object, seconds: float = _ASK_SECONDS) -> list[Any]:
        """What a method of each host returns. Raises TimeoutError if one does not answer within ``seconds``."""
        return await self._broadcast(seconds, method, *arguments)

    async def _broadcast(self, seconds: float, method: str, *arguments: object) -> list[Any]:
        """The answers of all hosts that have not ended meanwhile; none if no host serves."""
        try:
            answers = await self._hosts.broadcast(method, *arguments).results_async(
                timeout_s=seconds, return_exceptions=True
            )
        except RayServeException:
            return []
        return [answer for answer in answers if not isinstance(answer, BaseException)]


def _refused(change: Change, text: str) -> ProtocolReply | HttpReply:
    if isinstance(change.call, HttpCall):
        return refused_over_http(HTTPStatus.SERVICE_UNAVAILABLE, text)
    return ProtocolReply(code=grpc.StatusCode.UNAVAILABLE, details=text)


def _text(reply: ProtocolReply | HttpReply) -> str:
    return reply.details if isinstance(reply, ProtocolReply) else reply.body.decode(errors="replace")


def _with_text(reply: ProtocolReply | HttpReply, text: str) -> ProtocolReply | HttpReply:
    if isinstance(reply, ProtocolReply):
        return replace(reply, details=text)
    return refused_over_http(reply.status, text)
