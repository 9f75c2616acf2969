"""Which pods of a failed node leave at once, which wait for a proof, and which stay, with a reason."""

from datetime import timedelta
from typing import Any

import pytest

from defib.decide.failover.pods import ClaimFacts, Claims, Sorted, is_shared, needs_proof, sort_pods, why_it_stays
from defib.model.action import ReadClaim
from defib.model.incident import Grade
from defib.model.meta import Meta, OwnerReference
from defib.model.pod import MIRROR, Pod, Toleration
from defib.model.pod_failover import KEEP, Exclusions, Owner, Wish
from defib.model.selector import EVERYTHING, Requirement, Selector
from tests.builders import SECOND, T0
from tests.unit.decide.failover.failovers import (
    CLUSTER,
    DAEMON_SET,
    FAILED_AT,
    JOB,
    LONG_AGO,
    REPLICA_SET,
    RWO,
    RWX,
    STATEFUL_SET,
    a_claim_volume,
    a_pod,
)

WHOLE_NODE = Wish()
CHOSEN = Wish(is_chosen=True)
NO_PROOF = Wish(is_chosen=True, accepts=frozenset())
FORCED = Wish(is_chosen=True, grace_seconds=0)
NOTHING_READ: Claims = {}
ONLY_DB = Selector((Requirement("tier", "In", frozenset({"db"})),))


def sort(
    *pods: Pod, wish: Wish = WHOLE_NODE, claims: Claims = NOTHING_READ, unreadable: frozenset[str] = frozenset()
) -> Sorted:
    facts = ClaimFacts(claims=claims, unreadable=unreadable)
    return sort_pods(pods, wish, failed_at=FAILED_AT, facts=facts)


def names(pods: tuple[Pod, ...]) -> list[str]:
    return [pod.name for pod in pods]


WHATEVER = Toleration(operator="Exists")


@pytest.mark.parametrize("owner", [REPLICA_SET, ("v1", "ReplicationController")])
def test_a_pod_that_its_controller_replaces_by_a_copy_may_go(owner: tuple[str, str]) -> None:
    pod = a_pod("web-1", owner=owner)
    assert why_it_stays(pod, WHOLE_NODE, FAILED_AT) == ""
    assert sort(pod).movable == (pod,)


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (a_pod("proxy-1", owner=DAEMON_SET), "of a DaemonSet"),
        (a_pod("proxy-2", owner=("apps.kruise.io/v1alpha1", "DaemonSet")), "of a DaemonSet"),
        (a_pod("by-hand", owner=None), "without a controller that would make another one"),
        (a_pod("etcd-n1", owner=("v1", "Node"), annotations={MIRROR: "x"}), "static"),
        (a_pod("web-1", annotations={KEEP: ""}), "kept by the annotation defib.dev/keep"),
        (a_pod("web-1", created=FAILED_AT, tolerations=[WHATEVER]), "placed there since the node failed"),
        (a_pod("web-1", created=FAILED_AT + 5 * SECOND), "placed there since the node failed"),
        (a_pod("web-1", created=T0), "placed there since the node failed"),
        (a_pod("web-1", created=None), "placed there since the node failed"),
    ],
    ids=lambda value: value.name if isinstance(value, Pod) else None,
)
@pytest.mark.parametrize("wish", [WHOLE_NODE, CHOSEN, NO_PROOF, FORCED], ids=["node", "chosen", "none", "forced"])
def test_some_pods_stay_whatever_anybody_wishes(pod: Pod, why: str, wish: Wish) -> None:
    assert why_it_stays(pod, wish, FAILED_AT) == why
    found = sort(pod, wish=wish)
    assert (found.movable, found.waiting, found.left, found.why_left) == ((), (), 1, f"1 {why}")


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("db-0", owner=STATEFUL_SET),
        a_pod("old-0", owner=("apps/v1beta1", "StatefulSet")),
        a_pod("kruise-0", owner=("apps.kruise.io/v1beta1", "StatefulSet")),
        a_pod("wiki-1", claims=["data"]),
        a_pod("cache-1", volumes=[{"name": "scratch", "ephemeral": {}}]),
        a_pod("old-1", volumes=[{"name": "lun", "iscsi": {"lun": 0}}]),
        a_pod("odd-1", volumes=[{"name": "new", "somethingOfNextYear": {}}]),
    ],
    ids=lambda pod: pod.name,
)
def test_what_must_not_run_twice_waits_for_a_proof_whoever_asks(pod: Pod) -> None:
    """I1: of whichever group its StatefulSet is, for others have made their own."""
    for wish in (WHOLE_NODE, CHOSEN, FORCED):
        assert sort(pod, wish=wish, claims={"apps/data": RWO}).waiting == (pod,)
        assert sort(pod, wish=wish).movable == ()
    assert sort(pod, wish=NO_PROOF).movable == (pod,), "somebody has said that it may"


