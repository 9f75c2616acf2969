"""What has changed between two looks, and what is wanted of a map, found without asking thousands each time."""

from hypothesis import given
from hypothesis import strategies as st

from defib.model.same import Sieve, changed

MAPS = st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3).map(lambda n: ("thing", n)), max_size=6))
Map = dict[str, tuple[str, int]]


def is_wanted(thing: tuple[str, int]) -> bool:
    return thing[1] % 2 == 1


@given(maps=MAPS)
def test_a_sieve_gives_what_is_wanted_whatever_it_was_asked_before(maps: list[Map]) -> None:
    sieve = Sieve(is_wanted)
    for one in maps:
        assert list(sieve.of(one).items()) == sorted((key, thing) for key, thing in one.items() if is_wanted(thing))


def test_while_nothing_of_it_changes_a_sieve_gives_the_very_same_map() -> None:
    sieve, odd = Sieve(is_wanted), ("thing", 1)
    first = sieve.of({"a": odd, "b": ("thing", 2)})
    assert sieve.of({"a": odd, "b": ("thing", 4), "c": ("thing", 6)}) is first
    assert sieve.of({"a": odd}) is first
    assert sieve.of({"a": ("thing", 3)}) is not first


def test_a_sieve_asks_only_those_that_are_others_than_last_time() -> None:
    asked: list[tuple[str, int]] = []

    def asks(thing: tuple[str, int]) -> bool:
        asked.append(thing)
        return is_wanted(thing)

    sieve = Sieve(asks)
    things: Map = {str(place): ("thing", place) for place in range(5)}
    sieve.of(things)
    asked.clear()
    sieve.of(things | {"3": ("thing", 7)})
    assert asked == [("thing", 7)]


@given(
    was=st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xyz")),
    now=st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xyz")),
)
def test_changed_is_what_is_new_or_another_or_gone(was: dict[str, str], now: dict[str, str]) -> None:
    assert set(changed(was, now)) == {key for key in was.keys() | now.keys() if was.get(key) is not now.get(key)}
    assert changed(was, dict(was)) == ()
