"""Verdicts that are judged again only when a record about their transaction arrives: most open transactions are of this kind.

A foreign transaction of which only its coordinator knows, of no Flink job and of no application that reads its input again,
stays as it was judged once it is not young: no rule reads the time of it, nor anything that another transaction changes.
Everything else is judged at each look.
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
from collector.verdicts.young_transactions import is_young

STEPPED_BACK_MS = 5_000
"""By so much less the time of a look may be before that of the one before it: several ask at once."""


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
        self._at_ms = 0
        """When it was looked last. What was old may be young again once the clock is stepped back."""

    def judged(self, state: State, moment: EvaluationContext) -> list[Judged]:
        """Return in no order the transactions whose verdict may be another than settled; the same list while nothing changed."""
        has_changed = self._refresh(state, moment)
        identities = list(self._changing)
        cases = moment.cases(state, (transaction_join.at_coordinator(state, identity) for identity in identities))
        rest = []
        for identity, case, found in zip(identities, cases, judging.judged(cases), strict=True):
            if _may_be_kept(case, found):
                self._changing.discard(identity)
                self._kept[identity] = found
                has_changed = True
            else:
                rest.append(found)
        rest += judging.judged(moment.cases(state, transaction_join.not_open(state)))
        if has_changed or rest != self._rest:
            self._rest, self._found = rest, [*self._kept.values(), *rest]
        return self._found

    def _refresh(self, state: State, moment: EvaluationContext) -> bool:
        """Judge what may be kept and is not; say whether anything that is kept came, changed or went."""
        rests_on = (id(state), state.ledger.prefixes(), state.flink.version, moment.log_status)
        touched, ids = state.touched, state.touched_ids
        all_touched, state.all_touched = state.all_touched, False
        state.touched, state.touched_ids = set(), set()
        is_stepped_back = moment.now_ms < self._at_ms - STEPPED_BACK_MS
        self._at_ms = moment.now_ms if is_stepped_back else max(moment.now_ms, self._at_ms)
        if rests_on != self._rests_on or is_stepped_back or all_touched:
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
    # What was decided of its batch stands with it, also once another log began: a decision about another handle tells of it.
    told = (t.reported, t.branch, t.listing, t.outcome, t.first_decision, t.proven_batch_attempt)
    applied = (case.flink, case.read_process_write)
    if t.ours or found.judgement.rule not in TIMELESS_RULES or any(each is not None for each in (*told, *applied)):
        return False
    # It ages, and another transaction of its application may yet be seen to be committed.
    return found.judgement.rule != 7 or not is_young(t, case.limits.foreign_old_ms, case.now_ms)
