"""RFC 7386 (merge patch) and RFC 6902 (JSON patch). Neither changes its target; both share what they do not touch."""

from typing import Any

from defib.simulate.refusals import bad_request, unprocessable_patch


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: maps merge, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value) if isinstance(value, dict) else value
    return merged


def _steps(pointer: str) -> list[str]:
    if pointer == "":
        return []
    if not pointer.startswith("/"):
        raise unprocessable_patch()
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]


def _index(step: str, length: int) -> int:
    if not step.isdecimal() or int(step) >= length:
        raise unprocessable_patch()
    return int(step)


def _get(target: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(target, list):
            target = target[_index(step, len(target))]
        elif isinstance(target, dict) and step in target:
            target = target[step]
        else:
            raise unprocessable_patch()
    return target


def _add(target: Any, steps: list[str], value: Any) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(target, list):
        if not rest:
            at = len(target) if step == "-" else _index(step, len(target) + 1)
            return [*target[:at], value, *target[at:]]
        at = _index(step, len(target))
        return [*target[:at], _add(target[at], rest, value), *target[at + 1 :]]
    if not isinstance(target, dict) or (rest and step not in target):
        raise unprocessable_patch()
    return {**target, step: _add(target[step], rest, value) if rest else value}


def _remove(target: Any, steps: list[str]) -> Any:
    if not steps:
        raise unprocessable_patch()
    step, rest = steps[0], steps[1:]
    if isinstance(target, list):
        at = _index(step, len(target))
        inner = [_remove(target[at], rest)] if rest else []
        return [*target[:at], *inner, *target[at + 1 :]]
    if not isinstance(target, dict) or step not in target:
        raise unprocessable_patch()
    if rest:
        return {**target, step: _remove(target[step], rest)}
    return {k: v for k, v in target.items() if k != step}


def _replace(target: Any, steps: list[str], value: Any) -> Any:
    """In a list the item must be there; in a map the real server is as content with a new one."""
    parent = _get(target, steps[:-1]) if steps else None
    if isinstance(parent, list):
        _index(steps[-1], len(parent))
        return _add(_remove(target, steps), steps, value)
    return _add(target, steps, value)


def _apply_one(target: Any, operation: dict[str, Any]) -> Any:
    path = operation.get("path")
    if not isinstance(path, str):
        raise unprocessable_patch()
    steps = _steps(path)
    match operation.get("op"):
        case "add":
            return _add(target, steps, operation.get("value"))
        case "remove":
            return _remove(target, steps)
        case "replace":
            return _replace(target, steps, operation.get("value"))
        case "move":
            source = _steps(str(operation.get("from")))
            return _add(_remove(target, source), steps, _get(target, source))
        case "copy":
            return _add(target, steps, _get(target, _steps(str(operation.get("from")))))
        case "test" if _tested(target, steps) == operation.get("value"):
            return target
    raise unprocessable_patch()


def _tested(target: Any, steps: list[str]) -> Any:
    """A missing field of a map tests as null."""
    parent = _get(target, steps[:-1]) if steps else target
    if steps and isinstance(parent, dict):
        return parent.get(steps[-1])
    return _get(target, steps)


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902, all or nothing."""
    if not isinstance(operations, list):
        went = "object" if isinstance(operations, dict) else type(operations).__name__
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {went} into Go value of type []handlers.jsonPatchOp"
        )
    for operation in operations:
        if not isinstance(operation, dict):
            raise unprocessable_patch()
        target = _apply_one(target, operation)
    return target
