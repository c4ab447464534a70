from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.messages import WireMessage
from nnhal_ray.protocol import SERVICE, STREAM, UNARY, add_to_server


class Echo:
    """A servicer of all methods, which answers with the request."""

    def __init__(self) -> None:
        for name in UNARY:
            setattr(self, name, lambda request, _: request)
        setattr(self, STREAM, lambda requests, _: requests)


@contextmanager
def channel() -> Iterator[grpc.Channel]:
    """A channel to a server with the methods, registered as Ray Serve has them."""
    server = grpc.server(ThreadPoolExecutor(2))
    add_to_server(Echo(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
            yield opened
    finally:
        server.stop(None).wait()


def test_all_methods_of_the_protocol_are_registered_and_messages_stay_bytes() -> None:
    message = wire.ModelReadyRequest(name="m").SerializeToString()
    with channel() as opened:
        for method in SERVICE.methods:
            path = f"/{SERVICE.full_name}/{method.name}"
            if method.name == STREAM:
                answers = list(opened.stream_stream(path, bytes, bytes)(iter([message, message])))
                assert answers == [message, message]
            else:
                assert opened.unary_unary(path, bytes, bytes)(message, timeout=30) == message


def test_a_message_is_encoded_as_one_of_protobuf() -> None:
    assert WireMessage(b"bytes").SerializeToString() == b"bytes"
