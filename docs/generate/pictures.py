"""The other drawings: how a pass flows, what a node goes through, and the ladder of a drain with its minutes."""

from datetime import UTC, datetime, timedelta

from defib import act, decide, observe
from defib.decide.answers.overview import UNWATCHED
from defib.decide.drains.intent import Intent
from defib.decide.drains.schedule import schedule_of
from defib.decide.plan import Plan
from defib.model.cluster import Cluster
from defib.model.drain_policy import Policy, Source, Strategy
from defib.model.mandate import Mandate
from defib.model.node_drain import Rung
from defib.model.verdict import State
from docs.generate.drawing import Sheet

START = datetime(2026, 1, 1, tzinfo=UTC)
# What is done to a pod, in a few words, for the reader who has never seen the ladder.
RUNGS = {
    Rung.EVICT: "the API server is asked to let it go",
    Rung.DELETE: "deleted, with its own grace",
    Rung.FINALIZERS: "allowed finalizers are taken off",
    Rung.KILL: "its kubelet kills it, and says so",
    Rung.FORCE: "without asking; never what must not run twice",
}
STATES = {
    State.HEALTHY: "none of the listed conditions",
    State.SUSPECT: "shows one, not yet for long enough",
    State.UNHEALTHY: "for long enough; the gates are asked",
    State.REMEDIATING: "its remediation is there",
    State.RECOVERING: "healthy; the remediation goes",
}


def drawn() -> dict[str, str]:
    """By file name."""
    return {"flow.svg": _flow(), "states.svg": _states(), "ladder.svg": _ladder()}


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _flow() -> str:
    """One pass. The names are those of the packages and of what passes between them."""
    sheet = Sheet(
        960, 300, "A pass: the API server is watched, a frozen Cluster is decided on, a frozen Plan is carried out"
    )
    sheet.word(24, 36, "One pass, every time something changes or is due", look="title")
    steps = (
        (observe, "lists and watches"),
        (decide, "pure: no clock, no network"),
        (act, "looks once more, then does"),
    )
    sheet.box(24, 110, (130, 70), "API server")
    for number, (package, says) in enumerate(steps):
        sheet.box(230 + number * 250, 110, (180, 70), _last(package.__name__), says, look="key")
    sheet.arrow((154, 145), (228, 145))
    sheet.word(191, 136, "watch", look="small", anchor="middle")
    for x, noun in ((410, Cluster), (660, Plan)):
        sheet.arrow((x, 145), (x + 68, 145))
        sheet.word(x + 34, 136, noun.__name__, look="small", anchor="middle")
    sheet.arrow((820, 180), (820, 250), (89, 250), (89, 182))
    sheet.word(454, 242, "create, patch, delete, evict; and the power of machines", look="small", anchor="middle")
    sheet.box(730, 56, (180, 34), f"{Mandate.__name__}: may I still?", look="warn")
    sheet.arrow((820, 90), (820, 108))
    sheet.word(570, 84, "also read by: defib why, plan, the dashboard", look="small", anchor="middle")
    sheet.word(
        454,
        284,
        "No part of it keeps anything that another replica would need: it is all in the cluster.",
        look="small",
        anchor="middle",
    )
    return sheet.svg()


def _states() -> str:
    sheet = Sheet(960, 210, "What a node goes through under a check: " + ", ".join(state.value for state in STATES))
    sheet.word(24, 36, "A node under a NodeHealthCheck", look="title")
    looks = {State.HEALTHY: "key", State.SUSPECT: "warn", State.UNHEALTHY: "bad"}
    for number, (state, says) in enumerate(STATES.items()):
        x = 24 + number * 187
        sheet.box(x, 70, (160, 48), state.value, look=looks.get(state, "box"))
        half = says.split("; ") if "; " in says else _halves(says)
        for line, part in enumerate(half):
            sheet.word(x + 80, 138 + line * 16, part, look="small", anchor="middle")
        if number:
            sheet.arrow((x - 27, 94), (x - 2, 94))
    sheet.arrow((852, 70), (852, 52), (104, 52), (104, 68))
    sheet.word(24, 196, f"{UNWATCHED}: no check selects the node. {State.UNSEEN.value}: nobody can say.", look="small")
    return sheet.svg()


def _halves(says: str) -> list[str]:
    words = says.split()
    middle = (len(words) + 1) // 2
    return [" ".join(words[:middle]), " ".join(words[middle:])]


def _minutes(strategy: Strategy) -> int:
    intent = Intent(source=Source.KUBECTL, why="it is marked")
    return round((schedule_of(Policy(), intent, START).due_at(strategy) - START) / timedelta(minutes=1))


def _ladder() -> str:
    """From the mildest step to the last. The minutes are those of a policy that says nothing of its own."""
    first, past = _minutes(Strategy.DELETE), _minutes(Strategy.PDB_DELETE)
    sheet = Sheet(960, 120 + len(Rung) * 66, "The ladder of a drain: " + ", ".join(rung.value for rung in Rung))
    sheet.word(24, 36, "The ladder: a pod that does not leave a node that is being drained", look="title")
    sheet.word(500, 66, "pods without a disruption budget", look="small")
    sheet.word(740, 66, "pods with one", look="small")
    grace = f"{Policy().times.extra_grace.total_seconds():g} s overdue"
    times = {
        Rung.EVICT: (f"after {first} min", f"after {first} min"),
        Rung.DELETE: ("when evicting fails twice", f"past its budget after {past} min"),
        Rung.FINALIZERS: (grace, f"{grace}, after {past} min"),
        Rung.KILL: (grace, f"{grace}, after {past} min"),
        Rung.FORCE: (f"{grace} again", f"{grace} again"),
    }
    for number, rung in enumerate(Rung):
        y = 80 + number * 66
        sheet.box(24, y, (440, 48), rung.value, RUNGS[rung], look="bad" if rung is Rung.FORCE else "box")
        sheet.word(500, y + 28, times[rung][0])
        sheet.word(740, y + 28, times[rung][1])
        if number:
            sheet.arrow((244, y - 18), (244, y - 2))
    sheet.word(
        24,
        110 + len(Rung) * 66 - 12,
        "Each step is written into the NodeDrain before it is taken. A mode, a gate or a person can stop it at any of them.",
        look="small",
    )
    return sheet.svg()
