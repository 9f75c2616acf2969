"""One shared control plane for each module here."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from testbed.cluster import ControlPlane
from testbed.programs import Programs


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, request: pytest.FixtureRequest) -> AsyncIterator[ControlPlane]:
    failed_before = request.session.testsfailed
    async with ControlPlane(programs) as cluster:
        yield cluster
        if request.session.testsfailed > failed_before:
            cluster.keep()
