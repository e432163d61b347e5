"""What property tests are given time for; imported before any of them runs."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# On a busy machine an example may take any time: that tells nothing about the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
