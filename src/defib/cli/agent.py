"""`defib agent`: the agent of this node in this process, with its logs, until a signal."""

import asyncio
import os

from defib.agent.process import run_agent
from defib.agent.settings import AgentSettings, problems_of
from defib.agent.trouble import CannotRun
from defib.cli.failed import Failed
from defib.clock import SystemClock
from defib.config import BadSettings, Settings
from defib.telemetry.log import set_up, style_for

LEFT_COUNTING = 3


def run_until_stopped(settings: Settings, agent: AgentSettings) -> int:
    """The exit code. Raises BadSettings, Failed."""
    if problems := problems_of(agent):
        raise BadSettings(problems)
    style = style_for(settings.log_format, terminal=os.isatty(1), environ=os.environ)
    set_up(style=style, level=settings.log_level, fd=1, clock=SystemClock())
    try:
        return 0 if asyncio.run(run_agent(agent)) else LEFT_COUNTING
    except CannotRun as error:
        raise Failed(str(error)) from error
