"""A model whose every name is an attack, on every page of models."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from nnhal.v1 import framework_admin_pb2 as wire
from tests.dashboard.pages.models.scripted_models import browser_of, runs_by, would_run_by
from tests.pages.explanation.test_attacks import ATTACKS, attacked
from tests.support.html import parsed

NAMES = [text for text in ATTACKS if len(text) < 1000]
SCRIPTS = {"/static/live.js", "/static/plan.js", "/static/time.js"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_no_name_is_more_than_a_text(name: str) -> None:
    served = wire.ServedModelState(name=name, version=name, state="READY", reason=name, devices=[name], missing=[name])
    own = wire.SessionModelState(session="s1", name=name, devices=[name])
    browser = browser_of(served, session_models=[own])
    runs_by(browser, attacked(name), pins=[(f"name:{name}", name)], handles=[1, 2])
    would_run_by(browser, attacked(name))
    own_plan = f"/sessions/framework/s1/models/{quote(name, safe='')}/plan"
    pin = quote(f"name:{name}={name}", safe="")
    for path in (
        "/models",
        own_plan,
        f"{own_plan}?open=all&node=0",
        f"{own_plan}?step=0",
        f"{own_plan}?pin={pin}&with={pin}&open=all&open_new=all&side=new&node=1",
    ):
        document = parsed(browser.page(path))
        for element in document.elements:
            assert element.tag not in ("img", "iframe", "object", "style", "base"), path
            assert not any(attribute.startswith("on") or attribute == "style" for attribute in element.attributes), path
            assert element.attributes.get("href", "/").startswith(("/", "#")), path
        scripts = {element.attributes.get("src", "").partition("?")[0] for element in document.all("script")}
        assert scripts <= SCRIPTS, path
