"""What runs alongside ends with the context, and what goes wrong on either side comes out as itself."""

import asyncio
from typing import NoReturn

import pytest

from testbed.scenario.hollow_cluster import alongside, until


class Broken(Exception):
    pass


async def idle(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("idle")


async def dies() -> NoReturn:
    raise Broken


async def test_it_ends_when_the_context_is_left() -> None:
    ended: list[str] = []
    async with alongside(idle(ended)):
        await asyncio.sleep(0)
        assert ended == []
    assert ended == ["idle"]


async def test_an_error_in_the_context_comes_out_as_itself() -> None:
    ended: list[str] = []

    async def breaks() -> None:
        async with alongside(idle(ended)):
            await asyncio.sleep(0)
            raise Broken

    with pytest.raises(Broken):
        await breaks()
    assert ended == ["idle"]


async def test_whoever_is_in_the_context_hears_that_something_died_beside_it() -> None:
    with pytest.raises(Broken):
        async with asyncio.timeout(5), alongside(dies()):
            await asyncio.Event().wait()


async def test_waiting_ends_at_its_deadline() -> None:
    async def never() -> bool:
        return False

    assert not await until(never, 0.01)
