"""Runs: what waits and runs, what has ended, and recordings of runs."""

from __future__ import annotations

from typing import Annotated, Literal

from nnhal.v1 import admin_pb2, types_pb2
from nnhal.v1.framework_admin_pb2 import FindRunsRequest, FinishedRun
from nnhal_pages.operating.resources.memory import deadline, waited
from nnhal_pages.operating.resources.processes import word
from nnhal_pages.operating.resources.sessions import held, of_item
from nnhal_pages.operating.snapshot import Detail
from nnhal_pages.operating.table import (
    Done,
    OperatedSystem,
    Resource,
    ResourceColumn,
    Verb,
    VerbChange,
    VerbOption,
    read_instant,
    split_id,
)

MOST_FOUND = 100_000
MOST_RECORDED = 1000
RunOrder = Literal["ended", "took"]


def cancel(at: OperatedSystem, execution: Annotated[str, VerbOption("PROCESS/ID", names="executions")]) -> Done:
    """Cancel an execution."""
    process, identity = split_id(execution, "execution")
    ended = at.contacts.process(process).cancel_execution(identity)
    how = "is cancelled, and has ended" if ended else "is cancelled: it runs, and ends as soon as it can"
    return Done(f"{execution} {how}", {"execution": execution, "ended": ended}, change=VerbChange(process))


def record(
    at: OperatedSystem,
    model: Annotated[str, VerbOption("A model; 'all' for all of them.", names="models")],
    count: Annotated[int, VerbOption("How many runs.", 1, MOST_RECORDED)],
) -> Done:
    """Record the next runs of a model, step by step."""
    number = at.contacts.framework().record("" if model == "all" else model, count)
    of = "all models" if model in ("", "all") else model
    return Done(f"The next {count} runs of {of} will be recorded.", {"recording": number})


def find_runs(
    at: OperatedSystem,
    model: Annotated[str, VerbOption("Only of this model.", names="models")] = "",
    from_: Annotated[str, VerbOption("Only runs that had not ended then: an instant as 2026-11-27T14:03:00Z.")] = "",
    until: Annotated[str, VerbOption("Only runs that had arrived then.")] = "",
    sort: Annotated[RunOrder, VerbOption("The newest come last, or the slowest first.")] = "ended",
    failed: Annotated[bool, VerbOption("Only runs that failed or fell back.")] = False,
    most: Annotated[int, VerbOption("Only so many, the newest or the slowest.", 1, MOST_FOUND)] = 1000,
) -> list[tuple[FinishedRun]]:
    """Find runs that have ended: the last ones, or with a time or by ``took`` runs of the last day."""
    if sort == "ended" and not from_ and not until:
        known = ((run,) for (run,) in RUNS.found(at) if model in ("", run.model) and (not failed or is_troubled(run)))
        return list(known)[-most:]
    request = FindRunsRequest(model=model, slowest=sort == "took", troubled=failed, most=most)
    request.begin_ns, request.end_ns = (read_instant(name, text) for name, text in (("from", from_), ("until", until)))
    runs = at.contacts.framework().find_runs(request)
    return [(run,) for run in (runs if request.slowest else reversed(runs))]


def is_troubled(run: FinishedRun) -> bool:
    """Return whether a run failed or fell back."""
    return run.fell_back or bool(run.error)


EXECUTIONS = held(
    "executions",
    "What waits and runs, with deadline and priority.",
    ResourceColumn("id", lambda p, execution: f"{p.name}/{execution.id}"),
    of_item("what", lambda execution: execution.what),
    of_item("phase", lambda execution: word(admin_pb2.ExecutionState.Phase.Name(execution.phase))),
    waited("for"),
    ResourceColumn("deadline", deadline),
    of_item("priority", lambda execution: word(types_pb2.Priority.Name(execution.priority))),
    of_item("client", lambda execution: execution.client or execution.session),
    of_item("request", lambda execution: execution.request_id),
    verbs=(Verb("cancel", cancel),),
)
RUNS = Resource(
    "runs",
    "Runs that have ended, the newest last: whose, where, how long, bytes copied, outcome.",
    (
        ResourceColumn("run", lambda run: run.number),
        ResourceColumn("model", lambda run: f"{run.model} {run.version}".strip()),
        ResourceColumn("client", lambda run: run.client),
        ResourceColumn("request", lambda run: run.request_id),
        ResourceColumn("ended", lambda run: run.ended_ns, "ns since boot"),
        ResourceColumn("took", lambda run: run.ended_ns - run.arrived_ns, "ns"),
        ResourceColumn("queue", lambda run: run.queue_ns, "ns"),
        ResourceColumn("copy", lambda run: run.input_ns + run.output_ns, "ns"),
        ResourceColumn("compute", lambda run: run.infer_ns, "ns"),
        ResourceColumn("devices", lambda run: list(run.devices)),
        ResourceColumn("between", lambda run: run.copied.between, "B"),
        ResourceColumn("clients", lambda run: run.copied.clients, "B"),
        ResourceColumn("staged", lambda run: run.copied.staged, "B"),
        ResourceColumn("outcome", lambda run: run.error or ("fell back" if run.fell_back else "succeeded")),
    ),
    "no such runs are kept",
    lambda snapshot: ((run,) for run in snapshot.finished),
    needs=Detail.RUNS,
    of_framework=True,
    search=find_runs,
)
RECORDINGS = Resource(
    "recordings",
    "Recordings of runs that the framework keeps, whoever made them.",
    (
        ResourceColumn("recording", lambda state: state.number),
        ResourceColumn("model", lambda state: state.model or "all"),
        ResourceColumn("runs", lambda state: state.runs),
        ResourceColumn("to come", lambda state: state.left),
    ),
    "nothing has been recorded",
    lambda snapshot: ((state,) for state in snapshot.recordings),
    needs=Detail.RUNS,
    of_framework=True,
    verbs=(Verb("add", record, names_one=False),),
)
