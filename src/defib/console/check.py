"""Whether files of our kinds make sense, before anybody applies them: by the schemas of the CRDs and the operator's rules.

No cluster is needed, so what only a cluster knows is not looked at: whether templates are there, who may do what, what
its admission policies say. Templates that are in the files as well are held against the checks that name them.
"""

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from defib.console.manifest import LARGEST, Document, Unclear, documents
from defib.console.session import NotDone
from defib.decide.answers.told import Told
from defib.decide.drains import reading as drains
from defib.decide.failover import reading as failover
from defib.decide.fast_path import why_not_taken
from defib.decide.fencing import policy as fencing
from defib.decide.reading import read_check
from defib.decide.rules import FailoverRules
from defib.manifests import definitions
from defib.model import medik8s
from defib.model.health_check import Broken, Check, NodeHealthCheck
from defib.model.meta import Meta, Unstructured
from defib.model.power_cycle import TEMPLATE
from defib.simulate.kinds import metadata
from defib.simulate.kinds.catalog import Served
from defib.simulate.kinds.crds import completed as completed_definition
from defib.simulate.kinds.crds import served_by
from defib.simulate.refusals import Problem
from defib.simulate.schema import checks, structural

STDIN = "-"
STATUS = "status"  # the server's, and not a person's to write

Read = Callable[[Any, FailoverRules], Iterable[str]]


class Finding(Told, frozen=True, kw_only=True):
    file: str
    document: int
    line: int
    kind: str
    name: str
    field: str
    message: str


class Checked(Told, frozen=True, kw_only=True):
    files: int
    objects: int  # of kinds that we know
    skipped: tuple[str, ...]  # what others are there, which were not looked at
    problems: tuple[Finding, ...]


def check_files(paths: Iterable[str], rules: FailoverRules) -> Checked:
    """Raises NotDone for a file that cannot be read, and where there is nothing to check at all."""
    files = [(path, _text_of(path)) for path in paths]
    problems: list[Finding] = []
    skipped: list[str] = []
    known: list[tuple[str, Document]] = []
    for path, text in files:
        try:
            for document in documents(text):
                if _served(document.content) is None and not _is_meant_for_us(document.content):
                    skipped.append(_called(document.content) or f"document {document.number} of {path}")
                    continue
                known.append((path, document))
                problems += sorted(_findings(path, document, rules), key=lambda found: found.line)
        except Unclear as error:
            problems.append(_finding(path, Document(0, error.line, None, None), "", str(error)))
    problems += _slow_paths(known)
    if not known and not problems:
        kinds = ", ".join(sorted({one.kind for one in _known().values()}))
        raise NotDone(f"there is nothing to check: no object is of a kind that Defib knows ({kinds})")
    return Checked(files=len(files), objects=len(known), skipped=tuple(skipped), problems=tuple(problems))


def problems_of(content: Any, rules: FailoverRules) -> tuple[tuple[str, str], ...]:
    """Of one object: the fields that are wrong, and what is wrong with each."""
    served = _served(content)
    return (_stranger(content),) if served is None else tuple(_problems(content, served, rules))


def _slow_paths(known: list[tuple[str, Document]]) -> Iterator[Finding]:
    """Fast paths that would not be taken, by templates that are in the files, too."""
    templates = dict(_templates(document.content for _, document in known))
    for path, document in known:
        spec = document.content.get("spec") if _is_a(document.content, medik8s.CHECK_KIND) else None
        check = read_check(NodeHealthCheck(spec=spec))
        why = why_not_taken(check, lambda ref: templates.get(ref.key)) if isinstance(check, Check) else ""
        if why:
            yield _finding(path, document, "spec.fastPath", f"is not taken: {why}")


def _templates(contents: Iterable[Any]) -> Iterator[tuple[str, Unstructured]]:
    """Those that can prove that a machine is off, by namespace and name. What makes no sense is told elsewhere."""
    for content in contents:
        if _is_a(content, TEMPLATE.name):
            with suppress(msgspec.ValidationError):
                item = msgspec.convert(content, Unstructured)
                yield item.key, item


def _is_a(content: Any, kind: str) -> bool:
    return isinstance(content, dict) and content.get("kind") == kind


