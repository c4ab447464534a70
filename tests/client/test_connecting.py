from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from nnhal_client.connecting import ServerAddress, target_of


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("localhost:8001", "localhost:8001"),
        ("grpc://localhost:8001", "localhost:8001"),
        ("grpc://10.0.0.1:8001/", "10.0.0.1:8001"),
        ("[::1]:8001", "[::1]:8001"),
        ("unix:/run/nnhal/inference.sock", "unix:/run/nnhal/inference.sock"),
    ],
)
def test_an_address_is_a_server(target: str, address: str) -> None:
    assert target_of(target) == ServerAddress(address)


@pytest.mark.parametrize("target", ["/run/nnhal/framework", "framework", "./localhost", Path("localhost:8001")])
def test_all_else_is_a_directory(target: str | Path) -> None:
    assert target_of(target) == Path(target)


def test_a_directory_that_is_there_may_look_like_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "host:1").mkdir()
    monkeypatch.chdir(tmp_path)
    assert target_of("host:1") == Path("host:1")


def test_tls_where_the_scheme_says_so_or_credentials_are_given() -> None:
    own = grpc.ssl_channel_credentials()
    found = target_of("grpcs://example.org:443")
    assert isinstance(found, ServerAddress)
    assert found.address == "example.org:443"
    assert found.credentials is not None
    assert target_of("grpcs://example.org:443", own) == ServerAddress("example.org:443", own)
    assert target_of("example.org:443", own) == ServerAddress("example.org:443", own)


@pytest.mark.parametrize("target", ["http://localhost:8000", "ftp://x", "grpc://localhost", "grpc://"])
def test_other_addresses_are_refused(target: str) -> None:
    with pytest.raises(ValueError, match="expected a directory, HOST:PORT"):
        target_of(target)
