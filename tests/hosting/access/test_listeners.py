"""A listener that other hosts can reach needs TLS and tokens, unless the operator waives them."""

from __future__ import annotations

import pytest

from nnhal_hosting.access import TcpListener, require_safe


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_nothing(host: str) -> None:
    require_safe(TcpListener(host, 8001), has_tls=False, has_tokens=False, insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.com"])
def test_the_open_needs_tls_and_tokens(host: str) -> None:
    listener = TcpListener(host, 8001)
    with pytest.raises(ValueError, match=r"expected --tls-certificate and --tokens, or --insecure"):
        require_safe(listener, has_tls=False, has_tokens=False, insecure=False)
    with pytest.raises(ValueError, match="expected --tokens"):
        require_safe(listener, has_tls=True, has_tokens=False, insecure=False)
    require_safe(listener, has_tls=True, has_tokens=True, insecure=False)
    require_safe(listener, has_tls=False, has_tokens=False, insecure=True)


def test_addresses_as_grpc_writes_them() -> None:
    assert TcpListener("127.0.0.1", 1).address == "127.0.0.1:1"
    assert TcpListener("::1", 1).address == "[::1]:1"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_that_is_in_use_is_named(host: str) -> None:
    with TcpListener(host, 0).listen() as taken:
        listener = TcpListener(host, taken.getsockname()[1])
        for attempt in (listener.listen, listener.require_free):
            with pytest.raises(OSError) as caught:
                attempt()
            assert str(caught.value) == (f"cannot listen at {listener.address}: the port is in use by another process")
    listener.require_free()


def test_an_address_of_another_host_is_named() -> None:
    with pytest.raises(OSError, match=r"cannot listen at 192\.0\.2\.1:0: this host does not have the address"):
        TcpListener("192.0.2.1", 0).listen()
