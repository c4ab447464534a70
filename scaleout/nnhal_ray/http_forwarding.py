"""Passing requests over HTTP on to the framework of the host, at its port of the loopback interface."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from http import HTTPStatus

import aiohttp
from yarl import URL

from nnhal.contexts import AsyncClosing
from nnhal.errors import NnhalError
from nnhal_ray.messages import HttpCall, HttpReply
from nnhal_ray.replies import refused_over_http
from nnhal_ray.testbed import HostTestbed

_OWN_REQUEST_HEADERS = {"authorization", "connection", "content-length", "host", "transfer-encoding"}
"""Headers of a request that belong to one connection, or that this replica has answered for."""
_OWN_REPLY_HEADERS = {"connection", "content-length", "date", "server", "transfer-encoding"}
_METRICS = "/metrics"


class HttpForwarder(AsyncClosing):
    """A client of the framework's V2 servers, for one event loop."""

    def __init__(self, testbed: HostTestbed) -> None:
        self._testbed = testbed
        self._addresses: dict[str, str] = {}
        self._session = aiohttp.ClientSession(
            auto_decompress=False, connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar()
        )

    async def forward(self, call: HttpCall) -> HttpReply:
        """Pass a request on, and return the answer; 503 if the framework does not answer."""
        try:
            return await self._sent(call)
        except aiohttp.ClientConnectorError:  # it was started again, with another port; nothing has been sent
            self._addresses = {}
        except aiohttp.ClientError:
            return unanswered()
        try:
            return await self._sent(call)
        except (aiohttp.ClientError, NnhalError):
            return unanswered()

    async def metrics(self) -> str:
        """The framework's metrics, as Prometheus reads them; empty if it does not answer."""
        reply = await self.forward(HttpCall("GET", _METRICS, "", {}, b""))
        return reply.body.decode() if reply.status == HTTPStatus.OK else ""

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _sent(self, call: HttpCall) -> HttpReply:
        if not self._addresses:
            self._addresses = await asyncio.to_thread(self._testbed.addresses)
        address = self._addresses["metrics" if call.path == _METRICS else "http"]
        url = URL(f"http://{address}{call.path}{'?' if call.query else ''}{call.query}", encoded=True)
        headers = {name: value for name, value in call.headers.items() if name not in _OWN_REQUEST_HEADERS}
        async with self._session.request(call.method, url, headers=headers, data=call.body or None) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _OWN_REPLY_HEADERS}
            return HttpReply(answer.status, kept, await answer.read())


def unanswered() -> HttpReply:
    """The reply if the host's framework does not answer."""
    refusal = refused_over_http(HTTPStatus.SERVICE_UNAVAILABLE, "the framework does not answer; it is started again")
    return replace(refusal, is_unanswered=True)
