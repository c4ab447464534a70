"""The connection to the device: one session, and the calls of it."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import grpc

from nnhal.admin import EXIT_STATUS
from nnhal.codec import error_from_rpc
from nnhal.errors import HalError, general_failure
from nnhal.given_files import read_given_file
from nnhal.link.tenants import ON_BEHALF_METADATA, tenant_to_wire
from nnhal.shares import tenant
from nnhal.threads import BriefThread
from nnhal.types import ErrorStatus
from nnhal.v1 import wire_pb2 as wire
from nnhal.v1 import wire_pb2_grpc
from nnhal_devices.remote.options import RemoteOptions
from nnhal_devices.wire import KEEPALIVE_OPTIONS, PROTOCOL_VERSION, SESSION_TOKEN_METADATA
from nnhal_hosting.logs import get_logger

_log = get_logger(__name__)
_NOTICED_SECONDS = 10.0
"""The time that it may take until the end of the session is noticed, after a call has failed for that reason."""
_RETRY_SECONDS = 0.2
_HANDSHAKE = "handshake"
"""In the details of a call that has failed since one end does not accept the other's certificate."""
_FATAL = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
T = TypeVar("T")


def end_process(place: str, reason: str) -> None:
    """End this process as a device that has died: what supervises it starts it again, and it connects anew."""
    _log.error("the connection to the device is lost; this process ends", device=place, reason=reason)
    sys.stderr.flush()
    os._exit(EXIT_STATUS)


class WireConnection:
    """A session with the device. Safe to use from several threads."""

    def __init__(self, options: RemoteOptions, lost: Callable[[str, str], None] = end_process) -> None:
        """Connect. ``lost`` is called with place and reason when the connection has been lost.

        Raises OSError if the device cannot be reached or refuses, ValueError if the token's file cannot be used.
        """
        self.place = options.place
        self._lost = lost
        self._closed = threading.Event()
        opening = authorization(options)
        self._channel = open_channel(options)
        self.stub = wire_pb2_grpc.WireServiceStub(self._channel)
        try:
            self._stream, self.device = self._open(options, opening)
        except BaseException:
            self._channel.close()
            raise
        self.metadata = ((SESSION_TOKEN_METADATA, self.device.session_token),)
        self._watcher = BriefThread(self._watch, "wire-session")
        self._watcher.start()

    def call(self, method: Callable[..., T], request: Any, timeout: float | None = None) -> T:
        """Make a call of the session. Raises HalError; that of the device keeps its status, and says where it was."""
        try:
            client = tenant_to_wire(tenant())
            named = () if client is None else ((ON_BEHALF_METADATA, client.SerializeToString()),)
            return method(request, metadata=(*self.metadata, *named), timeout=timeout)
        except (grpc.RpcError, ValueError) as error:
            self.fail(error)

    def fail(self, error: grpc.RpcError | ValueError) -> NoReturn:
        """Raise the HalError for a call that has failed. Does not return if the connection is lost."""
        if isinstance(error, ValueError):
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, f"{self.place}: the connection was closed") from error
        failure = error_from_rpc(error, self.place)
        if isinstance(failure, HalError):
            raise HalError(failure.status, f"{self.place}: {failure.message}") from failure
        code, _ = _status(error)
        if code in _FATAL:
            self._closed.wait(_NOTICED_SECONDS)
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, f"the connection is lost: {failure}") from failure
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, f"{self.place} did not answer in time") from failure
        if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT, str(failure)) from failure
        general_failure(str(failure))

    def close(self) -> None:
        """End the session."""
        self._closed.set()
        self._stream.cancel()
        self._channel.close()
        self._watcher.join()

    def _open(
        self, options: RemoteOptions, opening: tuple[tuple[str, str], ...]
    ) -> tuple[Any, wire.OpenSessionResponse]:
        """Open the session, as soon as somebody listens."""
        until = time.monotonic() + options.patience
        request = wire.OpenSessionRequest(protocol_version=PROTOCOL_VERSION, client_name=options.name)
        while True:
            stream: Any = self.stub.OpenSession(request, metadata=opening)
            try:
                return stream, next(stream)
            except StopIteration:
                raise OSError(f"{self.place} ended the session at once") from None
            except grpc.RpcError as error:
                code, reason = _status(error)
                if code != grpc.StatusCode.UNAVAILABLE or _HANDSHAKE in reason or time.monotonic() > until:
                    raise OSError(f"{self.place} cannot be used: {cause_of(code, reason)}") from error
            time.sleep(_RETRY_SECONDS)

    def _watch(self) -> None:
        """Wait for the end of the session."""
        reason = "the device has ended the session"
        try:
            for _ in self._stream:
                pass
        except grpc.RpcError as error:
            code, details = _status(error)
            reason = cause_of(code, details)
        except Exception as error:
            reason = str(error)
        if not self._closed.is_set():
            self._lost(self.place, reason)
            self._closed.set()


