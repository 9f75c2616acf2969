"""As few troubles as show what a bad day showed, each as short as may be: delta debugging over the schedule."""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from tests.simulation.runs import USUAL, Day, drawn_for, live

SHORTEST_SECONDS = 2.0


class Shrunk(msgspec.Struct, frozen=True):
    """`numbers` of the troubles that are left; `lasting`, those that may end sooner than they were drawn."""

    seed: int
    numbers: tuple[int, ...]
    lasting: Mapping[int, float] = {}
    series: str = USUAL

    @classmethod
    def whole(cls, seed: int, series: str = USUAL) -> "Shrunk":
        """Nothing is left out yet."""
        return cls(seed, tuple(range(len(drawn_for(seed, series)[1]))), series=series)

    @property
    def command(self) -> str:
        only = ",".join(str(number) for number in self.numbers)
        lasting = ",".join(f"{number}={seconds:g}" for number, seconds in sorted(self.lasting.items()))
        sooner = f" --lasting '{lasting}'" if lasting else ""
        series = f" --series {self.series}" if self.series != USUAL else ""
        return f"python -m tests.simulation{series} --seed {self.seed} --only '{only}'{sooner}"

    def live(self, *, tells: bool = False) -> Day:
        return live(self.seed, self.numbers, tells=tells, lasting=self.lasting, series=self.series)


def shrink(seed: int, shows: Callable[[Day], bool], series: str = USUAL) -> tuple[int, ...]:
    """The numbers of the troubles that are enough for a day to show the same."""
    return fewest(Shrunk.whole(seed, series).numbers, lambda numbers: shows(live(seed, numbers, series=series)))


def shrink_all(seed: int, shows: Callable[[Day], bool], series: str = USUAL) -> Shrunk:
    """The same, and then each of them is made as short as it can be."""
    numbers, drawn = shrink(seed, shows, series), drawn_for(seed, series)[1]
    lasting = shortest(
        {number: drawn[number].seconds for number in numbers},
        lambda lengths: shows(Shrunk(seed, numbers, lengths, series).live()),
    )
    sooner = {one: lasting[one] for one in numbers if lasting[one] != drawn[one].seconds}
    return Shrunk(seed, numbers, sooner, series)


def fewest(numbers: tuple[int, ...], shows: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    """Halves are left out first, then quarters, down to single ones; until none can be."""
    left, parts = numbers, 2
    while left:
        fewer = next(filter(shows, _without_a_part(left, parts)), None)
        if fewer is not None:
            left, parts = fewer, max(parts - 1, 2)
        elif parts >= len(left):
            break
        else:
            parts = min(parts * 2, len(left))
    return left


def shortest(lengths: Mapping[int, float], shows: Callable[[Mapping[int, float]], bool]) -> Mapping[int, float]:
    """Each is halved for as long as that shows the same."""
    for number in lengths:
        while (seconds := round(lengths[number] / 2, 1)) >= SHORTEST_SECONDS:
            shorter = {**lengths, number: seconds}
            if not shows(shorter):
                break
            lengths = shorter
    return lengths


def _without_a_part(numbers: tuple[int, ...], parts: int) -> Iterator[tuple[int, ...]]:
    length = -(-len(numbers) // parts)
    for start in range(0, len(numbers), length):
        yield numbers[:start] + numbers[start + length :]
