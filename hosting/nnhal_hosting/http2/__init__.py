"""Serving HTTP/2 in an event loop. libnghttp2 has the protocol, by ngh2, which does no I/O; the limits are here."""

from nnhal_hosting.http2.connection import Header, Stream, StreamUser
from nnhal_hosting.http2.listeners import Http2Listeners
from nnhal_hosting.http2.waiting import WaitingStreams

__all__ = ["Header", "Http2Listeners", "Stream", "StreamUser", "WaitingStreams"]
