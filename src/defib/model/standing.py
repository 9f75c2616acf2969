"""Which part a replica plays among the others, for whoever watches them."""

import msgspec


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The last three are for replicas that share the work; where one leads in everything they are 0."""

    leads: bool  # and knows what was done last, so that it can act
    leader: str = ""  # whoever it is, as far as we know
    terms: int = 0  # how often we have begun to lead
    held: int = 0  # buckets that are ours
    unowned: int = 0  # buckets that are nobody's, as far as we see
    members: int = 0  # live replicas, ourselves included
