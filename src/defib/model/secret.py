"""A text that must not be seen: not in a log, not in an error, not in anything that is written down."""

import base64

from defib.model.meta import Resource


class Secret:
    """A text that never shows itself, and that no encoder can write; only `reveal` gives it away."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(hidden)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        return bool(self._text)


class SecretData(Resource, frozen=True):
    """A Secret of the cluster. Its values come out hidden; nobody keeps one."""

    data: dict[str, str] | None = None

    def texts(self) -> dict[str, Secret]:
        """Raises ValueError, naming the key, when one is not text."""
        return {key: Secret(_text(key, value)) for key, value in (self.data or {}).items()}

    def __repr__(self) -> str:
        return f"SecretData({self.key})"


def _text(key: str, value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode().rstrip("\n")
    except ValueError:
        raise ValueError(f"its key {key!r} does not hold a text") from None
