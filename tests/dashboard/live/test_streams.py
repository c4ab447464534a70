"""Costs of one browser's streams to others, and their end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import pytest

from nnhal_dashboard.live import streams as module
from nnhal_dashboard.live.fragments import Fragment, Fragments
from nnhal_dashboard.live.streams import Streams
from nnhal_pages.operating.snapshot import Detail, Snapshot


async def follow(
    streams: Streams, keys: Sequence[str], stays: Callable[[], bool] = lambda: True
) -> AsyncGenerator[bytes, None]:
    with streams.follow(keys, lambda html: html, stays) as events:
        async for event in events:
            yield event


def run(scene: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20):
            await scene()

    asyncio.run(whole())


def test_a_browser_with_much_to_render_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RENDER_SECONDS", 0.02)
    rendered: list[str] = []

    def render(key: str) -> str:
        rendered.append(key)
        until = time.thread_time() + 0.002
        while time.thread_time() < until:
            pass
        return key

    async def scene() -> None:
        streams = Streams(render)
        greedy = [follow(streams, [f"greedy.{number}.{key}" for key in range(40)]) for number in range(3)]
        modest = follow(streams, ["modest"])
        for stream in (*greedy, modest):
            await anext(stream)
        streams.publish(Snapshot())
        assert "modest" in rendered[:4]
        assert len(rendered) < 121  # not everything at once
        while len(set(rendered)) < 121:  # but all in turn
            streams.publish(Snapshot())
        assert b'"modest"' in await anext(modest)

    run(scene)


def test_a_browser_that_is_signed_out_is_told_nothing_more() -> None:
    signed_in = [True]

    async def scene() -> None:
        streams = Streams(lambda _: "shown" if signed_in else "secret")
        stream = follow(streams, ["part"], lambda: bool(signed_in))
        await anext(stream)
        streams.publish(Snapshot())
        assert b"shown" in await anext(stream)
        signed_in.clear()
        streams.publish(Snapshot())
        assert [event async for event in stream] == []
        assert len(streams) == 0

    run(scene)


@pytest.mark.parametrize("error", [LookupError("gone"), ValueError("no sense")])
def test_parts_that_make_no_sense_are_not_logged_again_and_again(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    def render(key: str) -> str:
        raise error

    async def scene() -> None:
        streams = Streams(render)
        stream = follow(streams, ["part?number=x"])
        await anext(stream)
        streams.publish(Snapshot())

    run(scene)
    assert "cannot be rendered" not in "".join(capsys.readouterr())


def test_a_defect_of_a_part_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    def render(key: str) -> str:
        raise TypeError("a defect")

    async def scene() -> None:
        streams = Streams(render)
        stream = follow(streams, ["part?a=1", "part?a=2"])
        await anext(stream)
        for _ in range(3):
            streams.publish(Snapshot())

    run(scene)
    assert "".join(capsys.readouterr()).count("cannot be rendered") == 1


def test_what_is_costly_is_rendered_less_often_but_at_once_for_a_new_page() -> None:
    rendered: list[str] = []

    def render(key: str) -> str:
        rendered.append(key)
        until = time.thread_time() + (0.1 if key == "costly" else 0)  # so that it is not due again during the test
        while time.thread_time() < until:
            pass
        return f"{key} {len(rendered)}"

    async def scene() -> None:
        streams = Streams(render)
        first = follow(streams, ["costly", "cheap"])
        await anext(first)
        for _ in range(3):
            streams.publish(Snapshot())
        assert rendered.count("costly") == 1
        second = follow(streams, ["costly"])
        await anext(second)
        streams.publish(Snapshot())
        assert rendered.count("costly") == 2
        assert b'"costly' in await anext(second)
        streams.publish(Snapshot())
        assert rendered.count("costly") == 2
        assert rendered.count("cheap") > 1

    run(scene)


def test_what_is_shown_is_known_and_what_has_to_be_asked_for_it() -> None:
    fragments = Fragments()
    fragments.add(
        Fragment("a.runs", "", lambda _: {}, Detail.RUNS),
        Fragment("a.owners", "", lambda _: {}, Detail.SESSIONS),
        Fragment("a.other", "", lambda _: {}),
    )
    assert fragments.shown(["a.other", "a.runs?model=m"]) == Detail.RUNS
    assert fragments.shown(["a.owners", "a.runs"]) == Detail.RUNS | Detail.SESSIONS
    assert not fragments.shown(["a.other", "unknown"])

    async def scene() -> None:
        streams = Streams(lambda key: key)
        stream = follow(streams, ["a.other", "a.runs"])
        await anext(stream)
        assert streams.keys == {"a.other", "a.runs"}
        await stream.aclose()
        assert streams.keys == set()

    run(scene)
