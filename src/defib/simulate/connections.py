"""The watches that are open, by client: so that a restart can cut them and a partition silence them."""

from defib.simulate.watching import Watch


class Connections:
    def __init__(self) -> None:
        self._open: dict[Watch, str] = {}

    def opened(self, client: str, watch: Watch) -> None:
        self._open[watch] = client

    def closed(self, watch: Watch) -> None:
        self._open.pop(watch, None)

    def of(self, client: str | None = None) -> list[Watch]:
        return [watch for watch, owner in self._open.items() if client in (None, owner)]

    def __len__(self) -> int:
        return len(self._open)
