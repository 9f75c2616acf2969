"""I12 for dumps: what was dumped is read again as the very same cluster, and gives the same plan; and no secret is in it."""

import gzip
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from defib.console.dump import config_maps_read
from defib.console.recording import Recorder, Recording, decided_of, header_of, read_recording
from defib.console.redaction import clean, without_secrets
from defib.console.replay import replay_of
from defib.console.thorough import think
from defib.decide.rules import Rules
from defib.model.cluster import Cluster
from defib.model.incident import NodeIncident
from defib.model.meta import Meta, Unstructured
from defib.model.node import Node
from defib.model.pod import Pod, PodSpec
from tests.builders import T0, a_node
from tests.property.worlds import ANY_DEEDS, Deed, live, worlds
from tests.unit.decide.world import World

KEEPSAKE = "hunter2-is-not-for-you"


def remembered(cluster: Cluster) -> Cluster:
    """Without what only a running operator knows."""
    return msgspec.structs.replace(cluster, underway=(), power={}, fences={}, members=None)


def recorded(clusters: list[Cluster], rules: Rules) -> tuple[Recording, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump.json.gz"
        with Recorder(path) as recorder:
            recorder.begin(header_of(rules, T0, ()), None)
            for cluster in clusters:
                recorder.frame(cluster, decided_of(think(cluster, rules)))
        return read_recording(path), gzip.decompress(path.read_bytes())


@settings(max_examples=20, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_a_recording_holds_every_look_as_it_was_and_gives_the_same_plans(world: World, happenings: list[Deed]) -> None:
    clusters = [remembered(moment.cluster) for moment in live(world, happenings)]
    recording, _ = recorded(clusters, world.rules)
    assert [scene.cluster for scene in recording.scenes] == clusters
    assert recording.header.rules == world.rules
    assert replay_of(recording, "x").is_same
    for scene, cluster in zip(recording.scenes, clusters, strict=True):
        assert think(scene.cluster, world.rules) == think(cluster, world.rules)


@settings(max_examples=20, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_leaving_out_secrets_changes_no_decision_where_there_are_none(world: World, happenings: list[Deed]) -> None:
    for moment in live(world, happenings):
        cleaned = without_secrets(remembered(moment.cluster), config_maps_read(world.rules))
        assert think(cleaned, world.rules) == think(remembered(moment.cluster), world.rules)


KEYS = st.sampled_from(
    [
        *("password", "bmcPassword", "PASSWORD", "--password", "passwd", "passphrase", "pass", "token", "apiToken"),
        *("secret", "clientSecret", "credentials", "private-key", "privateKey", "api_key", "accessKey", "cookie"),
        *("example.com/token", "Authorization", "snmp-secret", "secretAccessKey"),
    ]
)
WRAPPED = st.sampled_from(
    [
        f"eyJhbGciOiJIUzI1NiJ9.{KEEPSAKE}.sig",
        f"-----BEGIN RSA PRIVATE KEY-----\n{KEEPSAKE}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{KEEPSAKE}",
        f"https://admin:{KEEPSAKE}@bmc.example/redfish",
        f"Bearer {KEEPSAKE}",
        f"login failed: password={KEEPSAKE}, retry",
        f'{{"password": "{KEEPSAKE}"}}',
        f"curl --token={KEEPSAKE} x",
    ]
)


def hidden(value: Any) -> st.SearchStrategy[Any]:
    """A value somewhere under a key that sounds like a secret."""
    inner = st.sampled_from([value, [value], {"value": value}, {"deep": [{"er": value}]}, {"a": "b", "c": value}])
    return st.builds(lambda key, found: {key: found}, KEYS, inner)


def named(value: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(["DB_PASSWORD", "API_TOKEN", "CLIENT_SECRET"]).map(
        lambda name: {"name": name, "value": value}
    )


TREES = st.recursive(
    st.one_of(hidden(KEEPSAKE), named(KEEPSAKE), WRAPPED.map(lambda text: {"note": text})),
    lambda inner: st.one_of(
        st.builds(lambda key, tree: {key: tree}, st.sampled_from(["spec", "template", "options", "env"]), inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda listed: {"items": listed}),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(tree=TREES)
def test_no_value_that_looks_like_a_secret_survives(tree: dict[str, Any]) -> None:
    item = Unstructured(metadata=Meta(name="x"), spec=tree, status=tree, data=tree)
    cleaned = clean(item)
    assert KEEPSAKE.encode() not in msgspec.json.encode(cleaned)
    assert clean(cleaned) == cleaned
    assert msgspec.json.decode(msgspec.json.encode(cleaned), type=Unstructured) == cleaned


@settings(max_examples=60, deadline=None)
@given(key=KEYS, text=WRAPPED)
def test_nor_in_annotations_of_nodes_and_incidents_nor_in_volumes_of_pods(key: str, text: str) -> None:
    annotations = {key: KEEPSAKE, "note": text, "kubectl.kubernetes.io/last-applied-configuration": KEEPSAKE}
    node: Node = a_node("n1", annotations=annotations)
    incident = NodeIncident(metadata=Meta(name="n1", annotations=annotations))
    volumes = [{"name": "v", "flexVolume": {"options": {key: KEEPSAKE, "x": KEEPSAKE}}}]
    pod = Pod(metadata=Meta(name="p", annotations=annotations), spec=PodSpec(volumes=volumes))
    for item in (node, incident, pod):
        assert KEEPSAKE.encode() not in msgspec.json.encode(clean(item))
