"""Names that strangers choose are text, on every page."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from onnx import helper
from playwright.sync_api import Browser, Page, expect

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from tests.support.browsing import Visit
from tests.support.onnx_models import onnx_model
from tests.support.showcase import Showcase, showcase

pytestmark = pytest.mark.browser

_ATTACK = "<img src=x onerror=window.hacked=1>"
_NAMES = (
    f"\"'>{_ATTACK}",
    "javascript:window.hacked=1",
    "<script>window.hacked=1",
    "<svg onload=window.hacked=1>",
    "{{ 7 * 7 }}${7 * 7}",
    "\u202etxet tfel ot thgir",
)
"""Names of models: none has a slash, since they are folders too."""

_LISTS = ("/", "/models", "/devices/cpu_acc", "/memory", "/sessions", "/metrics", "/runs", "/logs")


@pytest.fixture(scope="module")
def testbed(browser: Browser) -> Iterator[Showcase]:
    """Start a testbed with models of which every name is an attack."""
    with showcase({name: _network(name) for name in _NAMES}) as started:
        yield started


@pytest.mark.parametrize("name", _NAMES, ids=range(len(_NAMES)))
def test_the_pages_of_a_model_show_its_names_as_text(visit: Visit, name: str) -> None:
    address = f"/models/{quote(name, safe='')}"
    for path in (address, f"{address}/plan", f"{address}/plan?open=all&node=0"):
        page = visit.open(path)
        expect(page.get_by_role("heading", level=1)).to_contain_text(name.partition(" ")[0])
        _require_unharmed(page)


@pytest.mark.parametrize("path", _LISTS)
def test_the_pages_of_all_models_show_names_as_text(visit: Visit, testbed: Showcase, path: str) -> None:
    with RemoteDevice(Endpoint(testbed.directory / "cpu_acc"), _NAMES[0]):
        page = visit.open(path)
        if page.locator("[data-live]").count():
            expect(page.locator("#liveness")).to_have_text("live")
        _require_unharmed(page)


@pytest.mark.parametrize(
    "path",
    [
        "/nothing/{}",
        "/devices/{}",
        "/models/{}",
        "/sessions/framework/{}",
        "/sessions?text={}",
        "/sessions?sort={}",
        "/logs?text={}",
        "/logs?process={}",
        "/runs?model={}",
        "/models/digits/plan?pin={}",
        "/models/digits/plan?node={}",
        "/metrics?minutes={}",
        "/metrics?range={}",
        "/events?text={}",
        "/runs?from={}",
        "/login?to={}",
    ],
)
def test_addresses_that_strangers_make_are_text(visit: Visit, path: str) -> None:
    visit.expected.append("status of 4")
    page = visit.context.new_page()
    for name in (_ATTACK, f"\"'>{_ATTACK}", "javascript:window.hacked=1//"):
        page.goto(visit.address + path.format(quote(name, safe="")))
        _require_unharmed(page)


def _network(name: str) -> bytes:
    """A model whose nodes and values have a name too."""
    nodes = [
        helper.make_node("Relu", [f"in {name}"], [f"between {name}"], name=f"first {name}"),
        helper.make_node("Tanh", [f"between {name}"], [f"out {name}"], name=f"second {name}"),
    ]
    return onnx_model(nodes, {f"in {name}": (1, 8)}, [f"out {name}"]).SerializeToString()


def _require_unharmed(page: Page) -> None:
    """Fail if a name became an element, an attribute or an address that runs. What a page asks for, its visit minds."""
    harm = page.evaluate(
        """() => [
            ...document.querySelectorAll("img[src='x'], svg[onload], main script, [onerror], [href^='javascript:']")
        ].map((each) => each.outerHTML)"""
    )
    assert not harm, harm
    assert page.evaluate("window.hacked") is None
