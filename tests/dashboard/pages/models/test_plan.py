"""The page of a plan."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest

from nnhal.errors import DeadObjectError, invalid_argument
from nnhal.v1 import admin_pb2, framework_pb2
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_client.explanation import Explanation
from tests.dashboard.pages.models.scripted_models import browser_of, calls_of, runs_by, script_of, served, would_run_by
from tests.support.dashboard import PageBrowser, ScriptedCollector, device_process, framework_process, framework_state
from tests.support.explanations import Placed, explained

PLAN = "/models/net/plan"
REFUSAL = {"cpu": "it takes no <floats>"}


def two_steps(device: str = "npu") -> Explanation:
    first = Placed("conv", "CONV_2D", device, ("x",), ("a",), REFUSAL)
    return explained(
        [first, Placed("relu", "RELU", device, ("a",), ("b",)), Placed("soft", "SOFTMAX", "cpu", ("b",), ("y",))],
        devices=("npu", "gpu", "cpu"),
    )


@pytest.fixture
def browser() -> PageBrowser:
    browser = browser_of(served())
    runs_by(browser, two_steps())
    return browser


def links(page: str) -> list[str]:
    return [unescape(address) for address in re.findall(r"href=['\"]([^'\"]*)['\"]", page)]


def test_the_graph_has_the_steps_and_opens_them(browser: PageBrowser) -> None:
    closed = browser.page(PLAN)
    assert "Step 0 on npu" in closed
    assert "Open step 0" in closed
    opened = browser.page(f"{PLAN}?open=0")
    assert "Close step 0" in opened
    assert "CONV_2D, conv, on npu" in opened


def test_what_runs_have_taken_and_copied_is_told_beside_the_model() -> None:
    copied = wire.CopiedBytes(between=0, clients=2048, staged=1024)
    counts = wire.ModelCounts(runs=4, run_ns=8_000_000, copied=copied)
    browser = browser_of(served(counts=counts, modelled_ns=500_000))
    runs_by(browser, two_steps())
    told = " ".join(re.sub("<[^>]*>", "", browser.page(PLAN)).split())
    assert "a run takes 2 ms in the mean of 4 runs, 4 times of the modelled 500 µs, and copies" in told
    assert "0 B between devices, 512 B to and from clients, 256 B staged." in told


def test_what_each_device_said_of_an_operation_is_told(browser: PageBrowser) -> None:
    page = browser.page(f"{PLAN}?node=0")
    assert "Operation 0" in page
    assert "it takes no &lt;floats&gt;" in page


def test_a_link_of_the_graph_keeps_what_else_is_shown(browser: PageBrowser) -> None:
    page = browser.page(f"{PLAN}?open=0&node=1&version=1")
    nodes = [parse_qs(urlsplit(link).query) for link in links(page) if link.endswith("node=0#chosen")]
    assert nodes
    assert all(query == {"version": ["1"], "open": ["0"], "node": ["0"]} for query in nodes)


def test_the_figures_of_a_step_are_drawn() -> None:
    figures = admin_pb2.WorkloadFigures(
        memories=[
            admin_pb2.MemoryFigure(
                name="SRAM",
                limit_bytes=1024,
                unit="cycles",
                spans=[admin_pb2.MemorySpan(name="a", bytes=512, begin=0, end=9, kind="feature map")],
            )
        ],
    )
    collector = ScriptedCollector(
        device_process("npu"), framework_process(), framework=framework_state(models=[served()])
    )
    browser = PageBrowser(collector)
    runs_by(browser, two_steps(), handles=[7, 0])
    collector.contacts.answers["npu", "figures"] = figures
    page = browser.page(f"{PLAN}?step=0")
    assert "SRAM" in page
    assert ("npu", "figures", (7,), {}) in collector.contacts.calls
    assert "no prepared model" in browser.page(f"{PLAN}?step=1")


def test_a_device_that_is_silent_says_why_there_are_no_figures() -> None:
    collector = ScriptedCollector(
        device_process("npu"), framework_process(), framework=framework_state(models=[served()])
    )
    browser = PageBrowser(collector)
    runs_by(browser, two_steps(), handles=[7, 0])
    collector.contacts.answers["npu", "figures"] = DeadObjectError("npu is gone")
    assert "npu is gone" in browser.page(f"{PLAN}?step=0")


def test_a_form_leads_to_the_plan_that_is_tried(browser: PageBrowser) -> None:
    runs_by(browser, two_steps(), pins=[("op:RELU", "npu")])
    answer = browser.get(f"{PLAN}/pin?version=1&pin=op:RELU%3Dnpu&at=0&from=1&to=2&device=cpu&with=cpu")
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    assert query == {"version": ["1"], "pin": ["op:RELU=npu", "index:0-2=cpu"], "with": ["cpu"]}


def test_a_wrong_choice_loses_nothing(browser: PageBrowser) -> None:
    answer = browser.get(f"{PLAN}/pin?pin=op:RELU%3Dnpu&from=77&device=cpu")
    assert answer.headers["location"] == f"{PLAN}?pin=op%3ARELU%3Dnpu#pin"
    would_run_by(browser, two_steps("gpu"))
    assert "expected a number from 0 to 2" in unescape(browser.page(answer.headers["location"]))


def test_a_plan_that_is_tried_stands_beside_the_one_that_runs(browser: PageBrowser) -> None:
    would_run_by(browser, two_steps("gpu"))
    page = browser.page(f"{PLAN}?pin=index:0-1%3Dgpu&with=gpu&with=cpu")
    assert "2 operations moved" in page
    assert "Only these devices may be used: gpu, cpu." in page
    ((target, pins, devices),) = calls_of(browser, "plan")
    assert target == wire.PlanTarget(model="net")
    assert [(pin.match, pin.device) for pin in pins] == [("index:0-1", "gpu")]
    assert devices == ("gpu", "cpu")


def test_a_node_of_the_plan_that_is_tried_is_told_of(browser: PageBrowser) -> None:
    would_run_by(browser, two_steps("gpu"))
    page = browser.page(f"{PLAN}?pin=index:0-1%3Dgpu&side=new&node=0")
    assert "Operation 0 of the plan that is tried" in page


def test_a_plan_that_cannot_be_says_why_and_keeps_the_pins(browser: PageBrowser) -> None:
    try:
        invalid_argument("cpu refuses CONV_2D: <floats>")
    except Exception as error:
        would_run_by(browser, error)
    page = browser.page(f"{PLAN}?pin=index:0%3Dcpu")
    assert "cpu refuses CONV_2D: &lt;floats&gt;" in page
    assert "index:0" in page
    assert "Step 0 on npu" in page
    assert ">Apply<" not in page


def test_a_pin_can_be_removed(browser: PageBrowser) -> None:
    would_run_by(browser, two_steps("gpu"))
    page = browser.page(f"{PLAN}?pin=index:0%3Dgpu&pin=index:1%3Dgpu")
    assert f"{PLAN}?pin=index%3A1%3Dgpu" in links(page)
    assert f"{PLAN}?pin=" in links(browser.page(f"{PLAN}?pin=index:0%3Dgpu"))


def test_a_plan_is_applied_and_the_earlier_one_is_offered(browser: PageBrowser) -> None:
    def apply(*_: object) -> str:
        runs_by(browser, two_steps("gpu"))
        return 'key: "nnhal.placement"'

    would_run_by(browser, two_steps("gpu"))
    script_of(browser).answers["framework", "apply"] = apply
    trial = f"{PLAN}?pin=index:0-1%3Dgpu"
    answer = browser.post(PLAN, trial, {"pin": "index:0-1=gpu"})
    assert answer.headers["location"] == PLAN
    ((name, pins, devices, version),) = calls_of(browser, "apply")
    assert version == ""
    assert (name, [(pin.match, pin.device) for pin in pins], devices) == ("net", [("index:0-1", "gpu")], ())
    page = browser.page(PLAN)
    assert "nnhal.placement" in page
    assert "Run this one again" in page


def test_a_plan_that_cannot_be_applied_says_why(browser: PageBrowser) -> None:
    would_run_by(browser, two_steps("gpu"))
    script_of(browser).answers["framework", "apply"] = lambda *_: invalid_argument("gpu is gone")
    browser.post(PLAN, f"{PLAN}?pin=index:0%3Dgpu", {"pin": "index:0=gpu"})
    assert "gpu is gone" in browser.page(PLAN)


def test_an_earlier_plan_runs_again_by_the_page_that_tries_it(browser: PageBrowser) -> None:
    runs_by(browser, two_steps(), pins=[("op:RELU", "npu")])
    browser.page(PLAN)
    runs_by(browser, two_steps("cpu"))
    page = browser.page(PLAN)
    (again,) = [link for link in links(page) if "again=" in link]
    assert parse_qs(urlsplit(again).query)["pin"] == ["op:RELU=npu"]
    would_run_by(browser, two_steps())
    tried = browser.page(again)
    assert "every operation runs where it ran" in tried
    assert ">Apply<" in tried
    would_run_by(browser, two_steps("cpu"))
    assert "2 operations would run elsewhere than they did" in browser.page(again)


def test_a_plan_that_a_command_has_changed_runs_again_too(browser: PageBrowser) -> None:
    pins = [framework_pb2.Pin(match="op:RELU", device="npu")]
    told = wire.EarlierPlan(since_ns=1, pins=pins, devices=["npu", "gpu", "cpu"], steps=["npu", "cpu"], modelled_ns=5e3)
    runs_by(browser, two_steps("gpu"), earlier=[told])
    page = browser.page(PLAN)
    assert "From 00:00:00 UTC on: 2 steps on npu, cpu, modelled 5 µs, with 1 pin." in page
    (again,) = [link for link in links(page) if "again=" in link]
    assert parse_qs(urlsplit(again).query)["pin"] == ["op:RELU=npu"]
    would_run_by(browser, two_steps())
    assert "and the same steps: npu, cpu." in browser.page(again)
    would_run_by(browser, two_steps("cpu"))
    assert "and other steps: cpu, where there were npu, cpu." in browser.page(again)


def test_a_plan_that_a_page_has_shown_is_not_told_twice(browser: PageBrowser) -> None:
    browser.page(PLAN)
    told = wire.EarlierPlan(since_ns=1, devices=["npu", "gpu", "cpu"], steps=["npu", "cpu"])
    runs_by(browser, two_steps("gpu"), earlier=[told])
    assert len([link for link in links(browser.page(PLAN)) if "again=" in link]) == 1


def test_a_plan_is_remembered_by_whichever_address_it_was_seen(browser: PageBrowser) -> None:
    browser.page(f"{PLAN}?version=1")
    runs_by(browser, two_steps("cpu"))
    (again,) = [link for link in links(browser.page(PLAN)) if "again=" in link]
    assert "version=" not in again
    assert not [link for link in links(browser.page(f"{PLAN}?version=2")) if "again=" in link]


def test_devices_that_were_not_allowed_are_allowed_again(browser: PageBrowser) -> None:
    browser.page(PLAN)
    runs_by(browser, replace(two_steps("cpu"), devices=two_steps().devices[2:]))
    (again,) = [link for link in links(browser.page(PLAN)) if "again=" in link]
    query = parse_qs(urlsplit(again).query, keep_blank_values=True)
    assert (query["pin"], query["with"]) == ([""], ["npu", "gpu", "cpu"])


def test_an_earlier_plan_whose_devices_are_gone_says_so(browser: PageBrowser) -> None:
    runs_by(browser, two_steps("gpu"))
    browser.page(PLAN)
    runs_by(browser, two_steps("cpu"))
    page = browser.page(PLAN)
    assert "It cannot run again now: gpu is gone or drained." in page
    assert not [link for link in links(page) if "again=" in link]


def test_who_refused_is_summed(browser: PageBrowser) -> None:
    page = browser.page(PLAN)
    assert "cpu refused 1 of 3: it takes no &lt;floats&gt;" in page
    assert f"{PLAN}?node=0#chosen" in links(page)


def test_missing_devices_are_told() -> None:
    browser = browser_of(served(missing=["fpga"]))
    runs_by(browser, two_steps())
    assert "fpga is missing" in browser.page(PLAN)


def test_a_file_is_downloaded_that_needs_no_other(browser: PageBrowser) -> None:
    answer = browser.get(f"{PLAN}.html?version=1")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "Plan of net 1" in answer.text
    assert not re.search(r"<script|<link|https?://", answer.text)


@pytest.mark.parametrize("query", ["node=x", "side=left", "open=a", "pin=a", "open=-1"])
def test_a_query_that_makes_no_sense_is_refused(browser: PageBrowser, query: str) -> None:
    assert "expected" in browser.page(f"{PLAN}?{query}", 400)


@pytest.mark.parametrize("query", ["node=3", "step=2"])
def test_what_the_plan_does_not_have_is_not_found(browser: PageBrowser, query: str) -> None:
    assert "the plan has no" in browser.page(f"{PLAN}?{query}", 404)


def test_an_unknown_model_is_not_found(browser: PageBrowser) -> None:
    browser.page("/models/other/plan", 404)


def test_a_model_that_is_not_loaded_has_no_plan(browser: PageBrowser) -> None:
    script_of(browser).answers["framework", "explain"] = lambda _: invalid_argument("net is not ready")
    assert "net is not ready" in browser.page(PLAN, 409)


def test_the_model_of_a_session_is_shown_without_apply() -> None:
    model = wire.SessionModelState(session="s3", name="mine/too", devices=["npu"])
    browser = browser_of(session_models=[model])
    runs_by(browser, two_steps())
    script_of(browser).answers["framework", "explain"].missing.append("fpga")
    would_run_by(browser, two_steps("gpu"))
    path = "/sessions/framework/s3/models/mine%2Ftoo/plan"
    assert "Step 0 on npu" in browser.page(path)
    assert "fpga is missing" in browser.page(path)
    page = browser.page(f"{path}?pin=index:0%3Dgpu")
    assert "2 operations moved" in page
    assert ">Apply<" not in page
    assert calls_of(browser, "explain")[0] == (wire.PlanTarget(model="mine/too", session="s3"),)
    assert browser.get(f"{path}/pin?at=0&device=gpu").headers["location"] == f"{path}?pin=index%3A0%3Dgpu"
    assert browser.get(f"{path}.html").headers["content-disposition"].startswith("attachment")
    browser.page("/sessions/framework/s4/models/mine%2Ftoo/plan", 404)
    browser.page("/sessions/npu/s3/models/mine%2Ftoo/plan", 404)
