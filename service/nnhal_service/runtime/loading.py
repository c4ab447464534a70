"""From a model file to a model that runs on devices."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from nnhal.errors import HalError
from nnhal_service.frontends import ModelFormat, import_model
from nnhal_service.frontends.imported import ImportedModel
from nnhal_service.partition import Options, PlacementError
from nnhal_service.runtime.compilation_cache import CacheDirectory
from nnhal_service.runtime.fleet import Fleet
from nnhal_service.runtime.loaded_model import LoadedModel
from nnhal_service.runtime.planning import prepare


def load_model(
    content: bytes,
    fleet: Fleet,
    devices: Sequence[str],
    options: Options,
    format: ModelFormat | None = None,  # noqa: A002 - the proto's word
    cache: CacheDirectory | None = None,
) -> LoadedModel:
    """Import a model file and prepare it on the named devices, all where none are named.

    Without a format the content tells it. Compilations are kept in ``cache``, where there is one; models with other
    content have other entries there, whatever the token. Raises FrontendError, PlacementError, HalError,
    TransportError where a device is gone, and LookupError for one that the fleet does not know.
    """
    if cache is not None:
        cache = cache.of_content(content)

    def prepared(imported: ImportedModel, variant: CacheDirectory | None) -> LoadedModel:
        return LoadedModel(prepare(imported, fleet, devices, options, variant))

    imported = import_model(content, format)
    try:
        return prepared(imported, cache)
    except (HalError, PlacementError):
        # What its parts cannot be, a model with operations of the extension may be as a whole.
        if not imported.model.extension_name_to_prefix:
            raise
        whole = import_model(content, format, as_one=True)
        with suppress(HalError, PlacementError):
            return prepared(whole, cache and cache.of_variant("as one"))
        raise
