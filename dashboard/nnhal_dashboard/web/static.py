"""The dashboard's own files: style sheets, modules of script, the icon."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files

from fastapi import APIRouter, HTTPException
from starlette.responses import Response

from nnhal_pages.comparison import comparison_style
from nnhal_pages.explanation.fragment import style
from nnhal_pages.svg import drawing_style

router = APIRouter()
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PLANS = "plans.css"
"""The style sheet of plans and pictures, which pages share with files."""


@router.get("/static/{name}")
def static_file(name: str, v: str = "") -> Response:
    """Answer with a file; with its version in the query, browsers may keep it."""
    content = _content(name)
    if content is None:
        raise HTTPException(404, f"no file {name!r}")
    kept = "public, max-age=31536000, immutable" if v == version() else "no-cache"
    kind = _TYPES[name[name.rindex(".") :]]
    return Response(content, media_type=kind, headers={"cache-control": kept})


@router.get("/favicon.ico")
def icon() -> Response:
    """Answer with the icon."""
    return Response(_content("icon.svg"), media_type=_TYPES[".svg"], headers={"cache-control": "max-age=86400"})


@cache
def version() -> str:
    """Return what changes when a file does."""
    digest = sha256(_plans_style().encode())
    folder = files("nnhal_dashboard").joinpath("static")
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _plans_style() -> str:
    return style() + comparison_style() + drawing_style()


@cache
def _content(name: str) -> bytes | None:
    if name == _PLANS:
        return _plans_style().encode()
    folder = files("nnhal_dashboard").joinpath("static")
    known = {file.name: file for file in folder.iterdir()}
    return known[name].read_bytes() if name in known else None
