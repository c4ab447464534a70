"""Loading and unloading of models, and the upload of files by a browser."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import PurePath
from urllib.parse import quote

from fastapi import APIRouter, Request
from google.protobuf import json_format, text_format
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from nnhal.inference import model_config_pb2
from nnhal_dashboard.access.visitors import Visitor
from nnhal_dashboard.web.forms import OperatorForm, done, require_form_token, require_role, with_files
from nnhal_dashboard.web.request_state import visitor_of
from nnhal_hosting.access import AccessRole
from nnhal_pages.operating.resources import models
from nnhal_pages.operating.table import Done, OperatedSystem

_ENDINGS = (".onnx", ".tflite")
_LONGEST_CONFIG = 1 << 20
_CONFIG_ENDINGS = (".pbtxt", ".json")

GivenFile = tuple[str, bytes]
"""A name and a content; both empty for no file."""
router = APIRouter()
FRAGMENTS = ()


@router.post("/models/{name}/load")
def load(request: Request, visitor: OperatorForm, name: str) -> Response:
    """Load a model, or load it again."""
    return done(request, visitor, partial(models.load, name=name), _address(name))


@router.post("/models/{name}/unload")
def unload(request: Request, visitor: OperatorForm, name: str) -> Response:
    """Unload all versions of a model."""
    return done(request, visitor, partial(models.unload, name=name), _address(name))


@router.post("/models")
async def upload(request: Request) -> Response:
    """Load a model from files of the browser. Files wait on disk, not in memory, until the form is complete."""
    visitor = visitor_of(request)
    require_role(visitor, AccessRole.ADMIN)  # before anything of it is read
    limit = request.app.state.settings.upload_bytes
    async with with_files(request, limit).form(max_files=2, max_fields=8) as form:
        require_form_token(visitor, str(form.get("form_token", "")))
        return await asyncio.to_thread(_load, request, visitor, form)


def _load(request: Request, visitor: Visitor, form: FormData) -> Response:
    network, version = _file(form, "file"), str(form.get("version", "1"))
    name = str(form.get("name", "")) or PurePath(network[0]).stem
    results: list[str] = []

    def action(at: OperatedSystem) -> Done:
        loaded = models.load_files(at, name, *files_of(network, version, _file(form, "config")))
        results.append(name)
        return loaded

    answer = done(request, visitor, action, "/models")
    if results:
        answer.headers["location"] = _address(name)
    return answer


def _file(form: FormData, field: str) -> tuple[str, bytes]:
    """Return the name and the content of a file; both are empty if none was chosen."""
    given = form.get(field)
    if not isinstance(given, UploadFile):
        return "", b""
    return given.filename or "", given.file.read()


def _address(name: str) -> str:
    return f"/models/{quote(name, safe='')}"


def files_of(network: GivenFile, version: str, config: GivenFile) -> tuple[str, dict[str, bytes]]:
    """Return the configuration as JSON, empty for none, and the files by VERSION/NAME. Raises ValueError."""
    name, content = network
    ending = PurePath(name).suffix.lower()
    if ending not in _ENDINGS:
        raise ValueError(f"file {name!r}, expected a name that ends with {' or '.join(_ENDINGS)}")
    if not content:
        raise ValueError(f"file {name!r} is empty")
    return config_json(*config) if config[0] else "", {f"{version}/model{ending}": content}


def config_json(name: str, content: bytes) -> str:
    """Return a model configuration as JSON. Raises ValueError if it is none."""
    ending = PurePath(name).suffix.lower()
    if ending not in _CONFIG_ENDINGS:
        raise ValueError(f"configuration {name!r}, expected a name that ends with {' or '.join(_CONFIG_ENDINGS)}")
    if len(content) > _LONGEST_CONFIG:
        raise ValueError(f"configuration {name!r} has {len(content)} bytes, expected {_LONGEST_CONFIG} at the most")
    try:
        text = content.decode()
        if ending == ".json":
            json.loads(text)
            return text
        message = text_format.Parse(text, model_config_pb2.ModelConfig())
    except (ValueError, text_format.ParseError) as error:
        raise ValueError(f"configuration {name!r}: {error}") from error
    except RecursionError as error:
        raise ValueError(f"configuration {name!r} is nested too deeply") from error
    return json_format.MessageToJson(message, preserving_proto_field_name=True)
