"""What a driver's exit code says to its supervisor.

0 stopped on request, 1 failed (a restart may help), 2 wrong settings or a checkpoint directory that takes a person (it will
not), 3 superseded by a newer run of the same prefix (a restart would supersede that one in turn).
"""

from __future__ import annotations

STOPPED, FAILED, WRONG_SETTINGS, SUPERSEDED = 0, 1, 2, 3
