"""The gRPC channel to the device, with TLS and with the token."""

from __future__ import annotations

import grpc

from nnhal_devices.remote.credential_files import pem_of, token_of
from nnhal_devices.remote.options import RemoteOptions
from nnhal_devices.wire.protocol import KEEPALIVE_OPTIONS


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
