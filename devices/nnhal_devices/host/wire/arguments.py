"""The options of a device process that listens for frameworks on other hosts."""

from __future__ import annotations

import argparse


def add_wire_arguments(parser: argparse.ArgumentParser) -> None:
    """Add them. Their names are those of the settings."""
    wire = parser.add_argument_group(
        "frameworks on other hosts", "beyond loopback only with TLS and tokens or client certificates: docs/remote.md"
    )
    wire.add_argument("--listen", metavar="HOST:PORT", help="listen there too; port 0 lets the system choose")
    wire.add_argument("--tls-certificate", metavar="FILE", help="the certificate of the device's host, in PEM form")
    wire.add_argument("--tls-key", metavar="FILE", help="its key")
    wire.add_argument(
        "--tls-client-ca", metavar="FILE", help="admit only clients with a certificate of this authority (mutual TLS)"
    )
    wire.add_argument("--tokens", metavar="FILE", help="admit only clients with a token of this file: docs/access.md")
    wire.add_argument(
        "--insecure",
        action="store_true",
        default=None,
        help="listen beyond this host without TLS, or without tokens and client certificates",
    )
