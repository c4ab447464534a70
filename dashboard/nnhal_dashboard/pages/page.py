"""Parts of a page."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter

from nnhal_dashboard.live.fragments import Fragment


@dataclass(frozen=True, slots=True)
class Page:
    """A folder of pages: its addresses, and the parts of them that are live."""

    router: APIRouter
    fragments: tuple[Fragment, ...] = ()
