"""A number or a share: what people write means what they expect."""

from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defib.model.amount import LARGEST, Amount, read_amount

TOTALS = st.integers(0, 20_000)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, Amount(0)),
        (8, Amount(8)),
        ("8", Amount(8)),
        ("007", Amount(7)),
        ("0%", Amount(0, is_percent=True)),
        ("49%", Amount(49, is_percent=True)),
        ("07%", Amount(7, is_percent=True)),
        ("100%", Amount(100, is_percent=True)),
        (LARGEST, Amount(LARGEST)),
    ],
)
def test_numbers_numbers_in_quotes_and_shares_are_read(written: object, meant: Amount) -> None:
    assert read_amount(written) == meant


@pytest.mark.parametrize("written", ["-1", "-30%", "101%", "1000%", "5 %", " 5", "5\n", "1.5%", "", "%", "٣", "all"])
def test_any_other_text_is_refused_and_repeated(written: str) -> None:
    with pytest.raises(ValueError, match="must be a number or a share") as refused:
        read_amount(written)
    assert repr(written) in str(refused.value)


@pytest.mark.parametrize("written", [None, True, False, 1.0, [], {}, [5]])
def test_what_is_neither_number_nor_text_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must be a number or a share"):
        read_amount(written)


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        read_amount(-1)


@pytest.mark.parametrize("written", [LARGEST + 1, 10**30, "1000000001"])
def test_more_nodes_than_there_can_be_are_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must not be more than 1000000000"):
        read_amount(written)


def test_refusing_something_huge_stays_short() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    for written in (10**5000, "9" * 10**6, "x" * 10**6, nested):
        with pytest.raises(ValueError, match="must") as refused:
            read_amount(written)
        assert len(str(refused.value)) < 200


@pytest.mark.parametrize(("share", "total", "is_"), [("49%", 3, 2), ("75%", 10, 8), ("1%", 1, 1), ("0%", 9, 0)])
def test_a_share_is_rounded_up(share: str, total: int, is_: int) -> None:
    assert read_amount(share).of(total) == is_


@given(percent=st.integers(0, 100), total=TOTALS)
def test_a_share_is_never_more_than_all_and_rounds_up_exactly(percent: int, total: int) -> None:
    share = Amount(percent, is_percent=True).of(total)
    assert 0 <= share <= total
    assert share == ceil(Fraction(total * percent, 100))


@given(value=st.integers(0, LARGEST), total=TOTALS)
def test_a_number_is_the_same_of_any_total(value: int, total: int) -> None:
    assert Amount(value).of(total) == value


@given(amount=st.builds(Amount, st.integers(0, 100), st.booleans()))
def test_an_amount_is_read_back_as_it_is_told(amount: Amount) -> None:
    assert read_amount(str(amount)) == amount
