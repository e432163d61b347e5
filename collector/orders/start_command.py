"""Runs the command that starts a pipeline: the administrator's own, with nothing in it that an operator typed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from lifecycle.private_files import given_umask

LIMIT_S = 30.0
OUTPUT_SHOWN = 300
PASSED_ON = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "JAVA_HOME"),
        *("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),  # systemctl --user
        *("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "DOCKER_HOST"),
    )
)
"""What a command gets of the collector's environment, besides LC_*: nobody can tell of the rest what is a secret."""


def run(command: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """Run a command to its end, without a shell, with PASSED_ON of the environment; return why it failed, or an empty text."""
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={name: environment[name] for name in environment if name in PASSED_ON or name.startswith("LC_")},
            timeout=LIMIT_S,
            check=False,
            # What it starts makes files of its own, such as a checkpoint directory that others read.
            umask=given_umask(),
        )
    except subprocess.TimeoutExpired:
        return f"the start command did not return within {LIMIT_S:.0f} s and was ended: it must start the pipeline and return"
    except OSError as error:
        return f"the start command cannot be run: {error.strerror or error}"
    if ended.returncode == 0:
        return ""
    said = ended.stdout.decode(errors="replace").strip()[-OUTPUT_SHOWN:]
    return f"the start command ended with {ended.returncode}{f': {said}' if said else ''}"
