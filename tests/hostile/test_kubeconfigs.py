"""Kubeconfigs that are spoilt at random, or made to cost memory: a connection, or one line that says what to do."""

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from defib.kube.errors import BadConfig
from defib.kube.kubeconfig import load_connection
from tests.hostile.spoiling import spoil

EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "2000")) // 10
LONG = 600
SECRET = "s3cr3t-s3cr3t"

RIGHT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    "clusters": [
        {
            "name": "c",
            "cluster": {
                "server": "https://10.0.0.1:6443",
                "certificate-authority-data": "eA==",
                "tls-server-name": "x",
                "proxy-url": f"http://a:{SECRET}@proxy:3128",
                "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"a": "b"}}],
            },
        }
    ],
    "users": [
        {
            "name": "u",
            "user": {
                "token": SECRET,
                "as": "somebody",
                "as-groups": ["g"],
                "as-user-extra": {"k": ["v"]},
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "get-token",
                    "args": ["a"],
                    "env": [{"name": "A", "value": SECRET}],
                    "interactiveMode": "Never",
                },
            },
        }
    ],
}


def read(path: Path) -> str:
    """What is wrong with it; empty where nothing is."""
    try:
        load_connection(path, None, {})
    except BadConfig as error:
        return str(error)
    return ""


def expect_a_line(why: str) -> None:
    assert "\n" not in why
    assert why.isprintable() or not why, repr(why)
    assert SECRET not in why
    assert len(why) < 10_000  # names are repeated, once


@pytest.mark.timeout(LONG)
def test_a_spoilt_kubeconfig_is_a_connection_or_one_line_without_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "config"
    read_well = 0
    for seed in range(EXAMPLES):
        chance = Random(seed)
        config = yaml.safe_load(yaml.safe_dump(RIGHT))
        done = spoil(config, chance)
        try:
            path.write_text(yaml.safe_dump(config))
        except RecursionError:
            continue  # too deep even to be written
        try:
            why = read(path)
            expect_a_line(why)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {done}") from error
        read_well += not why
    assert 0 < read_well < EXAMPLES


LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
BYTES: dict[str, bytes] = {
    "laughs": (LAUGHS + "clusters: *a29\n").encode(),
    "laughs in an extension": (
        LAUGHS + "clusters: [{name: c, cluster: {server: 'https://x', extensions: [{name: e, extension: *a29}]}}]\n"
    ).encode(),
    "itself": b"&a [*a]",
    "itself, where something is expected": b"clusters: &a [{name: c, cluster: *a}]",
    "deep": b"[" * 20_000,
    "deep maps": b"{a: " * 5_000,
    "no UTF-8": b"clusters: \xff\xfe",
    "another encoding": "clusters: []".encode("utf-16"),
    "zeros": b"\0" * 1_000,
    "a tag": b"!!python/object/apply:os.system ['touch /tmp/owned']",
    "a number without end": b"current-context: " + b"9" * 10_000,
    "a date that is none": b"current-context: 2030-02-31",
    "many documents": b"---\n{}\n" * 100,
    "steering": b'current-context: "\\e[2J\\u202e\\n"\n',
}


@pytest.mark.parametrize("content", BYTES.values(), ids=BYTES)
def test_a_kubeconfig_that_is_made_to_harm_leaves_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    why = read(path)
    assert why
    expect_a_line(why)
