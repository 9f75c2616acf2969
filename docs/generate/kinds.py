"""A page for each kind that Defib brings: its columns and all of its fields, from its CustomResourceDefinition."""

from collections.abc import Iterator
from typing import Any

from defib.manifests import definitions

Rules = dict[str, Any]
_SAYS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "maxItems": "at most {} of them",
    "minLength": "not shorter than {}",
}


def kind_pages() -> dict[str, str]:
    """By file name."""
    made = {f"{one['spec']['names']['singular']}.md": _page(one) for one in definitions()}
    return {"index.md": _index(), **made}


def _index() -> str:
    head = (
        "# Kinds\n\nWhat Defib adds to a cluster, with all fields. `kubectl explain` tells the same.\n\n"
        "| kind | short | of | what it is |\n|---|---|---|---|\n"
    )
    return head + "".join(_index_row(one["spec"]) for one in definitions())


def _index_row(spec: Rules) -> str:
    names = spec["names"]
    short = ", ".join(f"`{name}`" for name in names.get("shortNames") or ())
    place = "the cluster" if spec["scope"] == "Cluster" else "a namespace"
    says = _cell(_schema(spec).get("description", ""))
    return f"| [{names['kind']}]({names['singular']}.md) | {short} | {place} | {says} |\n"


def _schema(spec: Rules) -> Rules:
    schema: Rules = spec["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _page(definition: Rules) -> str:
    spec = definition["spec"]
    names, version = spec["names"], spec["versions"][0]
    schema = _schema(spec)
    place = "It is of the whole cluster." if spec["scope"] == "Cluster" else "It is in a namespace."
    short = "".join(f", or `kubectl get {name}`" for name in names.get("shortNames") or ())
    text = (
        f"# {names['kind']}\n\n{_prose(schema.get('description', ''))}\n\n"
        f"`{spec['group']}/{version['name']}`. {place} `kubectl get {names['plural']}`{short}.\n"
    )
    text += _columns(version.get("additionalPrinterColumns") or ())
    for part in ("spec", "status"):
        rules = (schema.get("properties") or {}).get(part)
        if isinstance(rules, dict):
            text += f"\n## {part}\n\n" + _part(part, rules)
    return text


def _columns(columns: Any) -> str:
    if not columns:
        return ""
    rows = "".join(
        f"| {one['name'].upper()} | {_cell(one.get('description', ''))}"
        f"{' Only with `-o wide`.' if one.get('priority') else ''} |\n"
        for one in columns
    )
    return f"\n## Columns\n\n| column | what it shows |\n|---|---|\n{rows}"


def _part(part: str, rules: Rules) -> str:
    about = f"{_prose(rules['description'])}\n\n" if rules.get("description") else ""
    rows = "".join(
        f"| `{path}` | {_type(field)} | {_allowed(field, is_required=needed)} | {_cell(field.get('description', ''))} |\n"
        for path, field, needed in _fields(rules, "")
    )
    return (
        f"{about}| field | type | may be | meaning |\n|---|---|---|---|\n{rows}" if rows else about or f"Any {part}.\n"
    )


def _fields(rules: Rules, where: str) -> Iterator[tuple[str, Rules, bool]]:
    """Every field below, by its path; `[]` is each of a list, `*` any key of a map."""
    needed = rules.get("required") or ()
    for name, field in (rules.get("properties") or {}).items():
        path = f"{where}.{name}".lstrip(".")
        yield path, field, name in needed
        yield from _fields(field, path)
    if isinstance(items := rules.get("items"), dict):
        yield from _fields(items, f"{where}[]")
    if isinstance(values := rules.get("additionalProperties"), dict):
        yield from _fields(values, f"{where}.*")


def _type(field: Rules) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "number or text"
    kind: str = field.get("type", "any")
    if kind == "array":
        return f"list of {(field.get('items') or {}).get('type', 'any')}"
    return "time" if field.get("format") == "date-time" else {"string": "text", "integer": "number"}.get(kind, kind)


def _allowed(field: Rules, *, is_required: bool) -> str:
    said = ["required"] if is_required else []
    choices = field.get("enum") or (field.get("items") or {}).get("enum")
    if choices:
        said.append(", ".join(f"`{choice}`" for choice in choices))
    said += [words.format(field[key]) for key, words in _SAYS.items() if key in field]
    if "default" in field:
        said.append(f"default `{_value(field['default'])}`")
    return "; ".join(said)


def _value(value: Any) -> str:
    return _cell(str(value).lower() if isinstance(value, bool) else str(value))


def _prose(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;")


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")
