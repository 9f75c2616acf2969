"""The few protobuf bodies that kubectl sends."""

import pytest

from defib.simulate.protobuf import decoded
from defib.simulate.refusals import Refusal


def field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def body(kind: str, *fields: bytes) -> bytes:
    about = field(1, b"v1") + field(2, kind.encode())
    return b"k8s\x00" + field(1, about) + field(2, b"".join(fields))


def test_a_config_map_is_read_with_its_labels_and_data() -> None:
    labels = field(11, field(1, b"app") + field(2, b"x"))
    meta = field(1, field(1, b"settings") + field(3, b"default") + field(14, b"x.y/z") + labels)
    data = field(2, field(1, b"key") + field(2, b"value"))
    assert decoded(body("ConfigMap", meta, data)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "settings",
            "namespace": "default",
            "finalizers": ["x.y/z"],
            "labels": {"app": "x"},
        },
        "data": {"key": "value"},
    }


def test_bytes_are_shown_as_json_shows_them() -> None:
    data = field(2, field(1, b"key") + field(2, b"\x00\xff"))
    assert decoded(body("Secret", data))["data"] == {"key": "AP8="}


def test_fields_that_nobody_needs_are_skipped() -> None:
    number, fixed = bytes([9 << 3, 0x96, 0x01]), bytes([10 << 3 | 1]) + bytes(8)
    assert decoded(body("Namespace", number, fixed, field(1, field(1, b"team"))))["metadata"] == {"name": "team"}


@pytest.mark.parametrize(
    ("sent", "code"), [(b"{}", 400), (body("Deployment"), 415), (b"k8s\x00\x0a\x7f", 400), (b"k8s\x00\x0a", 400)]
)
def test_what_cannot_be_read_is_refused(sent: bytes, code: int) -> None:
    with pytest.raises(Refusal) as refused:
        decoded(sent)
    assert refused.value.code == code
