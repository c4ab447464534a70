"""The checks, by what they are about. Importing a room registers its checks."""

from nnhal_conformance.rules import (
    buffer_copies,
    buffer_roles,
    buffers,
    bursts,
    caching,
    chains,
    executions,
    fences,
    getters,
    launch_channels,
    limits,
    link,
    models,
    open_buffers,
    pools,
    run_channels,
    sessions,
)

GROUPS = {
    room.GROUP: room
    for room in (
        link,
        getters,
        sessions,
        models,
        pools,
        executions,
        bursts,
        fences,
        launch_channels,
        run_channels,
        chains,
        buffer_roles,
        buffer_copies,
        buffers,
        open_buffers,
        caching,
        limits,
    )
}
"""The rooms by the names of their groups, in the order in which they are asked: what others need comes first."""
