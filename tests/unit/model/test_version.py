"""The version of an API server, as vendors write it."""

import msgspec
import pytest

from defib.model.version import read_version


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('{"major": "1", "minor": "28"}', (1, 28)),
        ('{"major": "1", "minor": "28+"}', (1, 28)),
        ('{"major": "1", "minor": "27-gke.100"}', (1, 27)),
        ('{"major": "", "minor": ""}', (0, 0)),
        ('{"major": "one", "minor": "+28"}', (0, 0)),
        ('{"gitVersion": "v1.30.2"}', (0, 0)),
    ],
)
def test_rm25_the_number_is_read_whatever_stands_behind_it(answer: str, version: tuple[int, int]) -> None:
    """RM-25: "28+" is 28, and not a reason to delete nodes."""
    assert read_version(answer.encode()) == version


@pytest.mark.parametrize("answer", [b"", b"not json", b"[]", b'{"major": 1}'])
def test_what_is_no_version_is_an_error(answer: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_version(answer)
