"""A device on another host is shown a credential, and never the content of any other file."""

from __future__ import annotations

import os
from pathlib import Path

import grpc
import pytest

from nnhal_devices.remote.connection import cause_of, pem_of, token_of

PEM = "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n"


def written(folder: Path, content: str) -> Path:
    path = folder / "credential"
    path.write_text(content)
    return path


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_token_is_one_line(tmp_path: Path, end: str) -> None:
    assert token_of(written(tmp_path, f"Zm9v.bar-1{end}")) == "Zm9v.bar-1"
    assert token_of(written(tmp_path, "x" * 4096 + end)) == "x" * 4096


@pytest.mark.parametrize(
    "content", ["", "\n", "two words\n", "two\nlines\n", "root:x:0:0:root:/root:\nbin:x:1\n", "\0\n", "gr\u00fcn\n"]
)
def test_another_file_is_no_token(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match="credential holds no token, expected one line of 1 to 4096 printable"):
        token_of(written(tmp_path, content))


def test_a_long_file_is_no_token(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a token of at most 4098"):
        token_of(written(tmp_path, "x" * 5000))


@pytest.mark.parametrize("name", ["TRUSTED CERTIFICATE", "CERTIFICATE", "EC PRIVATE KEY"])
def test_pem_may_have_text_beside_it(tmp_path: Path, name: str) -> None:
    content = f"subject: me\n{PEM.replace('CERTIFICATE', name)}"
    assert pem_of(written(tmp_path, content)) == content.encode()
    assert pem_of(None) is None


@pytest.mark.parametrize("content", ["", "secret\n", PEM[:-10], PEM.replace("TUlJQg==", "not base64!")])
def test_another_file_is_no_pem(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match="is not in PEM form"):
        pem_of(written(tmp_path, content))


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, Path("/dev/zero"), tmp_path):
        for read in (token_of, pem_of):
            with pytest.raises(ValueError, match="expected a regular file"):
                read(path)


@pytest.mark.parametrize(
    ("details", "cause"),
    [
        ("ipv4:127.0.0.1:9: Failed to connect to remote host: Connection refused", "nobody listens there"),
        ("errors resolving npu:9000: [address lookup failed for npu:9000: Domain name not found]", "name of the host"),
        ("Ssl handshake failed: SSL_ERROR_SSL: CERTIFICATE_VERIFY_FAILED", "the other's certificate"),
        ("ipv4:10.0.0.9:9000: connect: No route to host (113)", "no network leads there"),
        ("connection attempt timed out before receiving SETTINGS frame", "nothing answered in time"),
    ],
)
def test_why_a_device_cannot_be_reached_is_told_in_plain_words(details: str, cause: str) -> None:
    said = cause_of(grpc.StatusCode.UNAVAILABLE, details)
    assert cause in said and f"(UNAVAILABLE: {details})" in said


def test_an_unknown_cause_is_told_as_it_came() -> None:
    assert cause_of(grpc.StatusCode.UNAVAILABLE, "something") == "UNAVAILABLE: something"
    assert cause_of(grpc.StatusCode.UNAUTHENTICATED, "").startswith("its host knows no such token")
