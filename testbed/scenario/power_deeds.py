"""What can be done in a story to BMCs and about power cycles. BMCs matter to Defib alone, so a story needs an operator."""

from testbed.scenario.remediation_deeds import Switch, ToRemediation
from testbed.scenario.story import Phrase, Where, Word


class ToPower(ToRemediation, frozen=True):
    """Of one machine."""

    node: Where


class Refuses(ToPower, frozen=True):
    """As after somebody changed the password."""

    sentence = "bmc of {node} refuses"


class Vanishes(ToPower, frozen=True):
    sentence = "bmc of {node} vanishes"


class HangsUp(ToPower, frozen=True):
    """It takes every question and answers none."""

    sentence = "bmc of {node} hangs"


class Dawdles(ToPower, frozen=True):
    sentence = "bmc of {node} answers after {seconds}"
    seconds: float


class Babbles(ToPower, frozen=True):
    sentence = "bmc of {node} answers garbage"


class Lies(ToPower, frozen=True):
    """Whatever the power is."""

    sentence = "bmc of {node} lies {power}"
    power: Switch


class Ignores(ToPower, frozen=True):
    """It says yes, and does nothing."""

    sentence = "bmc of {node} ignores {count} commands"
    count: int


class IsWell(ToPower, frozen=True):
    sentence = "bmc of {node} is well"


class ConfirmOff(ToPower, frozen=True):
    """As a person does who went there and looked."""

    sentence = "confirm {node} off by {who}"
    who: Word


POWER_DEEDS: tuple[type[Phrase], ...] = (
    Refuses,
    Vanishes,
    HangsUp,
    Dawdles,
    Babbles,
    Lies,
    Ignores,
    IsWell,
    ConfirmOff,
)