@pytest.mark.parametrize("owner", [JOB, CLUSTER, ("example.com/v1", "ReplicaSet")])
def test_pods_of_other_controllers_wait_unless_their_team_has_chosen_them(owner: tuple[str, str]) -> None:
    pod = a_pod("import-1", owner=owner)
    assert sort(pod).waiting == (pod,)
    assert sort(pod, wish=CHOSEN).movable == (pod,)


@pytest.mark.parametrize("source", ["configMap", "secret", "projected", "downwardAPI", "emptyDir", "hostPath", "csi"])
def test_volumes_that_every_copy_may_have_hold_no_pod_back(source: str) -> None:
    volumes: list[dict[str, Any]] = [{"name": "v", source: {}}, {"name": "w", "emptyDir": {}}]
    assert not needs_proof(a_pod("web-1", volumes=volumes), WHOLE_NODE, NOTHING_READ)
    assert needs_proof(a_pod("web-1", volumes=[*volumes, a_claim_volume()]), WHOLE_NODE, NOTHING_READ)


def test_a_pod_that_was_there_a_second_before_the_failure_may_go_whatever_it_tolerates() -> None:
    pod = a_pod("web-1", created=FAILED_AT - SECOND, tolerations=[WHATEVER])
    assert why_it_stays(pod, WHOLE_NODE, FAILED_AT) == ""


def test_a_pod_that_came_before_kubernetes_had_tainted_the_node_may_go_if_the_taint_would_have_kept_it_away() -> None:
    """Its copy goes elsewhere, and if the taint is late, the copy's copy does, for a few seconds."""
    for_a_while = Toleration(key="node.kubernetes.io/unreachable", operator="Exists", effect="NoExecute")
    pod = a_pod("web-1", created=FAILED_AT + 4 * SECOND, tolerations=[for_a_while])
    assert why_it_stays(pod, WHOLE_NODE, FAILED_AT) == ""
    for what in ("unreachable", "not-ready"):
        stubborn = Toleration(key=f"node.kubernetes.io/{what}", operator="Exists", effect="NoSchedule")
        assert why_it_stays(a_pod("web-1", created=FAILED_AT, tolerations=[stubborn]), WHOLE_NODE, FAILED_AT) != ""


@pytest.mark.parametrize("controller", [False, None])
def test_an_owner_that_is_not_the_controller_does_not_count(controller: bool | None) -> None:
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", controller=controller)
    pod = Pod(metadata=Meta(name="web-1", creation_timestamp=LONG_AGO, owner_references=[owner]))
    assert sort(pod).bare == (pod,)


def test_pods_that_nobody_would_make_again_are_named() -> None:
    bare, static = a_pod("by-hand", owner=None), a_pod("etcd", owner=None, annotations={MIRROR: "x"})
    found = sort(bare, static)
    assert (found.bare, found.left) == ((bare,), 2)


# What is leaving or finished.


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("wish", [WHOLE_NODE, FORCED], ids=["node", "forced"])
def test_what_is_finished_is_neither_moved_nor_counted(phase: str, wish: Wish) -> None:
    assert sort(a_pod("a", phase=phase), a_pod("b-0", owner=STATEFUL_SET, phase=phase), wish=wish) == Sorted()


def test_what_leaves_already_is_neither_moved_nor_counted_unless_it_is_forced() -> None:
    """On a node that is down it leaves for ever, and nobody takes its place until somebody forces it."""
    for pod in (a_pod("a", leaving=True), a_pod("b", leaving=True, phase="Failed")):
        assert sort(pod) == sort(pod, wish=CHOSEN) == Sorted()
        assert sort(pod, wish=FORCED).movable == (pod,)


