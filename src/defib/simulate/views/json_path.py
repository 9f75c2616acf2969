"""The small part of JSONPath that printer columns use: fields, indexes, `[*]`, and filters by equality."""

import re
from typing import Any

_STEP = re.compile(
    r"""\.(?P<field>[\w\-/]+(?:\\\.[\w\-/]+)*)
      | \['(?P<quoted>[^']+)'\]
      | \[(?P<index>-?\d+)\]
      | \[(?P<all>\*)\]
      | \[\?\(@\.(?P<key>[\w.\-]+)\s*==\s*(?P<value>"[^"]*"|'[^']*'|[\w.\-]+)\)\]""",
    re.VERBOSE,
)


def find(path: str, value: Any) -> list[Any]:
    """Everything a path leads to; nothing when it leads nowhere."""
    found = [value]
    for step in _STEP.finditer(path if path.startswith((".", "[")) else f".{path}"):
        found = [inner for one in found for inner in _follow(step, one)]
    return found


def _follow(step: re.Match[str], value: Any) -> list[Any]:
    name = step["field"] or step["quoted"]
    if name is not None:
        name = name.replace("\\.", ".")
        return [value[name]] if isinstance(value, dict) and name in value else []
    if step["all"]:
        return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
    if not isinstance(value, list):
        return []
    if step["index"] is not None:
        at = int(step["index"])
        return [value[at]] if -len(value) <= at < len(value) else []
    wanted = step["value"].strip("\"'")
    return [item for item in value if isinstance(item, dict) and str(item.get(step["key"])) == wanted]
