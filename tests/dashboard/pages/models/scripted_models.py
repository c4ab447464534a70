"""A dashboard whose framework serves models that a test describes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnhal.v1 import framework_admin_pb2 as wire
from nnhal.v1 import framework_pb2
from nnhal_client.explanation import Explanation
from nnhal_hosting.access import Tokens
from tests.support.dashboard import PageBrowser, ScriptedCollector, ScriptedContacts, framework_process, framework_state
from tests.support.explanations import explanation_to_wire


def served(name: str = "net", state: str = "READY", **fields: Any) -> wire.ServedModelState:
    """Return how a version of a model fares."""
    return wire.ServedModelState(name=name, version="1", state=state, **fields)


def browser_of(
    *models: wire.ServedModelState,
    session_models: Sequence[wire.SessionModelState] = (),
    tokens: Tokens | None = None,
    **settings: Any,
) -> PageBrowser:
    """Return a browser of a dashboard whose framework serves models; ``settings`` are those of the dashboard."""
    devices = [wire.DeviceStanding(name=name, available=True) for name in ("npu", "cpu")]
    state = framework_state(models=models, session_models=session_models, repositories=["/models"], devices=devices)
    return PageBrowser(ScriptedCollector(framework_process(), framework=state), tokens, **settings)


def script_of(browser: PageBrowser) -> ScriptedContacts:
    """Return what the browser's processes are made to say, and have been asked."""
    contacts = browser.collector.contacts
    assert isinstance(contacts, ScriptedContacts)
    return contacts


def runs_by(
    browser: PageBrowser,
    plan: Explanation,
    pins: Sequence[tuple[str, str]] = (),
    handles: Sequence[int] = (),
    earlier: Sequence[wire.EarlierPlan] = (),
) -> None:
    """Have every model run by a plan."""
    answer = wire.ExplainTargetResponse(
        explanation=explanation_to_wire(plan),
        pins=[framework_pb2.Pin(match=match, device=device) for match, device in pins],
        prepared_models=handles or [0] * len(plan.steps),
        earlier=earlier,
    )
    script_of(browser).answers["framework", "explain"] = answer


def would_run_by(browser: PageBrowser, plan: Explanation | Exception) -> None:
    """Have every plan that is tried be this one, or be refused."""
    answer = plan if isinstance(plan, Exception) else explanation_to_wire(plan)
    script_of(browser).answers["framework", "plan"] = answer


def calls_of(browser: PageBrowser, method: str) -> list[tuple[Any, ...]]:
    """Return the arguments of all calls of one of the framework's methods."""
    calls = script_of(browser).calls
    return [arguments for process, name, arguments, _ in calls if (process, name) == ("framework", method)]