def test_what_was_forced_already_and_is_held_by_a_finalizer_is_not_forced_again() -> None:
    pod = a_pod("import-1", leaving=True, deletion_grace_period_seconds=0, finalizers=["batch.kubernetes.io/x"])
    assert sort(pod, wish=FORCED) == Sorted()


@pytest.mark.parametrize("wish", [WHOLE_NODE, CHOSEN, FORCED], ids=["node", "chosen", "forced"])
def test_what_leaves_and_must_not_run_twice_still_waits(wish: Wish) -> None:
    pod = a_pod("db-0", owner=STATEFUL_SET, leaving=True)
    assert sort(pod, wish=wish).waiting == (pod,)


# Claims.


@pytest.mark.parametrize(
    ("modes", "shared"),
    [
        (None, False),
        ((), False),
        (("ReadWriteOnce",), False),
        (("ReadWriteOncePod",), False),
        (("ReadWriteMany",), True),
        (("ReadOnlyMany",), True),
        (("ReadOnlyMany", "ReadWriteMany"), True),
        (("ReadWriteOnce", "ReadWriteMany"), False),
        (("SomethingOfNextYear",), False),
    ],
)
def test_only_a_claim_that_is_for_many_alone_is_shared(modes: tuple[str, ...] | None, shared: bool) -> None:
    assert is_shared(frozenset(modes) if modes is not None else None) is shared


def test_a_claim_of_which_nothing_is_known_is_read_before_its_pod_is_moved() -> None:
    pod = a_pod("wiki-1", claims=["pages", "pictures"])
    found = sort(pod, claims={"apps/pages": RWX})
    assert (found.unsure, found.unread) == ((pod,), (ReadClaim("apps", "pictures"),))
    assert (found.movable, found.waiting) == ((), ())
    assert found.claims == {"apps/pages", "apps/pictures"}
    found = sort(pod, claims={"apps/pages": RWX, "apps/pictures": RWX})
    assert (found.movable, found.unread) == ((pod,), ())
    assert found.claims == {"apps/pages", "apps/pictures"}, "they are remembered for as long as it is there"
    found = sort(a_pod("wiki-1", claims=["pages"], leaving=True), claims={"apps/pages": RWX})
    assert not found.movable
    assert found.claims == {"apps/pages"}, "and while it leaves: else they would be read again"


def test_a_pod_with_a_claim_that_cannot_be_read_waits_and_the_claim_is_tried_again() -> None:
    """As with one that is not there: nobody can say that it is shared."""
    pod = a_pod("wiki-1", claims=["pages", "pictures"])
    found = sort(pod, claims={"apps/pages": RWX}, unreadable=frozenset({"apps/pictures"}))
    assert (found.unsure, found.waiting, found.unread) == ((), (pod,), (ReadClaim("apps", "pictures"),))


def test_a_claim_of_which_nothing_is_known_holds_up_no_other_pod() -> None:
    web, db, wiki = a_pod("web-1"), a_pod("db-0", owner=STATEFUL_SET), a_pod("wiki-1", claims=["data"])
    found = sort(web, db, wiki)
    assert (found.movable, found.waiting, found.unsure) == ((web,), (db,), (wiki,))


def test_each_claim_is_read_once_however_many_pods_have_it() -> None:
    assert sort(a_pod("a", claims=["x"]), a_pod("b", claims=["x"])).unread == (ReadClaim("apps", "x"),)


@pytest.mark.parametrize(
    ("pod", "wish"),
    [
        (a_pod("db-0", owner=STATEFUL_SET, claims=["data"]), CHOSEN),
        (a_pod("import-1", owner=JOB, claims=["data"]), WHOLE_NODE),
        (a_pod("old-1", claims=["data"], volumes=[{"name": "lun", "iscsi": {}}]), CHOSEN),
        (a_pod("wiki-1", claims=["data"]), NO_PROOF),
        (a_pod("wiki-1", claims=["data", "own"]), CHOSEN),
        (a_pod("proxy-1", owner=DAEMON_SET, claims=["data"]), CHOSEN),
        (a_pod("wiki-1", claims=["data"], phase="Succeeded"), CHOSEN),
        (a_pod("wiki-1", claims=["data"], labels={"tier": "db"}), Wish(exclude=Exclusions(selector=ONLY_DB))),
    ],
)
def test_a_claim_is_not_read_where_nothing_depends_on_it(pod: Pod, wish: Wish) -> None:
    found = sort(pod, wish=wish, claims={"apps/own": RWO})
    assert (found.unread, found.unsure) == ((), ())


