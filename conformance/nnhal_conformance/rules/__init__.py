"""The checks, by what they are about. Importing a room registers its checks."""

from nnhal_conformance.rules import (
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
        buffers,
        caching,
        limits,
    )
}
"""The rooms by the names of their groups, in the order in which they are asked: what others need comes first."""
