"""The YAML of a kubeconfig as plain values, whatever stands in it, within bounds of memory."""

from typing import Any

import yaml

VALUES_MAX = 1_000_000
TOO_MUCH = "is nested too deeply, or repeats itself without end; fetch it anew"


class BadText(Exception):
    """It cannot be read. `str()` says why and what to do, and quotes nothing: it may be a password."""


def read_text(content: bytes) -> Any:
    """Raises BadText."""
    try:
        parsed = yaml.safe_load(content)
        if _size(parsed, {}) > VALUES_MAX:
            raise BadText(TOO_MUCH)
        return _without_nulls(parsed)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise BadText(f"is not valid YAML{where}; correct it or fetch it anew") from None
    except ValueError:
        raise BadText("has a number or a date that there is not; put it into quotes") from None
    except RecursionError:
        raise BadText(TOO_MUCH) from None


def _size(value: Any, known: dict[int, int]) -> int:
    """How many values it would be if all aliases were written out: a few lines of them can be more than any memory holds."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(one, known) for one in inner)
    return known[id(value)]


def _without_nulls(value: Any) -> Any:
    """An explicit null means the same as leaving it out, as in kubectl."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value
