"""A part of a page that is told anew changes only what differs."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

import nnhal_dashboard

pytestmark = pytest.mark.browser

SCRIPT = (Path(nnhal_dashboard.__file__).parent / "static/morph.js").read_text().replace("export function", "function")
FIRST = (
    "<p>one</p><table><tbody><tr data-key='a'><td>a</td></tr><tr data-key='b'><td>b</td></tr></tbody></table>"
    "<details id='d' open><summary>s</summary>x</details><time datetime='2026-01-01T00:00:00Z'>00:00:00 UTC</time>"
)
THEN = (
    "<p class='new'>two</p><table><tbody><tr data-key='c'><td>c</td></tr><tr data-key='b'><td>b2</td></tr>"
    "<tr data-key='a'><td>a</td></tr><tr data-key='a'><td>twin</td></tr></tbody></table>"
    "<details id='d' open><summary>s</summary>y</details><time datetime='2026-01-01T00:00:00Z'>00:00:00 UTC</time>"
    "<b>z</b>"
)


def test_what_is_told_anew_changes_only_what_differs(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content("<div id='part'></div>")
    page.add_script_tag(content=f"{SCRIPT}; window.morph = morph;", type="module")
    page.wait_for_function("() => window.morph")
    told = page.evaluate(
        """([first, then]) => {
            const part = document.getElementById("part");
            morph(part, first);
            const rows = [...part.querySelectorAll("tr")];
            part.querySelector("details").open = false;
            part.querySelector("time").textContent = "01:00:00";
            morph(part, then);
            const now = [...part.querySelectorAll("tr")];
            return {
                same: [now[1] === rows[1], now[2] === rows[0]],
                closed: !part.querySelector("details").open,
                time: part.querySelector("time").textContent,
                html: part.innerHTML.replace("01:00:00", "00:00:00 UTC"),
            };
        }""",
        [FIRST, THEN],
    )
    page.close()
    assert told["same"] == [True, True]
    assert told["closed"]
    assert told["time"] == "01:00:00"
    assert told["html"] == THEN.replace("'", '"').replace('id="d" open', 'id="d"')
