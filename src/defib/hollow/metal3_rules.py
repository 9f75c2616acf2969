"""The reboot rules of Metal3's baremetal operator as one table: what it does next about the power of one host.

Pure: facts in, the next step out, the first rule that fits wins. Annotations are requests of clients; a simple one
(`reboot.metal3.io`) asks for one reboot and is taken away by the operator, a phased one (`reboot.metal3.io/<key>`)
keeps the host off until its client takes it away.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from defib.hollow.machine import Command

SIMPLE = "reboot.metal3.io"
PHASED_PREFIX = "reboot.metal3.io/"
PAUSED = "baremetalhost.metal3.io/paused"
DETACHED = "baremetalhost.metal3.io/detached"

PROVISIONED = ("provisioned", "externally provisioned")
IN_TRANSIT = ("inspecting", "provisioning", "deprovisioning")  # whose steps clear reboot annotations
POWER_ERROR = "power management error"


class RebootArguments(msgspec.Struct, frozen=True):
    """The value of a reboot annotation. A mode that nobody knows is not hard, so it is soft."""

    mode: str = "soft"
    force: bool = False


class Reboot(msgspec.Struct, frozen=True, kw_only=True):
    """One client's request."""

    key: str
    hard: bool = False
    force: bool = False
    is_valid: bool = True


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision depends on."""

    annotations: Mapping[str, str] = {}
    online: bool = True
    externally_provisioned: bool = False
    has_image: bool = True
    disable_power_off: bool = False
    state: str = "provisioned"
    powered_on: bool = True
    error_count: int = 0
    error_type: str = ""
    is_detached: bool = False  # as the status says
    clears_phased: bool = False  # the old bug: steps of provisioning also cleared phased annotations
    seen_on: bool | None = None  # what the BMC shows; None when it cannot be read or a task hides it
    busy: bool = False  # a power task is under way, or somebody else holds the host
    last_error: str = ""  # what the last power task ended with

    @property
    def reboots(self) -> tuple[Reboot, ...]:
        """The requests that count: outside of the provisioned states only forced ones do."""
        expects_force = self.state not in PROVISIONED
        return tuple(reboot for reboot in reboots(self.annotations) if reboot.force or not expects_force)

    @property
    def wants_on(self) -> bool:
        return self.online and not self.reboots

    @property
    def clearable(self) -> tuple[str, ...]:
        """What a step of provisioning takes away."""
        return tuple(reboot.key for reboot in reboots(self.annotations) if reboot.key == SIMPLE or self.clears_phased)

    @property
    def forces(self) -> bool:
        """After a power error the next try does not ask what the last one ended with."""
        return self.error_type == POWER_ERROR

    @property
    def goes_hard(self) -> bool:
        return self.forces or self.error_count > 0 or any(reboot.hard for reboot in self.reboots)


class Leave(msgspec.Struct, frozen=True):
    """Somebody asked us to keep our hands off."""


class Register(msgspec.Struct, frozen=True):
    """A host that nobody has looked at yet gets the state in which its kind ends; there is nothing to provision."""

    state: str
    on: bool


class Detach(msgspec.Struct, frozen=True):
    """Let go of the host, and show it."""


class Attach(msgspec.Struct, frozen=True):
    """Take the host back."""


class ShowPower(msgspec.Struct, frozen=True):
    """The status follows what the BMC shows."""

    on: bool


class DropAnnotations(msgspec.Struct, frozen=True):
    keys: tuple[str, ...]


class Rest(msgspec.Struct, frozen=True):
    """Power is as wished; look again after the poll time."""


class Await(msgspec.Struct, frozen=True):
    """A change is under way, or cannot begin yet; look again soon."""


class Fail(msgspec.Struct, frozen=True):
    """Record the error and back off."""

    why: str


class Switch(msgspec.Struct, frozen=True):
    """Begin a power task; `drops` are annotations that are served by having begun it."""

    command: Command
    drops: tuple[str, ...] = ()


Step = Leave | Register | Detach | Attach | ShowPower | DropAnnotations | Rest | Await | Fail | Switch


class Rule(msgspec.Struct, frozen=True):
    name: str
    when: Callable[[Facts], bool]
    then: Callable[[Facts], Step]


RULES = (
    Rule("paused", lambda f: PAUSED in f.annotations, lambda _: Leave()),
    Rule("new", lambda f: not f.state, lambda f: Register(_first_state(f), bool(f.seen_on))),
    Rule("detached and shown", lambda f: DETACHED in f.annotations and f.is_detached, lambda _: Leave()),
    Rule("detached", lambda f: DETACHED in f.annotations, lambda _: Detach()),
    Rule("no longer detached", lambda f: f.is_detached, lambda _: Attach()),
    Rule("power has changed", lambda f: f.seen_on not in {None, f.powered_on}, lambda f: ShowPower(bool(f.seen_on))),
    Rule(
        "a step of provisioning clears annotations",
        lambda f: f.state in IN_TRANSIT and bool(f.clearable),
        lambda f: DropAnnotations(f.clearable),
    ),
    Rule(
        "a simple request is served once the host is off",
        lambda f: not f.powered_on and SIMPLE in f.annotations,
        lambda _: DropAnnotations((SIMPLE,)),
    ),
    Rule("power is as wished", lambda f: f.powered_on == f.wants_on, lambda _: Rest()),
    Rule("busy", lambda f: f.busy, lambda _: Await()),
    Rule("the last try failed", lambda f: bool(f.last_error) and not f.forces, lambda f: Fail(f.last_error)),
    Rule("on", lambda f: f.wants_on, lambda _: Switch(Command.ON)),
    Rule(
        "reboot in place of off",
        lambda f: f.disable_power_off,
        lambda f: Switch(Command.RESET if f.goes_hard else Command.SOFT_RESET, _simple(f)),
    ),
    Rule("hard off", lambda f: f.goes_hard, lambda _: Switch(Command.OFF)),
    Rule("soft off", lambda _: True, lambda _: Switch(Command.SOFT_OFF)),
)


def next_step(facts: Facts) -> Step:
    return next(rule.then(facts) for rule in RULES if rule.when(facts))


def reboots(annotations: Mapping[str, str]) -> Iterator[Reboot]:
    for key, value in sorted(annotations.items()):
        if key == SIMPLE or key.startswith(PHASED_PREFIX):
            yield _reboot(key, value)


def _reboot(key: str, value: str) -> Reboot:
    """A value that cannot be read is no reason to ignore the request: it counts, as a soft one."""
    if not value:
        return Reboot(key=key)
    try:
        arguments = msgspec.json.decode(value, type=RebootArguments)
    except msgspec.DecodeError:
        return Reboot(key=key, is_valid=False)
    return Reboot(key=key, hard=arguments.mode == "hard", force=arguments.force)


def _first_state(facts: Facts) -> str:
    if facts.externally_provisioned:
        return "externally provisioned"
    return "provisioned" if facts.has_image else "available"


def _simple(facts: Facts) -> tuple[str, ...]:
    return (SIMPLE,) if SIMPLE in facts.annotations else ()
