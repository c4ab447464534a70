"""Which requests of browsers are served: those of the server's own pages, and links to them."""

from __future__ import annotations

import pytest

from nnhal_hosting.access import AllowedHosts, objection_to_page

HOST = "localhost:8003"


def objection(method: str = "POST", /, **headers: str) -> str:
    """What there is against a request with these headers and a good Host, if they have none."""
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
