"""A ConfigMap: how people and pipelines tell us something without an API of our own."""

from defib.model.meta import Resource


class ConfigMap(Resource, frozen=True):
    data: dict[str, str] | None = None
