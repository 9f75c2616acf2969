"""A machine of which nobody hears anything: whatever it is asked, no answer comes."""

import asyncio
from typing import ClassVar, NoReturn

from defib.model.power import PowerPath
from defib.power.base import Target


class Mute:
    can_read_state: ClassVar[bool] = True

    async def state(self, target: Target, within_seconds: float) -> NoReturn:  # noqa: ARG002  nobody hears them
        while True:
            await asyncio.Event().wait()

    off = on = check = state


MUTE = PowerPath(driver="mute", address="n1")
