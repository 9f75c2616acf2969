"""`defib pause`, `resume`, `approve`, `reject` and `confirm-down`: what a person tells the cluster, and what is now so."""

from datetime import timedelta

from defib.cli.output import ask, say
from defib.config import Settings
from defib.console import approval, brake, confirmation, rejection
from defib.console.rejection import No
from defib.rules_of import rules_of


def pause_all(settings: Settings, reason: str, output: str) -> None:
    say(ask(brake.pause(settings, " ".join(reason.split())), "pulling the brake"), output)


def resume_all(settings: Settings, output: str) -> None:
    say(ask(brake.resume(settings), "letting the brake go"), output)


def approve_node(node: str, seconds: float, settings: Settings, output: str) -> None:
    work = approval.approve(node, timedelta(seconds=seconds), settings, rules_of(settings))
    say(ask(work, f"looking at what waits for approval on {node}"), output)


def approve_drain_of(node: str, seconds: float, settings: Settings, output: str) -> None:
    work = approval.approve_drain(node, timedelta(seconds=seconds), settings)
    say(ask(work, f"looking at the drain of {node}"), output)


def reject_node(node: str, no: No, settings: Settings, output: str) -> None:
    work = rejection.reject(node, no, settings, rules_of(settings))
    say(ask(work, f"looking at what waits for approval on {node}"), output)


def reject_drain_of(node: str, settings: Settings, output: str) -> None:
    say(ask(rejection.reject_drain(node, settings), f"taking back the approval of the drain of {node}"), output)


def confirm_node_down(node: str, settings: Settings, output: str) -> None:
    say(ask(confirmation.confirm_down(node, settings), f"looking at the incident of {node}"), output)
