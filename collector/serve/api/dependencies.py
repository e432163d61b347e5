"""What the API answers from, and who may ask: shared by every module that has routes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from indoubt.collector.act.orders.bulk_selection import Previews
from indoubt.collector.act.orders.order_runs import OrderRuns
from indoubt.collector.act.orders.service import Actions
from indoubt.collector.assess.assessor import Assessor
from indoubt.collector.history.store import Store
from indoubt.collector.observe.source import ObserverStatus
from indoubt.collector.records import orders
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.runtime.timed_cache import Refresher
from indoubt.collector.serve.api.answers import CLUSTER_NAME
from indoubt.collector.serve.api.auth.authentication import Caller, KnownTokens, MayNotSpeakForPersons
from indoubt.collector.serve.api.auth.rate_limits import RequestLimits
from indoubt.collector.serve.api.event_stream import Changes
from indoubt.collector.standby.leadership import Leadership
from indoubt.collector.verdicts.partition_state import PartitionFindings
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.lifecycle.json_record import read_object
from indoubt.lifecycle.page_paths import CLUSTER_HEADER
from indoubt.lifecycle.persons import NAME_HEADER, ROLE_HEADER, InvalidPerson, person

_BEARER = HTTPBearer(auto_error=False, description="A viewer's token reads, an operator's also orders.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDependencies:
    """What the API answers from. ``is_ready`` turns true once history is loaded; ``cluster`` is the cluster id, or empty;
    ``cluster_name`` what the collector was told to call it, or empty.
    """

    current: CurrentState
    store: Store
    actions: Actions
    previews: Previews
    order_runs: OrderRuns
    assessor: Assessor
    changes: Changes
    tokens: KnownTokens
    read_only: bool
    bootstrap_servers: str
    foreign_recovery_ms: int
    is_ready: Callable[[], bool]
    cluster: Callable[[], str]
    observers: Callable[[], Sequence[ObserverStatus]]
    partitions: Callable[[], PartitionFindings]
    cluster_name: str = ""
    startable: Collection[str] = ()
    """Prefixes of the pipelines that an order may start."""
    limits: RequestLimits = field(default_factory=RequestLimits)
    refresher: Refresher = field(default_factory=Refresher)
    leadership: Leadership | None = None
    """None where there is no other collector."""
    archive_error: Callable[[], str] = str
    """Why history is not archived, empty where it is or need not be."""
    authority: str = ""
    """PEM file by which the other collector's certificate is known; empty: the system's."""


class OtherClusterMeant(HTTPException):
    """The request is for the collector of another cluster."""

    def __init__(self, caller: Caller, cluster: str, meant: str) -> None:
        super().__init__(409, f"this collector is of cluster {cluster}, and {meant} is meant: is its address right?")
        self.caller = caller


async def caller_of_request(
    request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)] = None
) -> Caller:
    """Return what ``admitted`` returns, and raise what it raises."""
    # A coroutine, as it waits for nothing: a thread of its own is one more turn to wait for the interpreter, and for the answer.
    return admitted(request)


def admitted(request: Request) -> Caller:
    """Return who calls: the holder of the token, or the person that the token's holder speaks for.

    Raises TooManyRequests, HTTPException 401, OtherClusterMeant, and HTTPException 503 while history is loaded: verdicts would
    rest on a part of it.
    """
    dependencies: ApiDependencies = request.app.state.dependencies
    CLUSTER_NAME.set(dependencies.cluster_name)
    address = request.client.host if request.client is not None else ""
    known = dependencies.tokens.caller_of(request.headers.get("authorization", ""), now_ms())
    dependencies.limits.check_address(address, known)
    if known is None:
        dependencies.limits.failed(address)
        raise HTTPException(
            401, "no valid token: send 'Authorization: Bearer <token>' with a viewer's or an operator's token"
        )
    try:
        caller = known.asking_for(person(request.headers.get(NAME_HEADER), request.headers.get(ROLE_HEADER)))
    except (InvalidPerson, MayNotSpeakForPersons) as error:
        raise HTTPException(401, str(error)) from None
    request.state.caller = caller.name
    dependencies.limits.admit(caller, changes_something=request.method != "GET")
    if not dependencies.is_ready():
        raise HTTPException(503, "history is being loaded: ask again in a moment")
    meant = request.headers.get(CLUSTER_HEADER, "")
    if meant and dependencies.cluster_name not in ("", meant):
        raise OtherClusterMeant(caller, dependencies.cluster_name, meant)
    return caller


async def caller_of_order(
    request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)] = None
) -> Caller:
    """Return what ``admitted`` returns; an order that is meant for another cluster is refused with its row in the audit."""
    try:
        return admitted(request)
    except OtherClusterMeant as refused:
        order = orders.read_run(await json_object(request, "an order"))
        dependencies: ApiDependencies = request.app.state.dependencies
        audit = await asyncio.to_thread(dependencies.actions.refuse, order, refused.caller.name, refused.detail)
        raise HTTPException(refused.status_code, f"{refused.detail} (audit {audit})") from None


KnownCaller = Annotated[Caller, Depends(caller_of_request)]
OrderingCaller = Annotated[Caller, Depends(caller_of_order)]


async def json_object(request: Request, what: str) -> dict[str, Any]:
    """Return a request's body; ``what`` is what it should be ("an order"). Raises HTTPException 400 when it is no JSON object."""
    try:
        return read_object(await request.body(), "the body")
    except MalformedRecord as error:
        raise HTTPException(400, f"{error}: send {what} as docs/api.md describes it") from None