def test_a_claim_that_has_no_modes_is_shared_by_nobody() -> None:
    pod = a_pod("wiki-1", claims=["data"])
    assert sort(pod, claims={"apps/data": frozenset()}).waiting == (pod,)
    assert sort(pod, claims={"apps/data": frozenset()}).unread == ()
    assert sort(pod, claims={"other/data": RWX}).unsure == (pod,), "that one is of another namespace"


# Selected, excluded, sorted.


def test_what_is_not_selected_is_nobodys_business() -> None:
    wish = Wish(selector=ONLY_DB)
    assert sort(a_pod("web-1"), a_pod("by-hand", owner=None), wish=wish) == Sorted()
    assert names(sort(a_pod("db-1", labels={"tier": "db"}), wish=wish).movable) == ["db-1"]


@pytest.mark.parametrize(
    ("exclude", "field"),
    [
        (Exclusions(names=("noobaa-db-pg-*",)), "names"),
        (Exclusions(names=("x", "noobaa-db-pg-?")), "names"),
        (Exclusions(selector=ONLY_DB), "selector"),
        (Exclusions(selector=EVERYTHING), "selector"),
        (Exclusions(owners=(Owner("Cluster"),)), "owners"),
        (Exclusions(owners=(Owner("Cluster", "pg-*"),)), "owners"),
        (Exclusions(claims=("data-*",)), "claims"),
    ],
)
def test_a_pod_that_an_exclusion_names_stays_and_is_counted(exclude: Exclusions, field: str) -> None:
    """EV-12."""
    pod = a_pod("noobaa-db-pg-0", owner=CLUSTER, owned_by="pg-main", labels={"tier": "db"}, claims=["data-0"])
    for accepts in (frozenset[Grade](), WHOLE_NODE.accepts):
        found = sort(pod, wish=Wish(exclude=exclude, accepts=accepts, is_chosen=True))
        assert (found.movable, found.waiting, found.why_left) == ((), (), f"1 excluded (exclude.{field})")


@pytest.mark.parametrize(
    "exclude",
    [
        Exclusions(),
        Exclusions(names=("noobaa-db-pg",)),
        Exclusions(names=("*-db-PG-*",)),
        Exclusions(selector=Selector((Requirement("tier", "In", frozenset({"web"})),))),
        Exclusions(owners=(Owner("StatefulSet"), Owner("Cluster", "pg"), Owner("cluster"))),
        Exclusions(claims=("data", "?ata-")),
    ],
)
def test_a_pod_that_no_exclusion_names_goes(exclude: Exclusions) -> None:
    pod = a_pod("noobaa-db-pg-0", owner=CLUSTER, owned_by="pg-main", labels={"tier": "db"}, claims=["data-0"])
    wish = Wish(exclude=exclude, accepts=frozenset(), is_chosen=True)
    assert sort(pod, wish=wish).movable == (pod,)


def test_those_that_stay_are_counted_by_reason_the_commonest_first() -> None:
    owners = [None, DAEMON_SET, None]
    staying = [a_pod(f"p{place}", owner=owner) for place, owner in enumerate(owners)]
    found = sort_pods([*staying, a_pod("web-1")], WHOLE_NODE, failed_at=T0 - timedelta(minutes=1))
    assert names(found.movable) == ["web-1"]
    assert found.left == 3
    reasons = "2 without a controller that would make another one, 1 of a DaemonSet; apps/p0, apps/p2 would be lost"
    assert found.rest == f"; 3 left in place: {reasons}"


def test_the_most_important_leave_first() -> None:
    pods = [a_pod("a"), a_pod("c", priority=5), a_pod("b", priority=5), a_pod("d", priority=-1)]
    assert names(sort(*pods).movable) == ["b", "c", "a", "d"]
