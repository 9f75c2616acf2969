"""What a reader copies from a page works: commands parse, manifests are valid, files are there."""

from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from defib.cli.main import cli
from defib.manifests import definitions
from defib.simulate.schema.checks import problems
from defib.simulate.schema.structural import Schema, unknown_fields
from tests.tidy.pages import blocks, called, commands, exists, mentioned, our_files, shown
from tests.tidy.repository import ROOT, files, name

PAGES = shown()
MANIFESTS = files(".yaml", under="examples")


def schemas() -> dict[tuple[str, str], Schema]:
    """By apiVersion and kind."""
    return {
        (f"{one['spec']['group']}/{version['name']}", one["spec"]["names"]["kind"]): Schema(
            version["schema"]["openAPIV3Schema"]
        )
        for one in definitions()
        for version in one["spec"]["versions"]
    }


SCHEMAS = schemas()


def complaints(text: str) -> list[str]:
    """About each object of ours in this YAML. Others, and pieces of a manifest, must only be YAML."""
    found: list[str] = []
    for body in yaml.safe_load_all(text):
        schema = SCHEMAS.get((str(body.get("apiVersion")), str(body.get("kind")))) if isinstance(body, dict) else None
        if schema is not None:
            found += [str(problem) for problem in problems(schema, body)]
            found += [f"unknown field {field}" for field in unknown_fields(schema, body)]
        elif isinstance(body, dict) and "defib.dev" in str(body.get("apiVersion")):
            found.append(f"there is no kind {body.get('kind')}")
    return found


def parse(arguments: list[str]) -> None:
    """As the command line would, without doing anything."""
    group: click.Group = cli
    context = click.Context(cli, info_name="defib")
    rest = arguments
    while rest:
        command = group.get_command(context, rest[0])
        if command is None:
            raise click.UsageError(f"no such command: {rest[0]}")
        if not isinstance(command, click.Group):
            command.make_context(rest[0], [one for one in rest[1:] if one not in ("-h", "--help")], parent=context)
            return
        group, rest = command, rest[1:]


def flags(arguments: list[str]) -> list[str]:
    return [one.partition("=")[0] for one in arguments if one.startswith("--") and one != "--"]


def known_flags(command: click.Command) -> set[str]:
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_that_a_page_shows_can_be_typed(page: Path) -> None:
    for arguments in commands(page):
        try:
            parse(arguments)
        except click.UsageError as error:
            pytest.fail(f"defib {' '.join(arguments)}: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_that_a_page_mentions_exists_with_its_flags(page: Path) -> None:
    for arguments in mentioned(page):
        command = cli.get_command(click.Context(cli), arguments[0])
        if arguments[0].startswith("-"):
            continue
        assert command is not None, arguments
        assert isinstance(command, click.Group) or set(flags(arguments)) <= known_flags(command), arguments


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_manifest_that_a_page_shows_is_valid(page: Path) -> None:
    assert [
        complaints(block.text) for block in blocks(page) if block.language == "yaml" and complaints(block.text)
    ] == []


@pytest.mark.parametrize("path", MANIFESTS, ids=name)
def test_every_manifest_of_an_example_is_valid(path: Path) -> None:
    assert complaints(path.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_file_that_a_block_names_is_there(page: Path) -> None:
    assert [path for path in sorted(our_files(page)) if not exists(path)] == []


def test_every_example_has_a_page_that_names_each_of_its_files() -> None:
    for folder in (ROOT / "examples").iterdir():
        page = (folder / "README.md").read_text()
        assert [path.name for path in folder.iterdir() if path.name not in page and path.name != "README.md"] == []


def test_every_example_is_tried_on_a_real_control_plane() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests/e2e").glob("test_example*.py"))
    assert [folder.name for folder in (ROOT / "examples").iterdir() if folder.name not in tests] == []


def test_no_page_needs_a_script_of_others_for_its_pictures() -> None:
    assert [name(page) for page in PAGES if any(block.language == "mermaid" for block in blocks(page))] == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("defib why worker-7", ["why", "worker-7"]),
        ("$ kubectl defib why worker-7 --context a | jq .", ["why", "worker-7", "--context", "a"]),
        ("DEFIB_RESYNC=10m .venv/bin/defib run  # a word", ["run"]),
    ],
)
def test_a_command_is_found_as_it_is_typed(line: str, found: list[str]) -> None:
    assert list(called(line)) == [found]


@pytest.mark.parametrize("line", ["kubectl get nodes", "# defib why", "watches the drain, by defib", ""])
def test_what_is_no_call_of_defib_is_left_alone(line: str) -> None:
    assert list(called(line)) == []


@pytest.mark.parametrize("arguments", [["whi"], ["why"], ["why", "n1", "--no-such-flag"]])
def test_a_command_that_cannot_be_typed_is_refused(arguments: list[str]) -> None:
    with pytest.raises(click.UsageError):
        parse(arguments)


@pytest.mark.parametrize(
    "spec", [{"mode": "Sometimes"}, {"unheard": 1}, {"timeout": 5}], ids=["a value", "a field", "a type"]
)
def test_a_manifest_that_is_wrong_is_refused(spec: dict[str, Any]) -> None:
    body = {"apiVersion": "defib.dev/v1alpha1", "kind": "DrainPolicy", "metadata": {"name": "x"}, "spec": spec}
    assert len(complaints(yaml.safe_dump(body))) == 1
