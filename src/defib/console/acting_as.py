"""The settings of a command that somebody gives in the name of somebody else, as with kubectl --as. Light to import."""

from defib.config import Settings


class ActingAs(Settings, frozen=True, kw_only=True):
    """Whom the API server shall take us for. Whether that is allowed, it decides itself."""

    as_user: str
    as_groups: tuple[str, ...] = ()
