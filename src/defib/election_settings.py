"""The settings by which it is decided which of several replicas acts. They are part of all settings."""

from typing import Annotated, Literal

import msgspec

from defib.forms import About, Address, Choice, Duration, HostAndPort, Name

ELECTIONS = ("lease", "shards", "endpoints", "follow", "tooz", "off")


class ElectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    election: Annotated[
        Literal["lease", "shards", "endpoints", "follow", "tooz", "off"],
        About(
            "How it is settled which of several replicas acts. lease: one leads, by a Lease. shards: all act, each for "
            "its share of the nodes. endpoints: one leads, by an annotation of an Endpoints object, where Leases are "
            "forbidden. follow: a leader-elector sidecar says who leads (leader_url). tooz: one leads, by ZooKeeper or "
            "Redis (tooz_url). off: this is the only replica.",
            Choice(ELECTIONS),
        ),
    ] = "lease"
    leader_lock: Annotated[
        str,
        About(
            "What the Lease or the Endpoints object is called by which one leads, or the group of Tooz.",
            Name("the name of an object", pattern=r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"),
        ),
    ] = "defib-leader"
    replica_name: Annotated[
        str | None,
        About(
            "What this replica is called in the election. When not set: the host's name, with something to tell it apart.",
            Name("a name without spaces", pattern=r"[!-~]{1,200}"),
        ),
    ] = None
    lease_duration_seconds: Annotated[
        float,
        About(
            "For how long another replica waits before it leads in place of one that is silent.", Duration("1s", "1h")
        ),
    ] = 15.0
    renew_deadline_seconds: Annotated[
        float, About("A leader that could not renew its lock for so long stops acting.", Duration("1s", "1h"))
    ] = 10.0
    retry_period_seconds: Annotated[
        float, About("How often a replica looks at the lock, or renews it.", Duration("0.1s", "10m"))
    ] = 2.0
    leader_url: Annotated[
        str,
        About(
            "With election follow: where the sidecar says who leads.",
            Name("an http address", "URL", r"https?://[!-~]+"),
        ),
    ] = "http://127.0.0.1:16401/"
    tooz_url: Annotated[
        str | None,
        About(
            "With election tooz: where ZooKeeper (zookeeper://host:2181) or Redis (redis://host:6379) is.",
            Name("an address with a scheme", "URL", "[a-z0-9+]+://[!-~]+"),
        ),
    ] = None
    leader_address: Annotated[
        Address | None,
        About(
            "Where it is told over HTTP who leads, as leader-elector sidecars do on port 16401. When not set: nowhere.",
            HostAndPort(),
        ),
    ] = None
