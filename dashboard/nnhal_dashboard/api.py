"""The API for programs, ``/api/v1/…``: reads and acts by the table of resources that pages and commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from inspect import Parameter
from operator import or_
from typing import Annotated, Any, get_args

import orjson
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.responses import Response, StreamingResponse

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_dashboard.live.streams import LiveResponse, Streams
from nnhal_dashboard.web.forms import require_role, who_of
from nnhal_dashboard.web.ranges import DEFAULT, RANGES
from nnhal_dashboard.web.request_state import collector_of, show_page, visitor_of
from nnhal_hosting.access import AccessRole
from nnhal_pages.operating.resources import RESOURCES
from nnhal_pages.operating.snapshot import NO_DETAIL, Detail, OperatorError, Snapshot
from nnhal_pages.operating.table import Resource, Verb, parameters_of

ROOT = "/api/v1"
OF_PAGES: Mapping[str, str] = {
    "": "processes",
    "memory": "pools",
    "metrics": "history",
    **{name: name for name in ("devices", "processes", "models", "runs", "sessions", "clients", "events", "logs")},
}
"""What a page tells, by the first word of its address, if it is asked for as JSON."""
_FOLLOWED = {name: resource for name, resource in RESOURCES.items() if resource.asked is None}
"""Resources of which it is known without a question when they change."""
_KEY = "api."
"""The keys of streams of the API begin so."""
_ROLES = "the token's role is too small"


class ApiError(BaseModel):
    """An error."""

    error: str = Field(description="What was got, what was expected, and where.")


class ApiDone(BaseModel):
    """What came of a verb."""

    sentence: str = Field(description="What was done.")
    is_whole: bool = Field(description="False if something is left to be done.")
    values: dict[str, Any] = Field(description="The same as values.")


_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ApiError, "description": about}
    for status, about in {
        400: "a process refuses what is asked for",
        401: "there is no token, or it is not known",
        403: _ROLES,
        404: "there is no such thing",
        409: "it cannot be done now",
        422: "the request is not as expected",
        502: "a process does not answer",
    }.items()
}
Most = Annotated[int, Query(ge=1, le=100_000, description="Only so many, the newest.")]
_BEARER = HTTPBearer(
    auto_error=False, description="A token, if the dashboard has --tokens."
)  # the gate has looked at it
router = APIRouter(prefix=ROOT, responses=_REFUSALS, dependencies=[Depends(_BEARER)])
documentation = APIRouter(include_in_schema=False)


@documentation.get("/docs")
def docs(request: Request) -> Response:
    """Show what the API has, as the table of resources says."""
    return show_page(request, "docs.html", {"resources": RESOURCES.values(), "root": ROOT}, "API")


def refusal(error: Exception) -> tuple[int, str]:
    """Return the status and the words of an error that a resource or a verb has raised."""
    match error:
        case LookupError():
            return 404, str(error)
        case ValueError():
            return 422, str(error)
        case OperatorError(hint=hint):
            return 409, f"{error}; {hint}" if hint else str(error)
        case HalError(status=ErrorStatus.INVALID_ARGUMENT):
            return 400, str(error)
        case HalError():
            return 409, str(error)
    return 502, str(error)


def _items(request: Request, resource: Resource) -> list[tuple[Any, ...]]:
    require_role(visitor_of(request), AccessRole.VIEW)
    return resource.found(collector_of(request))


def _json(value: Any) -> Response:
    return Response(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS), media_type="application/json")


def _add_reading(resource: Resource) -> None:
    search = resource.search

    def everything(request: Request, most: Most = 1000) -> Response:
        return _json(resource.as_json(_items(request, resource)[-most:]))

    def some(request: Request, given: Any) -> Response:
        require_role(visitor_of(request), AccessRole.VIEW)
        assert search is not None
        return _json(resource.as_json(search(collector_of(request), **given.model_dump())))

    if search is not None:
        query = _body(f"{resource.name}_query", parameters_of(search))
        some.__annotations__["given"] = Annotated[query, Query()]
    router.get(f"/{resource.name}", summary=resource.about, tags=[resource.name], response_model=dict[str, list[Any]])(
        everything if search is None else some
    )

    @router.get(
        f"/{resource.name}/{{name:path}}",
        summary=f"Those of them that are called {resource.columns[0].head}.",
        tags=[resource.name],
        response_model=dict[str, list[Any]],
    )
    def one(request: Request, name: str) -> Response:
        found = [item for item in _items(request, resource) if resource.name_of(item) == name]
        if not found:
            raise HTTPException(404, f"no {resource.columns[0].head} of {resource.name} is called {name!r}")
        return _json(resource.as_json(found))


def _add_verb(resource: Resource, verb: Verb) -> None:
    subject, body = verb.parameters[0], _body(f"{resource.name}_{verb.name}", verb.told)

    def act(request: Request, given: Any, **named: str) -> ApiDone:
        visitor = visitor_of(request)
        require_role(visitor, AccessRole[verb.role.upper()])
        collector = collector_of(request)
        done = verb.act(collector, **named, **given.model_dump()).noted(collector, who_of(request, visitor))
        collector.refresh()
        return ApiDone(sentence=done.sentence, is_whole=done.is_whole, values=dict(done.values))

    def on_one(request: Request, name: str, given: Any) -> ApiDone:
        return act(request, given, **{subject.name: name})

    def on_none(request: Request, given: Any) -> ApiDone:
        return act(request, given)

    endpoint: Callable[..., ApiDone] = on_one if verb.names_one else on_none
    endpoint.__annotations__["given"] = body
    router.post(
        f"/{resource.name}" + (f"/{{name:path}}/{verb.name}" if verb.names_one else ""),
        summary=verb.about,
        description=f"Needs the role {verb.role}.",
        tags=[resource.name],
    )(endpoint)


def _body(name: str, parameters: Iterable[Parameter]) -> type[BaseModel]:
    """Return the model of the parameters of a verb or a search."""
    fields: dict[str, Any] = {}
    for each in parameters:
        kind, given = get_args(each.annotation)
        default = ... if each.default is Parameter.empty else each.default
        name = each.name.rstrip("_")  # which is a word of Python's in "from_"
        fields[each.name] = (kind, Field(default, alias=name, description=given.about, ge=given.least, le=given.most))
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


@router.get(
    "/changes",
    tags=["changes"],
    summary="What changes, as server-sent events.",
    status_code=200,
    response_class=StreamingResponse,
    responses={200: {"description": "events without an end", "content": {"text/event-stream": {}}}},
)
async def changes(
    request: Request,
    resource: Annotated[list[str], Query(description="The resources to follow.", min_length=1, max_length=16)],
) -> Response:
    """Tell of resources now, and again whenever they have changed: ``event`` is the resource, ``data`` its JSON."""
    require_role(visitor_of(request), AccessRole.VIEW)
    unknown = [name for name in resource if name not in _FOLLOWED]
    if unknown:
        raise HTTPException(404, f"{unknown[0][:40]!r} cannot be followed, expected some of {', '.join(_FOLLOWED)}")
    streams: Streams = request.app.state.streams
    keys = [f"{_KEY}{name}" for name in dict.fromkeys(resource)]
    collector_of(request).watch(details_of(keys))
    return LiveResponse(streams.follow(keys, str, lambda: True, _event))


@router.get(
    "/history",
    tags=["history"],
    summary="Series of the last minutes, hours or the day.",
    response_model=dict[str, list[Any]],
)
def history(
    request: Request,
    kind: Annotated[str, Query(description="Such as device.busy; all kinds by default.")] = "",
    name: Annotated[str, Query(alias="range", description=f"One of {', '.join(RANGES)}.")] = DEFAULT.name,
) -> Response:
    """Tell of each series its stretches: when each ends in seconds since the epoch, its lowest, highest and mean."""
    require_role(visitor_of(request), AccessRole.VIEW)
    if name not in RANGES:
        raise HTTPException(422, f"range is {name[:20]!r}, expected one of {', '.join(RANGES)}")
    known, shown = collector_of(request).history, RANGES[name]
    series = []
    for of, whose in known.series():
        if kind in ("", of):
            track = known.track(of, whose, known.end, shown.seconds, shown.step)
            values = {field: getattr(track, field).tolist() for field in ("end", "low", "high", "mean")}
            series.append({"kind": of, "name": whose, **values})
    return _json({"history": series})


def details_of(keys: Iterable[str]) -> Detail:
    """Return what processes are asked for only while somebody follows these keys of streams."""
    found = (_FOLLOWED.get(key.removeprefix(_KEY)) for key in keys if key.startswith(_KEY))
    return reduce(or_, (resource.needs for resource in found if resource is not None), NO_DETAIL)


def rendered(key: str, snapshot: Snapshot) -> str | None:
    """Return what a stream tells of a key, as JSON; None if the key is none of the API's."""
    resource = _FOLLOWED.get(key.removeprefix(_KEY)) if key.startswith(_KEY) else None
    if resource is None:
        return None
    return orjson.dumps(resource.as_json(resource.items(snapshot)), default=str).decode()


def _event(key: str, text: str) -> bytes:
    return f"event: {key.removeprefix(_KEY)}\ndata: {text}\n\n".encode()


def _add_all(resources: Iterable[Resource]) -> None:
    for resource in resources:
        _add_reading(resource)
        for verb in resource.verbs:
            _add_verb(resource, verb)


_add_all(RESOURCES.values())
