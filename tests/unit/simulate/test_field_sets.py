"""Sets of fields: the algebra under field ownership."""

from hypothesis import given
from hypothesis import strategies as st

from defib.simulate.patches import shapes
from defib.simulate.patches.field_sets import (
    FieldSet,
    changed,
    covers,
    difference,
    existing,
    fields_of,
    intersection,
    overlaps,
    paths,
    union,
)

LEAVES = st.sampled_from(("a", "b", "c"))
VALUES = st.recursive(
    st.integers(0, 2), lambda inner: st.dictionaries(LEAVES, inner, min_size=1, max_size=3), max_leaves=8
)
MAPS = st.dictionaries(LEAVES, VALUES, min_size=1, max_size=3)


def members(fields: FieldSet | None) -> set[str]:
    return set(paths(fields)) if fields is not None else set()


def of(value: object) -> FieldSet:
    return fields_of(value, shapes.PLAIN, containers=False)


@given(MAPS, MAPS)
def test_sets_of_fields_behave_like_sets(one: object, other: object) -> None:
    a, b = of(one), of(other)
    assert members(union(a, b)) == members(a) | members(b)
    assert members(difference(a, b)) == members(a) - members(b)
    assert members(intersection(a, b)) == members(a) & members(b)
    assert overlaps(a, b) == bool(members(a) & members(b))
    assert covers(a, b) == (members(b) <= members(a))


@given(MAPS, MAPS)
def test_what_changed_and_what_stayed_make_up_the_whole(before: object, after: object) -> None:
    touched = changed(before, after, shapes.PLAIN)
    assert (touched is None) <= (members(of(after)) <= members(of(before)))
    kept = existing(of(before), after, shapes.PLAIN)
    assert members(kept) <= members(of(before))


def test_conditions_are_told_apart_by_their_type() -> None:
    before = {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}}
    after = {"status": {"conditions": [{"type": "B", "status": "False"}, {"type": "A", "status": "True"}]}}
    touched = changed(before, after, shapes.NODE)
    assert members(touched) == {'.status.conditions[type="B"].status'}


def test_an_atomic_list_is_one_field() -> None:
    fields = of({"spec": {"taints": [{"key": "a"}, {"key": "b"}]}})
    assert members(fields) == {".spec.taints"}


def test_members_of_a_set_are_fields_of_their_own() -> None:
    fields = fields_of({"metadata": {"finalizers": ["x/a", "x/b"]}}, shapes.NODE, containers=False)
    assert members(fields) == {'.metadata.finalizers[="x/a"]', '.metadata.finalizers[="x/b"]'}


def test_a_key_that_has_a_default_need_not_be_written() -> None:
    ports = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}}
    fields = fields_of(ports, shapes.POD, containers=False)
    port = fields["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"]
    assert list(port) == ['k:{"containerPort":80,"protocol":"TCP"}']
