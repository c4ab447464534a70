"""Hosts that a request may name: none that a stranger can own, unless the stranger gains nothing."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from nnhal_hosting.access import AllowedHosts, HostName, TcpListener, objection_to_page

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


HOST = "localhost:8003"


def objection(method: str = "POST", /, **headers: str) -> str:
    """Return what there is against a request with these headers and a good Host, if they have none."""
    return objection_to_page(method, named({"host": HOST, **headers}), AllowedHosts())


def named(headers: dict[str, str]) -> dict[bytes, bytes]:
    return {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()}


def test_a_program_that_is_no_browser_is_served() -> None:
    assert objection() == ""
    assert objection_to_page("POST", {}, AllowedHosts()) == ""


@pytest.mark.parametrize("site", ["same-origin", "none"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_page_of_the_server_is_served(site: str, scheme: str) -> None:
    assert objection(origin=f"{scheme}://{HOST}", sec_fetch_site=site, sec_fetch_mode="cors") == ""
    assert objection("GET", sec_fetch_site=site) == ""


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://localhost:8004", "http://localhost", "null", "localhost:8003", "file://"]
)
def test_a_page_of_another_server_is_refused_by_its_origin(origin: str) -> None:
    assert objection(origin=origin) == f"a page of {origin} sent this request, expected a page of this server"
    assert objection_to_page("POST", named({"host": HOST, "origin": origin}), AllowedHosts(allows_any=True))


def test_a_page_whose_name_has_come_to_mean_this_host_is_refused() -> None:
    told = objection(host="evil.example", origin="http://evil.example", sec_fetch_site="same-origin")
    assert told.startswith("the request is for host 'evil.example', expected localhost or a loopback address;")
    assert objection("GET", host="evil.example", sec_fetch_mode="navigate", sec_fetch_dest="document")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "something-new"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_what_another_page_loads_or_sends_is_refused(site: str, method: str) -> None:
    assert f"Sec-Fetch-Site: {site}" in objection(method, sec_fetch_site=site, sec_fetch_mode="no-cors")
    framed = objection(method, sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="iframe")
    assert f"Sec-Fetch-Site: {site}" in framed


def test_a_link_of_another_page_leads_here_and_a_form_does_not() -> None:
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert objection("GET", **link) == ""
    assert "Sec-Fetch-Site: cross-site" in objection("POST", **link)


def test_a_message_has_no_more_of_a_header_than_a_line() -> None:
    assert len(objection(origin="http://" + "e" * 5000)) < 200
    assert len(objection(host="e" * 5000)) < 250
    assert len(objection(sec_fetch_site="e" * 5000)) < 250
