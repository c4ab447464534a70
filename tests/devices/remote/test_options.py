from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_devices.driver import DriverOptions
from nnhal_devices.remote.options import RemoteOptions


def read(**options: str) -> RemoteOptions:
    return RemoteOptions.of(DriverOptions(extra=options))


@pytest.mark.parametrize(
    ("endpoint", "host", "address"),
    [
        ("tcp://npu-host:9000", "npu-host", "npu-host:9000"),
        ("tcp://10.0.0.5:1", "10.0.0.5", "10.0.0.5:1"),
        ("tcp://[::1]:9000", "::1", "[::1]:9000"),
    ],
)
def test_an_endpoint_is_a_host_and_a_port(endpoint: str, host: str, address: str) -> None:
    options = read(endpoint=endpoint)
    assert (options.address.host, options.address.address) == (host, address)
    assert options.place == f"tcp://{address}"


@pytest.mark.parametrize(
    "endpoint", ["", "npu-host:9000", "tcp://npu-host", "tcp://:9000", "tcp://a:b", "tcp://a:70000"]
)
def test_any_other_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="expected --option endpoint=tcp://HOST:PORT"):
        read(endpoint=endpoint)


def test_beyond_loopback_the_connection_is_encrypted() -> None:
    assert read(endpoint="tcp://npu-host:9000").uses_tls
    assert not read(endpoint="tcp://npu-host:9000", insecure="true").uses_tls
    assert not read(endpoint="tcp://127.0.0.1:9000").uses_tls
    assert read(endpoint="tcp://127.0.0.1:9000", tls_ca="ca.pem").uses_tls


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tls_certificate": "c.pem"}, "go together"),
        ({"tls_key": "k.pem"}, "go together"),
        ({"insecure": "true", "tls_ca": "ca.pem"}, "contradicts"),
        ({"insecure": "yes"}, "expected true or false"),
        ({"patience": "0"}, "expected seconds"),
        ({"patience": "soon"}, "expected seconds"),
        ({"token": "secret"}, "no option 'token'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read(endpoint="tcp://npu-host:9000", **options)


def test_files_are_paths() -> None:
    options = read(endpoint="tcp://npu-host:9000", token_file="/run/token", tls_ca="ca.pem")
    assert (options.token_file, options.tls_ca, options.tls_key) == (Path("/run/token"), Path("ca.pem"), None)
