"""A server of the protocol, and its models."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

import grpc
from google.protobuf.message import Message

from nnhal.contexts import Closing
from nnhal.errors import TransportError
from nnhal.extensions.values import Value
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.types.layout import Dimensions
from nnhal_client.core.model_runs import CONCURRENCY
from nnhal_client.memory import DomainMemory
from nnhal_client.v2.binding import V2Binding
from nnhal_client.v2.calls import (
    CONNECT_SECONDS,
    INFER,
    MODEL_CONFIG,
    MODEL_METADATA,
    OPTIONS,
    SERVER_METADATA,
    SERVICE,
    R,
    authorization,
    failure_of,
    serialized,
)
from nnhal_client.v2.described import V2Description
from nnhal_client.v2.messages import outputs_of

_Metadata = tuple[tuple[str, str], ...]


class V2Server(Closing):
    """A session with a server of the Open Inference Protocol V2 over gRPC. Use as a context; safe in several threads.

    Every call raises HalError if the server answered with an error, TransportError if its answer is malformed.
    """

    def __init__(
        self,
        address: str,
        token: str = "",
        credentials: grpc.ChannelCredentials | None = None,
        ask: _Metadata = (),
        concurrency: int = CONCURRENCY,
    ) -> None:
        """``address`` is HOST:PORT or ``unix:PATH``; ``token`` a bearer token; with ``credentials`` it speaks TLS.

        ``ask`` is metadata of the first call, and ``answered`` the trailing metadata of its answer. Of each model at
        most ``concurrency`` runs are under way at a time. Raises as every call.
        """
        self.address = address
        self.concurrency = concurrency
        self._metadata = authorization(token)
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options=OPTIONS)
        else:
            self._channel = grpc.secure_channel(address, credentials, options=OPTIONS)
        try:
            name, kind = SERVER_METADATA
            method = self._channel.unary_unary(SERVICE + name, serialized, kind.FromString)
            metadata = (*self._metadata, *ask)
            answer, call = method.with_call(wire.ServerMetadataRequest(), timeout=CONNECT_SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            self._channel.close()
            raise failure_of(error, address) from error
        self.name = answer.name
        self.extensions = tuple(answer.extensions)
        self.answered = {str(key): str(value) for key, value in call.trailing_metadata() or ()}

    def open(self, name: str, version: str = "") -> V2Model:
        """A model of the server, by default in the version that the server chooses."""
        request = wire.ModelMetadataRequest(name=name, version=version)
        description = self.call(MODEL_METADATA, request)
        config = wire.ModelConfigResponse()
        with suppress(TransportError):  # only servers with this extension have optional inputs
            config = self.call(MODEL_CONFIG, wire.ModelConfigRequest(name=name, version=version))
        return V2Model(self, description, config, version)

    def call(self, method: tuple[str, type[R]], request: Message, timeout: float | None = None) -> R:
        name, kind = method
        try:
            stub = self._channel.unary_unary(SERVICE + name, serialized, kind.FromString)
            return cast(R, stub(request, metadata=self._metadata, timeout=timeout))
        except grpc.RpcError as error:
            raise failure_of(error, self.address) from error
        except ValueError as error:  # gRPC raises it on a channel that has been closed
            raise TransportError(f"{self.address}: the session has been closed") from error

    def close(self) -> None:
        self._channel.close()


class V2Model(V2Description, Closing):
    """A model of a server. Use as a context."""

    def __init__(
        self, server: V2Server, description: wire.ModelMetadataResponse, config: wire.ModelConfigResponse, version: str
    ) -> None:
        super().__init__(description, config, version)
        self._server = server
        self._turns = threading.Semaphore(server.concurrency)

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """One inference. The outputs are read-only.

        Raises ValueError if the inputs are not what the model takes, else as every call of the session.
        """
        request = self.request(inputs)
        with self._turns:
            return outputs_of(self._server.call(INFER, request))

    def bind(
        self,
        measure_timing: bool = False,
        dimensions: Mapping[str, Dimensions] | None = None,
        memories: Mapping[str, DomainMemory] | None = None,
        direct: bool = True,
    ) -> V2Binding:
        """Memory for all inputs and outputs, as ``Model.bind`` makes it, though runs send and copy what lies there.

        ``direct`` changes nothing. Raises ValueError if dimensions of an input are missing or do not fit the model, and
        for any ``memories``: a server elsewhere cannot use memory of this host.
        """
        return V2Binding(self._server, self._turns, self, measure_timing, dimensions or {}, memories or {})

    def unload(self) -> None:
        """Do nothing: the server holds nothing for this session. ``Model.unload`` releases the model."""

    def close(self) -> None:
        """As ``unload``."""
