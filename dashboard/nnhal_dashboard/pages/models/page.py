"""All pages of models."""

from __future__ import annotations

from fastapi import APIRouter

from nnhal_dashboard.pages.models import index, loading, model, plan
from nnhal_dashboard.pages.page import Page

_router = APIRouter()
for _part in (index, loading, model, plan):
    _router.include_router(_part.router)

PAGE = Page(_router, (*index.FRAGMENTS, *model.FRAGMENTS))