def _status(error: grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    """The code and the details of a failed call. The errors of grpc's stubs are calls, which its types do not say."""
    call: Any = error
    return (call.code(), call.details() or "") if isinstance(call, grpc.Call) else (grpc.StatusCode.UNKNOWN, str(error))


_CAUSES = (
    (("certificate", "handshake", "ssl"), "one end does not accept the other's certificate"),
    (("refused",), "the connection was refused, since nobody listens there"),
    (("resol", "lookup"), "the name of the host is unknown here"),
    (("unreachable", "no route"), "no network leads there"),
    (("timed out", "timeout"), "nothing answered in time"),
)
"""Words of gRPC's details, in lower case, and what they come of. The first that fits is told."""


def cause_of(code: grpc.StatusCode, details: str) -> str:
    """Say why a device cannot be reached, in plain words if they are known, and in gRPC's own."""
    said = details.lower()
    cause = next((text for words, text in _CAUSES if any(word in said for word in words)), "")
    if code == grpc.StatusCode.UNAUTHENTICATED:
        cause = "its host knows no such token"
    own = f"{code.name}: {details}"
    return f"{cause} ({own})" if cause else own


def open_channel(options: RemoteOptions) -> grpc.Channel:
    """Open the channel, which connects with its first call. Raises OSError or ValueError if a file cannot be used."""
    settings = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 1000),
        *KEEPALIVE_OPTIONS,
    ]
    if not options.uses_tls:
        return grpc.insecure_channel(options.address.address, options=settings)
    if options.tls_name:
        settings.append(("grpc.ssl_target_name_override", options.tls_name))  # type: ignore[arg-type]
    credentials = grpc.ssl_channel_credentials(
        pem_of(options.tls_ca), pem_of(options.tls_key), pem_of(options.tls_certificate)
    )
    return grpc.secure_channel(options.address.address, credentials, options=settings)


def authorization(options: RemoteOptions) -> tuple[tuple[str, str], ...]:
    """The metadata that opens a session. Raises OSError or ValueError if the file of the token cannot be used."""
    if options.token_file is None:
        return ()
    return (("authorization", f"Bearer {token_of(options.token_file)}"),)


_LONGEST_TOKEN = 4096
_LONGEST_PEM = 1 << 20
_TOKEN = re.compile(rb"[\x21-\x7e]{1,4096}")
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n[A-Za-z0-9+/=\r\n]+-----END \1-----")


def token_of(path: Path) -> str:
    """Return the token that a file holds. Raises OSError if it cannot be read, ValueError if it holds another thing."""
    token = read_given_file(path, _LONGEST_TOKEN + 2, "a token").strip()  # with the end of its line
    if not _TOKEN.fullmatch(token):
        raise ValueError(
            f"{path} holds no token, expected one line of 1 to {_LONGEST_TOKEN} printable characters without a space"
        )
    return token.decode()


def pem_of(path: Path | None) -> bytes | None:
    """Return the certificates or the key of a file in PEM form; None without a file. Raises as ``token_of``."""
    if path is None:
        return None
    content = read_given_file(path, _LONGEST_PEM, "certificates or a key in PEM form")
    if not _PEM.search(content):
        raise ValueError(f"{path} is not in PEM form, expected '-----BEGIN …-----' and what belongs to it")
    return content
