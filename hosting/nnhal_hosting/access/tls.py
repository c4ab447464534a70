"""TLS for HTTP and gRPC servers, mutual if an authority for clients is named."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from nnhal.given_files import MOST_TEXT_BYTES, read_given_file


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM form. With ``client_authority``, clients must present a certificate that it has signed."""

    certificate: Path
    key: Path
    client_authority: Path | None = None

    def require_usable(self) -> None:
        """Raise OSError if a file cannot be read, ValueError if its content cannot be used."""
        self.ssl_context()

    def ssl_context(self) -> ssl.SSLContext:
        """Return the context for HTTP. Raises as ``require_usable``."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        for path in (self.certificate, self.key, self.client_authority):
            if path is not None:
                _read(path)  # OpenSSL's errors do not name the file, and it waits for pipes
        try:
            context.load_cert_chain(self.certificate, self.key)
        except ssl.SSLError as error:
            message = f"{self.certificate} and {self.key} are no certificate with its key: {error.reason}"
            raise ValueError(message) from error
        if self.client_authority is not None:
            try:
                context.load_verify_locations(self.client_authority)
            except ssl.SSLError as error:
                raise ValueError(f"{self.client_authority} has no certificates: {error.reason}") from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Return the credentials for gRPC. Raises as ``require_usable``."""
        authority = _read(self.client_authority) if self.client_authority else None
        return grpc.ssl_server_credentials(
            [(_read(self.key), _read(self.certificate))], authority, authority is not None
        )


def _read(path: Path) -> bytes:
    return read_given_file(path, MOST_TEXT_BYTES, "certificates or a key in PEM form")
