"""A guard of Defib made worse on purpose, for as long as a day lasts. Nothing in the product knows of it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import FunctionType
from typing import Any

import msgspec

from tests.simulation.mutants.days import Need, any_day
from tests.simulation.runs import USUAL


class Swap(msgspec.Struct, frozen=True):
    """`where` is a name of the product, as `module:Class.attribute`; `by` makes the worse one from what stands there."""

    where: str
    by: Callable[[Any], Any]


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """`broken` says, for the reader of a table, what it does wrong; `invariant` is the one that must be seen to break."""

    name: str
    invariant: str
    broken: str
    swaps: tuple[Swap, ...]
    needs: Need = any_day  # what a day must have, so that the guard is asked for at all
    series: str = USUAL  # of days


@contextmanager
def switched_on(mutant: Mutant) -> Iterator[None]:
    """Whatever runs inside has the worse guard; afterwards everything is as it was."""
    with ExitStack() as stack:
        for swap in mutant.swaps:
            stack.enter_context(_swapped(swap))
        yield


@contextmanager
def _swapped(swap: Swap) -> Iterator[None]:
    module, _, path = swap.where.partition(":")
    *outer, name = path.split(".")
    owner: Any = import_module(module)
    for part in outer:
        owner = getattr(owner, part)
    good = vars(owner)[name]
    bad = swap.by(good)
    places = [owner, *(_importers(good, name, owner) if isinstance(good, FunctionType) and not outer else ())]
    for place in places:
        setattr(place, name, bad)
    try:
        yield
    finally:
        for place in places:
            setattr(place, name, good)


def _importers(good: object, name: str, owner: object) -> list[object]:
    """A function is called by the name that each module has imported it by."""
    modules = [module for key, module in tuple(sys.modules.items()) if key.startswith("defib.")]
    return [module for module in modules if module is not owner and vars(module).get(name) is good]


def always(answer: Any) -> Callable[[Any], Any]:
    """Whatever it is asked."""
    return lambda _: lambda *_, **__: answer


def always_at_once(answer: Any) -> Callable[[Any], Any]:
    """The same, of what is awaited."""

    async def give(*_: Any, **__: Any) -> Any:
        return answer

    return lambda _: give


def value(it: Any) -> Callable[[Any], Any]:
    return lambda _: it


def question(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Instead of a property."""
    return lambda _: property(answer)
