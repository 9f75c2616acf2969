"""How a command says that it cannot be done."""

import click


class Failed(click.ClickException):
    """The message is one line that says why and what to do."""

    exit_code = 1
