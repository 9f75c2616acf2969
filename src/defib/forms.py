"""What the value of a setting looks like: how it is written, what is allowed, and how it is read."""

import math
import re
from pathlib import Path
from typing import Any, Protocol

import msgspec

from defib.model.amount import read_amount

PORT_MAX = 65535
ANY_HOST = "0.0.0.0"  # noqa: S104  a pod's probes come from the node, so from outside


class Address(msgspec.Struct, frozen=True):
    """Where to listen. Port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Form(Protocol):
    """What a setting's value looks like. `read` raises ValueError when it does not."""

    @property
    def allowed(self) -> str: ...

    @property
    def placeholder(self) -> str: ...

    def read(self, value: object) -> Any: ...


class About(msgspec.Struct, frozen=True):
    """Stands on a field of Settings: what it is for, and what it may be."""

    description: str
    form: Form


class Name(msgspec.Struct, frozen=True):
    allowed: str
    placeholder: str = "NAME"
    pattern: str = r"(?s).*\S.*"

    def read(self, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            raise ValueError
        return value


NAMESPACE = Name("the name of a namespace", pattern="[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class File(msgspec.Struct, frozen=True):
    allowed: str = "the name of a file"
    placeholder: str = "FILE"

    def read(self, value: object) -> Path:
        if not isinstance(value, str) or not value.strip():
            raise ValueError
        return Path(value)


class Choice(msgspec.Struct, frozen=True):
    options: tuple[str, ...]

    @property
    def placeholder(self) -> str:
        return "|".join(self.options)

    @property
    def allowed(self) -> str:
        return f"{', '.join(self.options[:-1])} or {self.options[-1]}"

    def read(self, value: object) -> str:
        if isinstance(value, bool):
            value = "on" if value else "off"  # what YAML makes of these two words
        if value not in self.options:
            raise ValueError
        return str(value)


class Number(msgspec.Struct, frozen=True):
    at_least: int
    at_most: int
    placeholder: str = "NUMBER"

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.at_least} to {self.at_most}"

    def read(self, value: object) -> int:
        number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
        if number is None or not self.at_least <= number <= self.at_most:
            raise ValueError
        return number


class Share(msgspec.Struct, frozen=True):
    allowed: str = "a number of nodes, or a share of all from 1% to 100%"
    placeholder: str = "AMOUNT"

    def read(self, value: object) -> str:
        amount = read_amount(value)
        if amount.value == 0:
            raise ValueError
        return str(amount)


class Duration(msgspec.Struct, frozen=True):
    at_least: str
    at_most: str
    placeholder: str = "DURATION"

    @property
    def allowed(self) -> str:
        return f"a duration from {self.at_least} to {self.at_most}, written like 90s, 5m, 1h30m or plain seconds"

    def read(self, value: object) -> float:
        read = seconds(value)
        if not seconds(self.at_least) <= read <= seconds(self.at_most):
            raise ValueError
        return read


class DurationOrNever(Duration, frozen=True):
    """0 is never, so infinitely long."""

    @property
    def allowed(self) -> str:
        return f"{super().allowed}, or 0 for never"

    def read(self, value: object) -> float:
        return super().read(value) if seconds(value) else math.inf


class Listed(msgspec.Struct, frozen=True):
    """Some of several names, separated by commas; in a file, a list of them."""

    options: tuple[str, ...]
    placeholder: str = "NAMES"
    may_be_none: bool = True

    @property
    def allowed(self) -> str:
        return f"{'none, or ' if self.may_be_none else ''}some of {', '.join(self.options)}, separated by commas"

    def read(self, value: object) -> tuple[str, ...]:
        names = value.split(",") if isinstance(value, str) else value
        if names == ["none"] and self.may_be_none:
            return ()
        if not isinstance(names, list) or not all(name in self.options for name in names):
            raise ValueError
        if not names and not self.may_be_none:
            raise ValueError
        return tuple(dict.fromkeys(names))


class HostAndPort(msgspec.Struct, frozen=True):
    placeholder: str = "HOST:PORT"
    allowed: str = "HOST:PORT such as 0.0.0.0:8081, [::1]:8081 or :8081 (all addresses)"

    def read(self, value: object) -> Address:
        match = (
            re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:\s]*)):(\d{1,5})", value) if isinstance(value, str) else None
        )
        if not match or int(match[3]) > PORT_MAX:
            raise ValueError
        return Address(match[1] or match[2] or ANY_HOST, int(match[3]))


UNIT_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
PARTS = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")


def seconds(value: object) -> float:
    """`90`, `"90"`, `"90s"` and `"1m30s"` are the same time. Raises ValueError for anything else."""
    if isinstance(value, str) and (parts := PARTS.findall(value)) and "".join(n + u for n, u in parts) == value:
        return sum(float(number) * UNIT_SECONDS[unit] for number, unit in parts)
    number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number):
        raise ValueError
    return number


def duration(length: float) -> str:
    """The shortest way to write so many seconds."""
    unit = next((unit for unit, size in UNIT_SECONDS.items() if length and length % size == 0), "s")
    return f"{length / UNIT_SECONDS[unit]:g}{unit}"
