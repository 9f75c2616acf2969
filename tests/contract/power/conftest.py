"""A blocked event loop fails the test."""

from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx


@pytest.fixture(autouse=True)
def _the_loop_is_never_blocked() -> Iterator[None]:
    with blockbuster_ctx("defib"):
        yield
