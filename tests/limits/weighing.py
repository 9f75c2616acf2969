"""What an object holds, all in all: everything that can be reached from it, by type, but for the world around it."""

import asyncio
import gc
import sys
from collections import Counter
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import msgspec

# Those lead from anything to everything.
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType, asyncio.AbstractEventLoop)
_WORLD = ("defib.simulate.", "defib.hollow.", "tests.")


class Weight(msgspec.Struct, frozen=True):
    """How many objects there are of each type, and the bytes that they take."""

    objects: Counter[str]
    sizes: Counter[str]

    @property
    def kib(self) -> float:
        return self.sizes.total() / 1024

    @property
    def count(self) -> int:
        return self.objects.total()

    def more_than(self, before: "Weight") -> str:
        """What there is more of, most first."""
        more = [f"{count:+} {name}" for name, count in (self.objects - before.objects).most_common(10)]
        more += [f"{size / 1024:+.0f} KiB {name}" for name, size in (self.sizes - before.sizes).most_common(5)]
        return ", ".join(more)


def weigh(root: object) -> Weight:
    gc.collect()
    seen = set[int]()
    objects, sizes = Counter[str](), Counter[str]()
    waiting: list[Any] = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, _SHARED) or type(one).__module__.startswith(_WORLD):
            continue
        seen.add(id(one))
        name = f"{type(one).__module__}.{type(one).__qualname__}"
        objects[name] += 1
        sizes[name] += sys.getsizeof(one)
        waiting += _held_by(one)
    return Weight(objects, sizes)


def _held_by(one: object) -> list[Any]:
    """Structs that the collector need not look at do not tell it what they hold."""
    if isinstance(one, msgspec.Struct):
        return [getattr(one, field, None) for field in one.__struct_fields__]
    return gc.get_referents(one)
