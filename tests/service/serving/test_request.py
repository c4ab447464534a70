"""Giving a request up."""

from __future__ import annotations

from nnhal_service.serving import Cancellation


def test_callbacks_come_once_whenever_it_is_given_up() -> None:
    cancellation, seen = Cancellation(), list[str]()
    cancellation.on_cancel(lambda: seen.append("before"))
    cancellation.cancel()
    cancellation.cancel()
    cancellation.on_cancel(lambda: seen.append("after"))
    assert cancellation.cancelled and seen == ["before", "after"]


def test_a_forgotten_callback_does_not_come() -> None:
    cancellation, seen = Cancellation(), list[str]()

    def callback() -> None:
        seen.append("called")

    cancellation.on_cancel(callback)
    cancellation.forget(callback)
    cancellation.forget(callback)
    cancellation.cancel()
    assert seen == []
