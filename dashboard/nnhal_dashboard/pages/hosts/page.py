"""All hosts with their totals, each with a link to its own dashboard; and what this host tells the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.hosts import SUMMARY, HostState, HostSummary
from nnhal_dashboard.pages.page import Page
from nnhal_dashboard.web.request_state import collector_of, show_page

_FIRST_SECONDS = 2.5
"""How long the page itself waits for hosts that nobody has asked yet: longer than one may take to answer."""
router = APIRouter()


@router.get("/hosts")
def hosts(request: Request) -> Response:
    """Show all hosts."""
    collector = collector_of(request)
    collector.look()
    collector.hosts.look(_FIRST_SECONDS)
    return show_page(request, "hosts/hosts.html", {}, "Hosts")


@router.get(SUMMARY)
def summary(request: Request) -> Response:
    """Tell the dashboard of another host what this one does."""
    collector = collector_of(request)
    return JSONResponse(HostSummary.of(collector.snapshot, collector.history).model_dump())


def _list(moment: Moment) -> Mapping[str, Any]:
    known = moment.collector.hosts
    others = known.look()
    own = HostState(known.name, "/", HostSummary.of(moment.snapshot, moment.collector.history))
    rows = [own, *others]
    told = [row.summary for row in rows if row.summary is not None]
    return {
        "rows": sorted(rows, key=_importance),
        "total": HostSummary.total(told),
        "answering": len(told),
        "own": own,
        "trouble": known.trouble,
        "is_configured": known.is_configured,
    }


def _importance(row: HostState) -> tuple[bool, bool, str]:
    """Hosts that do not answer come first, then those where something is wrong."""
    return row.summary is not None, row.summary is not None and not row.summary.errors, row.name


PAGE = Page(router, (Fragment("hosts.list", "hosts/list.html", _list),))
