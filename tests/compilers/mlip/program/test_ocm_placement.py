from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal_mlip.program.binary import read_binary, write_binary
from nnhal_mlip.program.ocm_placement import (
    OcmDemand,
    OcmPlacement,
    OcmPlacementError,
    OcmPlacementMode,
    ocm_demand,
    place_model,
)
from tests.support.mlip_small_program import small_program


def test_a_model_wants_whole_pages() -> None:
    model = read_binary(write_binary(*small_program(pinned=True))).metadata.model
    assert ocm_demand(model) == OcmDemand(tiles=2, weight_pages=1, scratch_pages=60)
    assert ocm_demand(model, 1024) == OcmDemand(tiles=2, weight_pages=5, scratch_pages=960)


def test_a_model_without_pinned_weights_wants_no_page_for_them() -> None:
    assert ocm_demand(read_binary(write_binary(*small_program())).metadata.model).weight_pages == 0


def test_a_model_that_cannot_be_relocated_takes_whole_tiles() -> None:
    model = read_binary(write_binary(*small_program())).metadata.model
    assert ocm_demand(replace(model, ocm_relocatable=0, tile_relocatable=0)) == OcmDemand(2, 64, 0, False)


def test_pages_of_another_size_are_refused() -> None:
    model = read_binary(write_binary(*small_program())).metadata.model
    with pytest.raises(OcmPlacementError, match="pages have 3000 bytes, expected one of 1024, 2048"):
        ocm_demand(model, 3000)


def test_weights_lie_behind_each_other_and_scratch_is_shared() -> None:
    first = place_model(OcmDemand(8, 10, 40))
    second = place_model(OcmDemand(8, 14, 30), [first])
    assert (first.first_page, second.first_page) == (0, 10)
    with pytest.raises(OcmPlacementError, match="1 pages of weights and 1 of scratch on each of 8 tiles"):
        place_model(OcmDemand(8, 1, 1), [first, second])
    assert place_model(OcmDemand(8, 0, 40), [first, second]).first_tile == 0


def test_more_scratch_than_lies_free_above_the_weights_is_refused() -> None:
    loaded = [OcmPlacement(0, 8, 0, 30, 10)]
    assert place_model(OcmDemand(8, 0, 34), loaded).scratch_pages == 34
    with pytest.raises(OcmPlacementError):
        place_model(OcmDemand(8, 0, 35), loaded)


def test_groups_of_tiles_begin_at_multiples_of_their_size() -> None:
    loaded = [OcmPlacement(0, 1, 0, 60, 4)]
    assert place_model(OcmDemand(2, 10, 4), loaded).first_tile == 2
    assert place_model(OcmDemand(1, 10, 4), loaded).first_tile == 1
    with pytest.raises(OcmPlacementError):
        place_model(OcmDemand(8, 10, 4), loaded)


def test_a_model_that_is_bound_to_its_tiles_takes_no_others() -> None:
    with pytest.raises(OcmPlacementError):
        place_model(OcmDemand(2, 10, 4, relocatable=False), [OcmPlacement(0, 1, 0, 60, 4)])


def test_a_gap_that_an_unloaded_model_left_is_taken_by_mode() -> None:
    loaded = [OcmPlacement(0, 8, 0, 8, 4), OcmPlacement(0, 8, 12, 8, 4)]
    assert place_model(OcmDemand(8, 4, 4), loaded).first_page == 8
    assert place_model(OcmDemand(8, 4, 4), loaded, mode=OcmPlacementMode.LARGEST).first_page == 20
    assert place_model(OcmDemand(8, 5, 4), loaded).first_page == 20


def test_the_largest_gap_may_be_on_other_tiles() -> None:
    loaded = [OcmPlacement(0, 4, 0, 10, 4)]
    assert place_model(OcmDemand(4, 4, 4), loaded).first_tile == 0
    assert place_model(OcmDemand(4, 4, 4), loaded, mode=OcmPlacementMode.LARGEST).first_tile == 4


def test_a_model_that_never_fits_is_refused_with_what_it_wants() -> None:
    with pytest.raises(OcmPlacementError, match="40 pages of weights and 25 of scratch, expected at most 64 together"):
        place_model(OcmDemand(1, 40, 25))
    with pytest.raises(OcmPlacementError, match="9 tiles, expected 1 to 8"):
        place_model(OcmDemand(9, 1, 1))
