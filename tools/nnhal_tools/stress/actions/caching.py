"""Compilation caches: right, wrong and damaged ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from nnhal.descriptor import Descriptor
from nnhal.remote import CompilationCache
from nnhal.types import ErrorStatus
from nnhal_tools.stress.actor import MOST, Actor
from nnhal_tools.stress.buffers import PreparedSpecimen
from nnhal_tools.stress.faults import draw_deadline
from nnhal_tools.stress.memory import new_file
from nnhal_tools.stress.outcomes import FAILURE, OK, REFUSED, ask

_KEEP = 2


def save(actor: Actor) -> ErrorStatus:
    """Prepare with cache files, even unusable ones: preparation must succeed all the same."""
    specimen = actor.random.choice([s for s in actor.specimens if actor.supports(s)])
    needed = ask(actor.device.number_of_cache_files_needed).value
    junk = b"junk" * actor.random.randrange(3000)
    model = tuple(new_file(junk) for _ in range(needed.num_model_cache))
    data = tuple(new_file(junk) for _ in range(needed.num_data_cache))
    cache = CompilationCache(model, data, actor.random.randbytes(32))
    problem = actor.random.choice(("", "", "", "one too many", "read-only", "a pipe"))
    actor.note(f"{specimen.name} {problem}")
    if problem == "one too many":
        cache = replace(cache, data=(*data, new_file()))
    elif problem == "read-only":
        cache = replace(cache, model=tuple(map(_read_only, model)))
    elif problem:
        reader, writer = map(Descriptor, os.pipe())
        cache = replace(cache, model=(writer,) * len(model))
        del reader
    answer = ask(lambda: actor.device.prepare_model(specimen.model, cache=cache))
    if answer:
        actor.keep(actor.prepared, PreparedSpecimen(specimen, answer.value), MOST["prepared"])
        if not problem and (model or data):
            actor.caches.append((specimen, cache))
            del actor.caches[:-_KEEP]
    return answer.status


def load(actor: Actor) -> ErrorStatus:
    """Prepare from the files of a saved compilation."""
    if not actor.caches:
        return save(actor)
    specimen, cache = actor.random.choice(actor.caches)
    deadline = draw_deadline(actor.random)
    actor.note(f"{specimen.name}, {deadline}")
    answer = ask(lambda: actor.device.prepare_model_from_cache(cache, deadline.ns), deadline.after(OK))
    if answer:
        actor.keep(actor.prepared, PreparedSpecimen(specimen, answer.value), MOST["prepared"])
    return answer.status


def load_damaged(actor: Actor) -> ErrorStatus:
    """Prepare from wrong or incomplete files. Afterwards the cache entry is as it was."""
    if not actor.caches:
        return save(actor)
    _, cache = actor.random.choice(actor.caches)
    copy = replace(cache, model=tuple(map(_copied, cache.model)), data=tuple(map(_copied, cache.data)))
    model = copy.model[0] if copy.model else copy.data[0]
    damages: dict[str, Callable[[], CompilationCache]] = {
        "another token": lambda: replace(copy, token=actor.random.randbytes(32)),
        "no files": lambda: replace(copy, model=(), data=()),
        "one too many": lambda: replace(copy, model=(*copy.model, new_file())),
        "empty": lambda: _cut(copy, model, 0),
        "cut": lambda: _cut(copy, model, actor.random.randrange(1, os.fstat(model.fileno()).st_size)),
        "longer": lambda: _cut(copy, model, os.fstat(model.fileno()).st_size + 1),
        "huge": lambda: _cut(copy, model, 1 << 40),
        "a flipped bit": lambda: _flip(copy, model, actor),
        "flipped data": lambda: _flip(copy, (copy.data or copy.model)[0], actor),
    }
    name = actor.random.choice(list(damages))
    actor.note(name)
    damaged = damages[name]()
    allowed = REFUSED if name in ("no files", "one too many") else FAILURE
    if name == "flipped data":
        # The contract allows a prepared model that computes anything, so it is not executed.
        allowed = allowed | OK
    return ask(lambda: actor.device.prepare_model_from_cache(damaged), allowed).status


def _copied(file: Descriptor) -> Descriptor:
    return new_file(os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0))


def _read_only(file: Descriptor) -> Descriptor:
    return Descriptor(os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY | os.O_CLOEXEC))


def _cut(cache: CompilationCache, file: Descriptor, size: int) -> CompilationCache:
    os.ftruncate(file.fileno(), size)
    return cache


def _flip(cache: CompilationCache, file: Descriptor, actor: Actor) -> CompilationCache:
    size = os.fstat(file.fileno()).st_size
    if size:
        at = actor.random.randrange(size)
        (byte,) = os.pread(file.fileno(), 1, at)
        os.pwrite(file.fileno(), bytes([byte ^ 1 << actor.random.randrange(8)]), at)
    return cache
