"""Sign-in by a proxy in front: it says in two headers who asks, and nobody else is believed."""

from __future__ import annotations

import asyncio
import ipaddress
import time

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope

from indoubt.app.sign_in.guard import NoRole, plain
from indoubt.app.sign_in.sessions import Session
from indoubt.app.sign_in.settings import Groups, ProxySignIn
from indoubt.lifecycle.persons import InvalidPerson, named


class ByProxy:
    """Believes requests from the proxy's addresses. A websocket ends after ``session_s``: the proxy checks the next one."""

    sign_out = ""

    def __init__(self, way: ProxySignIn, groups: Groups, session_s: float) -> None:
        self._way, self._groups, self._session_s = way, groups, session_s

    def session(self, scope: Scope) -> Session | None:
        """Return whom the proxy names, None where it names nobody or another program asks. Raises NoRole."""
        if not self._is_proxy(scope):
            return None
        headers = Headers(scope=scope)
        names = headers.getlist(self._way.person_header)
        # A second value may be one that a browser sent and the proxy passed on.
        if len(names) != 1 or len(headers.getlist(self._way.groups_header)) > 1:
            return None
        # Bytes beyond ASCII are read as UTF-8, which proxies send.
        name, groups = (_utf8(text) for text in (names[0], headers.get(self._way.groups_header, "")))
        role = self._groups.role_of([group.strip() for group in groups.split(",") if group.strip()])
        if role is None:
            raise NoRole(name)
        try:
            person = named(name.strip(), role)
        except InvalidPerson:
            return None
        return Session(person=person, id="", ends_at_s=time.time() + self._session_s)

    async def over(self, session: Session) -> None:
        """Wait until the session is over."""
        await asyncio.sleep(max(0.0, session.ends_at_s - time.time()))

    async def answer(self, scope: Scope, receive: Receive) -> None:
        """Answer nothing: the proxy has the pages of the sign-in."""

    def refusal(self, scope: Scope) -> Response:
        """Return what somebody else than the proxy is answered, or a proxy that names nobody."""
        if not self._is_proxy(scope):
            return plain(401, "ask the proxy in front of indoubt: it signs you in, and only its address is believed")
        return plain(401, f"the proxy named nobody in {self._way.person_header}: it must set that header, once")

    def _is_proxy(self, scope: Scope) -> bool:
        client = scope.get("client")
        try:
            address = ipaddress.ip_address(client[0] if client else "")
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._way.networks)


def _utf8(text: str) -> str:
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text
