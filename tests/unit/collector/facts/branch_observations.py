"""Branches of ours and of others, and what is observed of them."""

from __future__ import annotations

from dataclasses import replace

from indoubt.collector.records.observations import BranchProof
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Verdict
from tests.unit.collector.observations import database_handle, decided, run_started, transaction_event

RUN = run_started(0)
MINE = database_handle()
POSTGRES = database_handle("postgres", nonce="00000001")
FOREIGN = replace(MINE, transaction="'bank','7',1")
TOLD = transaction_event(EventType.TRANSACTION_PREPARED, 500, MINE, handle=MINE.to_json())
COMMIT = decided(1, MINE)
COMMITTED, TOMBSTONE = BranchProof.COMMITTED, BranchProof.TOMBSTONE
NO_MARKER, NOT_READ = BranchProof.NO_MARKER, BranchProof.NOT_READ


S, V = TransactionState, Verdict
