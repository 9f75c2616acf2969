"""The settings about what people see of a running operator. They are part of all settings."""

from pathlib import Path
from typing import Annotated, Literal

from defib.election_settings import ElectionSettings
from defib.forms import About, Address, Choice, File, HostAndPort, Listed, Name

LOOPBACK = "127.0.0.1"
TOPICS = ("warnings", "incidents", "gates", "drains", "all")


class PeopleSettings(ElectionSettings, frozen=True, kw_only=True):
    dashboard: Annotated[
        Literal["off", "read", "act"],
        About(
            "The page that shows the cluster. read: it can only be looked at. act: whoever shows a token of the cluster "
            "may also pause, resume, approve and confirm on it, with the rights of that token and no others.",
            Choice(("off", "read", "act")),
        ),
    ] = "read"
    dashboard_address: Annotated[
        Address,
        About(
            "Where the page is served. On a loopback address, which kubectl port-forward reaches, everybody may look; "
            "on any other, whoever shows a token of the cluster that may list nodehealthchecks.",
            HostAndPort(),
        ),
    ] = Address(LOOPBACK, 8080)
    cluster_name: Annotated[
        str,
        About(
            "What this cluster is called in notifications and traces, for people who look after several.",
            Name(
                "a name in letters, digits, dots, dashes and underscores",
                pattern=r"[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?",
            ),
        ),
    ] = "kubernetes"
    notify_url_file: Annotated[
        Path | None,
        About(
            "A file with the URL to which notifications are sent, such as a mounted Secret: whoever knows the URL can write "
            "there. It is read anew each time. When not set: nowhere.",
            File(),
        ),
    ] = None
    notify_format: Annotated[
        Literal["slack", "cloudevents"],
        About(
            "What is sent. slack: a message as Slack, Mattermost and Rocket.Chat take it at an incoming webhook. "
            "cloudevents: a CloudEvent 1.0 as JSON.",
            Choice(("slack", "cloudevents")),
        ),
    ] = "slack"
    notify_template_file: Annotated[
        Path | None,
        About(
            "A file that says what a Slack message looks like: a text, or a JSON object that is sent as it is; with $reason, "
            "$message, $node and others in their places. When not set: one line.",
            File(),
        ),
    ] = None
    notify_about: Annotated[
        tuple[str, ...],
        About(
            "What is told: incidents (nodes that fail, what is done about them, and how it ends), gates (what holds "
            "remediation back), drains; warnings of all of them; or all.",
            Listed(TOPICS, may_be_none=False),
        ),
    ] = ("warnings", "incidents")
    traces_url: Annotated[
        str | None,
        About(
            "Where an OpenTelemetry collector takes traces by OTLP over HTTP, such as http://collector:4318: one trace for each "
            "incident that is over. When not set: nowhere.",
            Name("an http address", "URL", r"https?://[!-~]+"),
        ),
    ] = None
