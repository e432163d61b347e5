"""The collector's log: one line format, with the id of the request that a line belongs to, and without what others would tell."""

from __future__ import annotations

import logging
import re
import sys
import time
from contextvars import ContextVar
from enum import Enum

from indoubt import collector, lifecycle, resource_managers
from indoubt.lifecycle.visible_text import protect_log_lines

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="-")
"""The request that this thread or task works for; also in what it starts."""
OURS = (collector.__name__, resource_managers.__name__, lifecycle.__name__)
TALKATIVE = ("kafka", "httpx", "httpcore")
"""Libraries whose lines repeat themselves, or hold addresses with secrets in them."""
LIBRDKAFKA = "[rdkafka#"
"""Stands in each line of librdkafka's, which logs under the names of ours."""
REPEATED_AFTER_S = 60.0
KINDS_KEPT = 1_000
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class LogLevel(Enum):
    """From which level on our own lines are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _WithRequestId(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = REQUEST_ID.get()
        return True


class OncePerMinute(logging.Filter):
    """Leaves out a Kafka client's line that was written within the last minute, but for its numbers.

    While no broker answers they write hundreds of lines a minute, and what observers say of it would be lost among them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._written_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether the line is written."""
        text = record.getMessage()
        if not record.name.startswith("kafka.") and LIBRDKAFKA not in text:
            return True
        kind, now_s = _NUMBER.sub("", text), time.monotonic()
        if now_s - self._written_s.get(kind, -REPEATED_AFTER_S) < REPEATED_AFTER_S:
            return False
        if len(self._written_s) >= KINDS_KEPT:
            self._written_s.clear()
        self._written_s[kind] = now_s
        return True


def configure() -> None:
    """Send log lines to stderr, from level INFO on until ``set_level`` says otherwise."""
    protect_log_lines()
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(OncePerMinute())
    handler.addFilter(_WithRequestId())
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s [%(request_id)s]: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)


def set_level(level: LogLevel) -> None:
    """Write our own lines from this level on; those of libraries never below INFO."""
    number = logging.getLevelNamesMapping()[level.name]
    logging.getLogger().setLevel(max(number, logging.INFO))
    for name in OURS:
        logging.getLogger(name).setLevel(number)
