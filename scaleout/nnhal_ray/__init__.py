"""nnhal beyond one machine: an application of Ray Serve with a whole nnhal on each host.

serve run nnhal_ray:app model_repository=/srv/models insecure=true
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ray.serve import Application

__all__ = ["app"]


def app(arguments: Mapping[str, object]) -> Application:
    """The application, with the arguments of ``nnhal_ray.options.ScaleOutOptions``.

    Raises ValidationError, which says what is wrong with them.
    """
    # What needs no replica, such as options, can be imported without Ray.
    from nnhal_ray.application import application

    return application(arguments)
