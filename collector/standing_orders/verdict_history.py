"""Which verdicts each transaction had within the last minute. For one thread; times are seconds of a monotonic clock."""

from __future__ import annotations

from collections.abc import Mapping

from lifecycle.verdicts import Verdict

WINDOW_S = 60.0


class VerdictHistory:
    """Fed with every evaluation; forgets what is older than a minute."""

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[float, Verdict]]] = {}
        self._last_s: dict[str, float] = {}

    def see(self, verdicts: Mapping[str, Verdict], at_s: float) -> None:
        """Note the verdicts of this moment, by the transactions' keys."""
        for key, verdict in verdicts.items():
            seen = self._seen.setdefault(key, [])
            if not seen or seen[-1][1] is not verdict:
                seen.append((at_s, verdict))
            # The verdict that was in force when the minute began counts too: its change lies within it.
            while len(seen) > 1 and seen[1][0] <= at_s - WINDOW_S:
                seen.pop(0)
            self._last_s[key] = at_s
        for key in [key for key, last_s in self._last_s.items() if last_s < at_s - WINDOW_S]:
            del self._seen[key], self._last_s[key]

    def of(self, key: str) -> tuple[Verdict, ...]:
        """Return the verdicts of a transaction within the last minute, oldest first, the present one last."""
        return tuple(verdict for _, verdict in self._seen.get(key, ()))
