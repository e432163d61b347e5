"""Which variables of the environment Kubernetes put there: a Service named ``indoubt-collector`` becomes INDOUBT_COLLECTOR_…

Every pod gets them, of every Service in its namespace, unless it has ``enableServiceLinks: false``. They are no program's settings.
"""

from __future__ import annotations

import re

_BY_NAME = re.compile(
    r"[A-Z0-9_]+_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_PORT, _ADDRESS = re.compile(r"[A-Z0-9_]+_PORT"), re.compile(r"(?:tcp|udp|sctp)://\S+")


def is_of_a_service(name: str, value: str) -> bool:
    """Say whether Kubernetes named a variable so for a Service: by its name, and of ``…_PORT`` by its value too.

    ``INDOUBT_PORT=tcp://10.0.0.1:8650`` is a Service's, ``INDOUBT_PORT=8650`` was written by a person.
    """
    if _BY_NAME.fullmatch(name):
        return True
    return bool(_PORT.fullmatch(name) and _ADDRESS.fullmatch(value))
