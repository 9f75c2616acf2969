"""JSON is taken apart as it was written, whatever is inside."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defib.kube.scan import elements, members

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
indents = st.sampled_from([None, 2])


@given(st.dictionaries(st.text(), values), indents)
def test_the_members_of_an_object_are_those_that_a_parser_finds(written: dict[str, Any], indent: int | None) -> None:
    found = members(json.dumps(written, indent=indent).encode())
    assert {json.loads(b'"%b"' % key): json.loads(value) for key, value in found.items()} == written


@given(st.lists(values), indents)
def test_the_elements_of_an_array_are_those_that_a_parser_finds(written: list[Any], indent: int | None) -> None:
    assert [json.loads(value) for value in elements(json.dumps(written, indent=indent).encode())] == written


@pytest.mark.parametrize("broken", [b"", b"7", b"[]", b'{"a":{', b'{"a":', b'{"a":"x', b'{"a":1'])
def test_what_is_not_a_whole_object_is_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match=r"expected|does not end"):
        members(broken)


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_in_another_way(noise: bytes) -> None:
    for take in (members, lambda body: list(elements(body))):
        with suppress(ValueError):
            assert all(part in noise for part in take(noise))
