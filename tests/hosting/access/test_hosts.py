"""Which hosts a request may name: none that a stranger can own, unless the stranger gains nothing."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from nnhal_hosting.access import AllowedHosts, HostName, TcpListener

LOOPBACK = TcpListener("127.0.0.1", 8000)
OPEN = TcpListener("0.0.0.0", 8000)
LOOPBACK_NAMES = ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:80", "127.8.8.8:1", "[::1]", "[::1]:8000"]
CONTAINER_NAMES = ["framework:8000", "framework", "10.1.2.3:8000", "[fd00::1]:8000", "nnhal.default.svc.cluster.local"]
OWNED_BY_STRANGERS = [
    *("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "evil.local.example"),
    *("localhost:8000.evil.example", "localhost@evil.example", "[::1].evil.example", "framework:evil.example", ""),
]


@pytest.mark.parametrize("has_tokens", [False, True])
@pytest.mark.parametrize("host", LOOPBACK_NAMES)
def test_loopback_names_are_always_good(host: str, has_tokens: bool) -> None:
    assert AllowedHosts.of(LOOPBACK, has_tokens).admits(host)
    assert AllowedHosts.of(OPEN, has_tokens, ["given.example"]).admits(host)
    assert AllowedHosts().admits(host)


@pytest.mark.parametrize("has_tokens", [False, True])
@pytest.mark.parametrize("host", [*OWNED_BY_STRANGERS, *CONTAINER_NAMES])
def test_a_loopback_address_has_no_other_names(host: str, has_tokens: bool) -> None:
    assert not AllowedHosts.of(LOOPBACK, has_tokens).admits(host)


@pytest.mark.parametrize("host", CONTAINER_NAMES)
def test_an_open_address_has_names_that_no_stranger_can_own(host: str) -> None:
    assert AllowedHosts.of(OPEN, has_tokens=False).admits(host)


@pytest.mark.parametrize("host", OWNED_BY_STRANGERS)
def test_an_open_address_without_tokens_has_no_names_of_strangers(host: str) -> None:
    assert not AllowedHosts.of(OPEN, has_tokens=False).admits(host)


def test_an_open_address_with_tokens_has_any_name_until_some_are_given() -> None:
    assert AllowedHosts.of(OPEN, has_tokens=True).admits("npu.example.com")
    some = AllowedHosts.of(OPEN, has_tokens=True, names=["npu.example.com"])
    assert some.admits("npu.example.com:8000")
    assert not some.admits("evil.example")


@pytest.mark.parametrize("listener", [LOOPBACK, OPEN])
def test_names_that_are_given_are_good_beside_the_others(listener: TcpListener) -> None:
    hosts = AllowedHosts.of(listener, False, ["npu.example.com", "fd00::2"])
    assert hosts.admits("npu.example.com")
    assert hosts.admits("NPU.example.com:80")
    assert hosts.admits("[fd00::2]:80")
    assert hosts.admits("localhost")
    assert not hosts.admits("evil.example")


@pytest.mark.parametrize("host", OWNED_BY_STRANGERS)
def test_a_star_stands_for_every_name(host: str) -> None:
    assert AllowedHosts.of(LOOPBACK, False, ["*"]).admits(host)


def test_the_name_that_a_server_listens_at_is_its_own() -> None:
    hosts = AllowedHosts.of(TcpListener("npu.example.com", 8000), has_tokens=False)
    assert hosts.admits("npu.example.com:8000")
    assert not hosts.admits("evil.example")


def test_hosts_in_words() -> None:
    assert str(AllowedHosts.of(LOOPBACK, False)) == "localhost or a loopback address"
    given = AllowedHosts.of(OPEN, False, ["npu.example.com"])
    assert str(given) == "localhost or a loopback address, an IP address, a name without a dot, npu.example.com"


@pytest.mark.parametrize(
    ("given", "name"), [("NPU.Example", "npu.example"), ("[::1]", "::1"), ("10.0.0.1", "10.0.0.1"), ("*", "*")]
)
def test_names_in_settings_are_brought_into_one_form(given: str, name: str) -> None:
    assert TypeAdapter(HostName).validate_python(given) == name


@pytest.mark.parametrize("given", ["http://npu.example", "npu.example:8000", "", "*.example", "a b", "[::1]:80", "é"])
def test_what_is_no_name_in_settings_is_an_error(given: str) -> None:
    with pytest.raises(ValidationError, match="without scheme and port"):
        TypeAdapter(HostName).validate_python(given)
