"""The pages on which models are tried."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.datastructures import FormData
from starlette.responses import RedirectResponse, Response

from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.tensors import Tensor
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_client.tensors import tensor_from_wire
from nnhal_dashboard.pages.trying.fields import WAYS
from nnhal_dashboard.pages.trying.form import TrialForm, first_form, sent_form
from nnhal_dashboard.pages.trying.given import seen
from nnhal_dashboard.pages.trying.running import TrialRun, run_trial
from nnhal_dashboard.pages.trying.times import shown_trial
from nnhal_dashboard.web.forms import require_form_token, require_role, with_files
from nnhal_dashboard.web.request_state import collector_of, show_page, visitor_of
from nnhal_hosting.access import AccessRole

router = APIRouter()
_MOST_BYTES = 256 << 20
"""The most bytes of all files together."""
_FIELD_BYTES = 16 << 20
"""The most bytes of a field, such as one with JSON."""
_MOST_FIELDS = 2000
_LATE = (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)


@router.get("/try")
def models_to_try(request: Request, model: str = "") -> Response:
    """List the models that can be tried, or go to one."""
    if model:
        return RedirectResponse(f"/try/{quote(model, safe='')}", 303)
    snapshot = collector_of(request).look()
    models = [each for each in (snapshot.framework.models if snapshot.framework else ()) if each.state == "READY"]
    return show_page(request, "trying/models.html", {"models": models, "framework": snapshot.framework}, "Try it")


@router.get("/try/{model}")
def try_form(request: Request, model: str, version: str = "") -> Response:
    """Show the form of a model's inputs."""
    described = _described(request, model, version)
    return _page(request, model, described, first_form(_inputs(described)))


@router.post("/try/{model}")
async def try_model(request: Request, model: str, version: str = "") -> Response:
    """Run a model. The answer is the form as it was sent, with what came of it: nothing is kept here."""
    visitor = visitor_of(request)
    require_role(visitor, AccessRole.INFER)  # before anything of it is read
    limit = min(_MOST_BYTES, request.app.state.settings.upload_bytes)
    async with with_files(request, limit + _FIELD_BYTES).form(
        max_files=_MOST_FIELDS, max_fields=_MOST_FIELDS, max_part_size=_FIELD_BYTES
    ) as form:
        require_form_token(visitor, str(form.get("form_token", "")))
        return await asyncio.to_thread(_try, request, model, version, form)


def _try(request: Request, model: str, version: str, sent: FormData) -> Response:
    described = _described(request, model, version)
    snapshot = collector_of(request).look()
    form = sent_form(_inputs(described), sent)
    values, problems = form.values()
    run = None
    problem, status = "", 422 if problems else 200
    try:
        deadline, count = form.deadline_seconds, form.run_count
        if not problems:
            if snapshot.host is None:
                raise DeadObjectError("no framework is known; start one with 'nnhal up'")
            run = run_trial(snapshot.host.directory, model, described.version, values, deadline, count)
    except (ValueError, NnhalError) as error:
        problem, status = _problem_of(error, form)
    return _page(request, model, described, form, run, problems, problem, status)


def _problem_of(error: Exception, form: TrialForm) -> tuple[str, int]:
    """Return what a page says of an error, and its status."""
    if isinstance(error, ValueError):
        return str(error), 422
    if isinstance(error, HalError) and error.status in _LATE:
        return f"The deadline of {form.seconds} s is missed: {error.message}", 504
    return str(error), 502


def _described(request: Request, model: str, version: str) -> wire.GetServedModelResponse:
    described: wire.GetServedModelResponse = collector_of(request).contacts.framework().served_model(model, version)
    return described


def _inputs(described: wire.GetServedModelResponse) -> list[Tensor]:
    return [tensor_from_wire(tensor) for tensor in described.info.inputs]


def _page(
    request: Request,
    model: str,
    described: wire.GetServedModelResponse,
    form: TrialForm,
    run: TrialRun | None = None,
    problems: Mapping[int, str] = MappingProxyType({}),
    problem: str = "",
    status: int = 200,
) -> Response:
    labels = {output: list(each.labels) for output, each in described.labels.items()}
    values = {
        "model": model,
        "version": described.version,
        "asked": request.url.query,
        "form": form,
        "ways": WAYS,
        "problems": problems,
        "problem": problem,
        "run": shown_trial(run, model, labels) if run is not None else None,
        "seen": {fields.number: seen(fields) for fields in form.inputs} if run is not None else {},
    }
    return show_page(request, "trying/trial.html", values, f"Try {model}", status)


FRAGMENTS = ()
