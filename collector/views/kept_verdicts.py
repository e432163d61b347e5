"""Verdicts that are judged again only when a record about their transaction arrives: most open transactions are of this kind.

A foreign transaction of which only its coordinator knows, of no Flink job and of no application that reads its input again,
stays as it was judged: no rule reads the time of it, nor anything that another transaction changes. Everything else is judged
at each look.
"""

from __future__ import annotations

from collections.abc import Iterable

from collector.records.facts import BrokerIdentity
from collector.state import transaction_join
from collector.state.state import State
from collector.verdicts import judging
from collector.verdicts.judging import EvaluationContext, Judged
from collector.verdicts.verdict_case import Case
from collector.verdicts.verdict_rules import TIMELESS_RULES


class KeptVerdicts:
    """Of one state at a time; call all of it under that state's lock."""

    def __init__(self) -> None:
        self._kept: dict[BrokerIdentity, Judged] = {}
        self._changing: set[BrokerIdentity] = set()
        """The other open ones."""
        self._rest: list[Judged] = []
        self._found: list[Judged] = []
        self._rests_on: object = None
        """What a kept verdict depends on besides its own records, as it was."""

    def judged(self, state: State, moment: EvaluationContext) -> list[Judged]:
        """Return in no order the transactions whose verdict may be another than settled; the same list while nothing changed."""
        has_changed = self._refresh(state, moment)
        views = (transaction_join.at_coordinator(state, identity) for identity in self._changing)
        rest = judging.judged(moment.cases(state, views))
        rest += judging.judged(moment.cases(state, transaction_join.not_open(state)))
        if has_changed or rest != self._rest:
            self._rest, self._found = rest, [*self._kept.values(), *rest]
        return self._found

    def _refresh(self, state: State, moment: EvaluationContext) -> bool:
        """Judge what may be kept and is not; say whether anything that is kept came, changed or went."""
        rests_on = (id(state), state.ledger.prefixes(), state.flink.version, moment.log_status)
        touched, ids = state.touched, state.touched_ids
        state.touched, state.touched_ids = set(), set()
        if rests_on != self._rests_on:
            self._rests_on = rests_on
            self._kept.clear()
            self._changing.clear()
            self._judge(state, moment, state.open)
            return True
        if not touched and not ids:
            return False
        ids |= {identity.transaction for identity in touched}
        known = [identity for of in (self._kept, self._changing) for identity in of if identity.transaction in ids]
        before = [self._kept.pop(identity, None) for identity in known]
        self._changing.difference_update(known)
        self._judge(state, moment, {identity for identity in (*touched, *known) if identity in state.open})
        return any(before) or any(identity in self._kept for identity in touched)

    def _judge(self, state: State, moment: EvaluationContext, identities: Iterable[BrokerIdentity]) -> None:
        for identity in identities:
            (case,) = moment.cases(state, [transaction_join.at_coordinator(state, identity)])
            (found,) = judging.judged([case])
            if _may_be_kept(case, found):
                self._kept[identity] = found
            else:
                self._changing.add(identity)


def _may_be_kept(case: Case, found: Judged) -> bool:
    t = case.transaction
    told = (t.reported, t.branch, t.listing, t.outcome, t.first_decision, case.flink, case.read_process_write)
    return not t.ours and found.judgement.rule in TIMELESS_RULES and all(each is None for each in told)
