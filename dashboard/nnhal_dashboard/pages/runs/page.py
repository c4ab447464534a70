"""All pages of runs."""

from __future__ import annotations

from fastapi import APIRouter

from nnhal_dashboard.pages.page import Page
from nnhal_dashboard.pages.runs import listing, recordings, run

_router = APIRouter()
for _part in (listing, run, recordings):
    _router.include_router(_part.router)

PAGE = Page(_router, (*listing.FRAGMENTS, *recordings.FRAGMENTS))
