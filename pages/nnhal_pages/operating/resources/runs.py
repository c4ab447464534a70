"""Runs: what waits and runs, what has ended, and recordings of runs."""

from __future__ import annotations

from typing import Annotated

from nnhal.v1 import admin_pb2, types_pb2
from nnhal_pages.operating.resources.memory import deadline, waited
from nnhal_pages.operating.resources.processes import word
from nnhal_pages.operating.resources.sessions import held, of_item
from nnhal_pages.operating.snapshot import Detail
from nnhal_pages.operating.table import Column, Done, Given, Operated, Resource, Verb, split_id

MOST_RECORDED = 1000


def cancel(at: Operated, execution: Annotated[str, Given("PROCESS/ID", names="executions")]) -> Done:
    """Cancel an execution."""
    process, identity = split_id(execution, "execution")
    ended = at.contacts.process(process).cancel_execution(identity)
    how = "is cancelled, and has ended" if ended else "is cancelled: it runs, and ends as soon as it can"
    return Done(f"{execution} {how}", {"execution": execution, "ended": ended})


def record(
    at: Operated,
    model: Annotated[str, Given("A model; 'all' for all of them.", names="models")],
    count: Annotated[int, Given("How many runs.", 1, MOST_RECORDED)],
) -> Done:
    """Record the next runs of a model, step by step."""
    number = at.contacts.framework().record("" if model == "all" else model, count)
    of = "all models" if model in ("", "all") else model
    return Done(f"The next {count} runs of {of} will be recorded.", {"recording": number})


EXECUTIONS = held(
    "executions",
    "What waits and runs, with deadline and priority.",
    Column("id", lambda p, execution: f"{p.name}/{execution.id}"),
    of_item("what", lambda execution: execution.what),
    of_item("phase", lambda execution: word(admin_pb2.ExecutionState.Phase.Name(execution.phase))),
    waited("for"),
    Column("deadline", deadline),
    of_item("priority", lambda execution: word(types_pb2.Priority.Name(execution.priority))),
    of_item("client", lambda execution: execution.client or execution.session),
    of_item("request", lambda execution: execution.request_id),
    verbs=(Verb("cancel", cancel),),
)
RUNS = Resource(
    "runs",
    "Runs that have ended, the newest last: whose, where, how long, bytes copied, outcome.",
    (
        Column("run", lambda run: run.number),
        Column("model", lambda run: f"{run.model} {run.version}".strip()),
        Column("client", lambda run: run.client),
        Column("request", lambda run: run.request_id),
        Column("ended", lambda run: run.ended_ns, "ns since boot"),
        Column("took", lambda run: run.ended_ns - run.arrived_ns, "ns"),
        Column("queue", lambda run: run.queue_ns, "ns"),
        Column("devices", lambda run: list(run.devices)),
        Column("between", lambda run: run.copied.between, "B"),
        Column("clients", lambda run: run.copied.clients, "B"),
        Column("staged", lambda run: run.copied.staged, "B"),
        Column("outcome", lambda run: run.error or ("fell back" if run.fell_back else "succeeded")),
    ),
    "no such runs are kept",
    lambda snapshot: ((run,) for run in snapshot.finished),
    needs=Detail.RUNS,
    of_framework=True,
)
RECORDINGS = Resource(
    "recordings",
    "Recordings of runs that the framework keeps, whoever made them.",
    (
        Column("recording", lambda state: state.number),
        Column("model", lambda state: state.model or "all"),
        Column("runs", lambda state: state.runs),
        Column("to come", lambda state: state.left),
    ),
    "nothing has been recorded",
    lambda snapshot: ((state,) for state in snapshot.recordings),
    needs=Detail.RUNS,
    of_framework=True,
    verbs=(Verb("add", record, names_one=False),),
)
