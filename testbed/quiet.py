"""What a person at a terminal wants to read of our own logs: warnings. Hollow parts also note what they try again."""

import logging
import sys

import structlog


def only_warnings() -> None:
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
