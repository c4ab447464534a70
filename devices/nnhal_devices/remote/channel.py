"""The gRPC channel to the device, with TLS and with the token."""

from __future__ import annotations

from pathlib import Path

import grpc

from nnhal.given_files import MOST_TEXT_BYTES, read_given_file, read_given_text
from nnhal_devices.remote.options import RemoteOptions
from nnhal_devices.wire.protocol import KEEPALIVE_OPTIONS

_LONGEST_TOKEN = 4096


def open_channel(options: RemoteOptions) -> grpc.Channel:
    """Open the channel, which connects with its first call. Raises OSError or ValueError if a file cannot be read."""
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
        _bytes(options.tls_ca), _bytes(options.tls_key), _bytes(options.tls_certificate)
    )
    return grpc.secure_channel(options.address.address, credentials, options=settings)


def authorization(options: RemoteOptions) -> tuple[tuple[str, str], ...]:
    """The metadata that opens a session. Raises OSError or ValueError if the file of the token cannot be used."""
    if options.token_file is None:
        return ()
    token = read_given_text(options.token_file, "a token").strip()
    if not 0 < len(token) <= _LONGEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(f"{options.token_file} holds no token, expected 1 to {_LONGEST_TOKEN} printable characters")
    return (("authorization", f"Bearer {token}"),)


def _bytes(path: Path | None) -> bytes | None:
    return None if path is None else read_given_file(path, MOST_TEXT_BYTES, "certificates or a key in PEM form")
