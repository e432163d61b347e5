"""What is known about one branch in a database: since when its server lists it, what it holds, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from indoubt.collector.records.observations import BranchGone, BranchListed, BranchProof
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.identity import transaction_key
from indoubt.lifecycle.resource_manager_kinds import WATCHED
from indoubt.resource_managers.database.servers import Silence, silence
from indoubt.resource_managers.database.session import BranchLocks


def branch_key(resource_manager: str, transaction: str, instance: str) -> str:
    """Return the key of a branch: a handle's key for one of ours; foreign names may be on two servers, so with the instance."""
    key = transaction_key(resource_manager, transaction)
    return key if BranchId.parse(transaction) is not None else f"{key}@{instance}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchFacts:
    """One branch at one database. Times are epoch ms: ``prepared_ms`` by the server's clock, the others by the collector's."""

    resource_manager: str
    transaction: str
    instance: str
    first_seen_ms: int | None = None
    """None: it was never seen in the list, only its marker."""
    prepared_ms: int | None = None
    """None where the server keeps no time (XA)."""
    owner: str = ""
    database: str = ""
    server: str = ""
    """Which server listed it last (resource_managers/database/servers.py); empty where that is not known."""
    gone_ms: int | None = None
    """When it was found to be listed no more; None while it is listed."""
    proof: BranchProof | None = None
    """What its marker said then; None for a foreign one, which has none."""
    gone_by: str = ""
    """Which server did not list it then."""

    @property
    def key(self) -> str:
        """Return the key of its transaction."""
        return branch_key(self.resource_manager, self.transaction, self.instance)

    @property
    def is_listed(self) -> bool:
        """True while its server lists it as prepared."""
        return self.gone_ms is None

    @property
    def end_is_assumed(self) -> bool:
        """True where its end rests on a list alone, and it is not known to be that of the server that listed it."""
        is_proven = self.proof in (BranchProof.COMMITTED, BranchProof.TOMBSTONE)
        return not (self.is_listed or is_proven) and silence(self.server, self.gone_by) is not Silence.PROVES

    @property
    def since_ms(self) -> int | None:
        """Return since when it is prepared, as far as that is known."""
        return self.prepared_ms if self.prepared_ms is not None else self.first_seen_ms

    @property
    def listed_by(self) -> str:
        """Return where it is looked for, for people: ``XA RECOVER of mysql``."""
        kind = WATCHED.get(self.resource_manager)
        return f"{kind.listed_in if kind is not None else self.resource_manager} of {self.instance}"


def with_listed(known: BranchFacts | None, seen: BranchListed) -> BranchFacts:
    """Return the branch once its server listed it (again)."""
    now = BranchFacts(
        resource_manager=seen.resource_manager,
        transaction=seen.transaction,
        instance=seen.instance,
        first_seen_ms=seen.at_ms,
        prepared_ms=seen.prepared_ms,
        owner=seen.owner,
        database=seen.database,
        server=seen.server or (known.server if known is not None else ""),
    )
    if known is None or known.first_seen_ms is None:
        return now
    # A name of ours is never used twice: it was hidden for a moment. A foreign one may be another branch of that name.
    is_same = known.is_listed or BranchId.parse(seen.transaction) is not None
    is_same = is_same or (seen.prepared_ms is not None and seen.prepared_ms == known.prepared_ms)
    return replace(now, first_seen_ms=min(seen.at_ms, known.first_seen_ms)) if is_same else now


def with_gone(known: BranchFacts | None, gone: BranchGone) -> BranchFacts:
    """Return the branch once its server listed it no more, or its marker was read without it ever being seen there."""
    facts = known or BranchFacts(
        resource_manager=gone.resource_manager, transaction=gone.transaction, instance=gone.instance
    )
    first = gone.at_ms if facts.gone_ms is None else min(gone.at_ms, facts.gone_ms)
    proven = facts.proof in (BranchProof.COMMITTED, BranchProof.TOMBSTONE)
    by = gone.server if facts.gone_ms is None else facts.gone_by
    return replace(facts, gone_ms=first, gone_by=by, proof=facts.proof if proven else gone.proof)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchDetail:
    """What a poll shows of a branch besides its name; kept in memory only."""

    transaction_age: int | None = None
    """How many transactions its server began since: vacuum cannot clean up what is younger than it."""
    locks: BranchLocks = field(default_factory=BranchLocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSnapshot:
    """The newest look at one database: when (epoch ms), and the details of what was listed then, by key.

    ``server``: which server answered then; ``error``: why none answered since.
    """

    at_ms: int | None
    details: Mapping[str, BranchDetail] = field(default_factory=dict)
    server: str = ""
    error: str = ""

    @property
    def shown(self) -> tuple[object, ...]:
        """Return what pages show of it, without the time and the age that move with each look."""
        return {key: detail.locks for key, detail in self.details.items()}, self.server, self.error

    def why_not_asked(self, branch: BranchFacts) -> str:
        """Return why it does not tell whether a branch is still there; empty where it does."""
        if self.error:
            return f"since then its database does not answer: {self.error}"
        if silence(branch.server, self.server) is Silence.SAYS_NOTHING:
            return f"another server answers now ({self.server}; it was {branch.server}): what that one does not list has not ended"
        return ""