def _text_of(path: str) -> str:
    try:
        if path == STDIN:
            return sys.stdin.buffer.read(LARGEST + 1).decode()
        with Path(path).open("rb") as file:
            return file.read(LARGEST + 1).decode()
    except OSError as error:
        raise NotDone(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise NotDone(f"{path} is no text (byte {error.start} is not UTF-8)") from error


@cache
def _known() -> dict[tuple[str, str], Served]:
    """By apiVersion and kind."""
    found = (served for definition in definitions() for served in served_by(completed_definition(definition)))
    return {(served.api_version, served.kind): served for served in found}


def _called(content: Any) -> str:
    meta = content.get("metadata") if isinstance(content, dict) else None
    name = meta.get("name") if isinstance(meta, dict) else ""
    return f"{content.get('kind', '')} {name or ''}".strip() if isinstance(content, dict) else ""


def _served(content: Any) -> Served | None:
    if not isinstance(content, dict):
        return None
    return _known().get((str(content.get("apiVersion")), str(content.get("kind"))))


def _is_meant_for_us(content: Any) -> bool:
    """Our group and a kind or version that does not exist; our kind in another group; or no kind at all."""
    if not isinstance(content, dict):
        return True
    group = str(content.get("apiVersion") or "").rpartition("/")[0]
    kind = content.get("kind")
    ours = {served.group for served in _known().values()}
    return not kind or not content.get("apiVersion") or group in ours or any(kind == one for _, one in _known())


def _findings(path: str, document: Document, rules: FailoverRules) -> Iterator[Finding]:
    for line, key in document.twice:
        found = _finding(path, document, key, "stands there twice; only one of them can count")
        yield msgspec.structs.replace(found, line=line)
    for field, message in problems_of(document.content, rules):
        yield _finding(path, document, field, message)


def _finding(path: str, document: Document, field: str, message: str) -> Finding:
    content = document.content if isinstance(document.content, dict) else {}
    meta = content.get("metadata")
    return Finding(
        file=path,
        document=document.number,
        line=document.line_of(field),
        kind=str(content.get("kind") or ""),
        name=str(meta.get("name") or "") if isinstance(meta, dict) else "",
        field=field,
        message=message,
    )


def _stranger(content: Any) -> tuple[str, str]:
    """What somebody may have meant, of an object that is of no kind."""
    if not isinstance(content, dict):
        return "", "this is no object; one begins with apiVersion and kind"
    for field in ("apiVersion", "kind"):
        if not content.get(field):
            return field, "must be given"
    version, kind = str(content["apiVersion"]), str(content["kind"])
    right = [known for known, name in _known() if name == kind]
    if right:
        return "apiVersion", f"{kind} is of {right[0]}, not of {version}"
    names = [name for _, name in _known()]
    near = difflib.get_close_matches(kind, names, n=1)
    return "kind", f"there is no kind {kind} in {version}" + (f"; did you mean {near[0]}?" if near else "")


def _problems(content: dict[str, Any], served: Served, rules: FailoverRules) -> Iterator[tuple[str, str]]:
    """The operator's sentences first; of the schema, what they do not say already."""
    found = [(where, said) for where, said in _of_metadata(content, served)]
    written = {"metadata": {}} | {name: value for name, value in content.items() if name != STATUS}
    assert served.schema is not None
    found += ((name, "is no field of this kind") for name in structural.unknown_fields(served.schema, written))
    whole = structural.completed(served.schema, written)
    read = _READERS.get(served.kind)
    found += (_split(sentence) for sentence in (read(whole.get("spec"), rules) if read is not None else ()))
    told = [where for where, _ in found]
    for problem in checks.problems(served.schema, whole):
        where, said = _of_schema(problem)
        if not any(_is_about(where, known) for known in told):
            found.append((where, said))
    yield from found


def _is_about(where: str, known: str) -> bool:
    """Whether both speak of the same field, or one of a part of the other."""
    return (
        where == known or where.startswith((f"{known}.", f"{known}[")) or known.startswith((f"{where}.", f"{where}["))
    )


def _of_metadata(content: dict[str, Any], served: Served) -> Iterator[tuple[str, str]]:
    meta = content.get("metadata")
    try:
        msgspec.convert(meta if meta is not None else {}, Meta)
    except msgspec.ValidationError as error:
        yield "metadata", str(error)
        return
    given = dict(meta or {})
    if not given.get("name") and given.get("generateName"):
        given["name"] = f"{given['generateName']}x"
    if not given.get("name"):
        yield "metadata.name", "must be given"
        return
    if given.get("namespace") and not served.namespaced:
        yield "metadata.namespace", f"must not be given: a {served.kind} belongs to no namespace"
    place = {"namespace": given.get("namespace") or "default"} if served.namespaced else {}
    clean = {name: value for name, value in given.items() if name != "namespace"}
    for problem in metadata.problems({**content, "metadata": clean | place}, served, None):
        yield problem.field, problem.message


def _split(sentence: str) -> tuple[str, str]:
    where, _, said = sentence.partition(": ")
    return where, said


def _of_schema(problem: Problem) -> tuple[str, str]:
    """`in body` is a word of the server's that helps nobody."""
    where = "" if problem.field == "<nil>" else problem.field
    return where, problem.message.replace(" in body ", " ")


def _check(spec: Any, _: FailoverRules) -> Iterable[str]:
    read = read_check(NodeHealthCheck(spec=spec))
    return read.problems if isinstance(read, Broken) else ()


def _sentences(read: object) -> tuple[str, ...]:
    return read if isinstance(read, tuple) else ()


def _of_template(read: Read) -> Read:
    """The same of what a template makes, a little deeper down."""

    def of_template(spec: Any, rules: FailoverRules) -> Iterable[str]:
        template = spec.get("template") if isinstance(spec, dict) else None
        inner = template.get("spec") if isinstance(template, dict) else None
        return (f"spec.template.{sentence}" for sentence in read(inner, rules))

    return of_template


def _wish(spec: Any, _: FailoverRules) -> Iterable[str]:
    return _sentences(failover.read_wish(spec))


def _power_cycle(spec: Any, _: FailoverRules) -> Iterable[str]:
    return _sentences(fencing.read_policy(spec))


_READERS: dict[str, Read] = {
    "NodeHealthCheck": _check,
    "PodFailoverPolicy": lambda spec, rules: _sentences(failover.read_policy(spec, rules)),
    "PodFailoverRemediation": _wish,
    "PodFailoverRemediationTemplate": _of_template(_wish),
    "PowerCycleRemediation": _power_cycle,
    "PowerCycleRemediationTemplate": _of_template(_power_cycle),
    "DrainPolicy": lambda spec, _: _sentences(drains.read_policy(spec)),
}
