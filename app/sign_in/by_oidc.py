"""Sign-in by OpenID Connect: authorization code with PKCE, state and nonce; authlib checks the id token."""

from __future__ import annotations

import logging
import secrets
import warnings
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from authlib.deprecate import AuthlibDeprecationWarning
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from indoubt.app.components.markup import el
from indoubt.app.sign_in import answers
from indoubt.app.sign_in.guard import NoRole, plain, wants_a_page
from indoubt.app.sign_in.sessions import Sealed, Session, Sessions
from indoubt.app.sign_in.settings import OidcSignIn, SignIn
from indoubt.lifecycle.persons import InvalidPerson, Person, named

with warnings.catch_warnings():
    # It says that a later version will no longer take httpx; the locked one does.
    warnings.simplefilter("ignore", AuthlibDeprecationWarning)
    from authlib.integrations.starlette_client import OAuthError, StarletteOAuth2App

PROVIDER_LIMIT_S = 10.0
STARTED_FOR_S = 600
"""How long somebody may take at the provider."""
_UNSAFE_ALGORITHMS = ("none", "HS")
"""Signatures that whoever knows the client's secret could make, or anybody."""
log = logging.getLogger(__name__)


class SignInFailed(Exception):
    """The provider's answer does not prove who asks; the message says why, in words for the person."""


class ProviderAway(Exception):
    """The provider does not answer, or not as a provider does."""


class ByOidc:
    """The provider's answer becomes a session in a signed cookie."""

    sign_out = answers.SIGN_OUT

    def __init__(self, settings: SignIn, way: OidcSignIn) -> None:
        self._settings, self._way = settings, way
        self._sealed = Sealed(secrets.token_bytes(32))
        self._sessions = Sessions(self._sealed, settings.session_s)
        # Browsers take a cookie of this name only by TLS, for this host alone.
        self._cookie = "__Host-indoubt" if settings.is_https else "indoubt"
        self._provider = StarletteOAuth2App(
            None,
            name="oidc",
            client_id=way.client_id,
            client_secret=way.client_secret or None,
            server_metadata_url=f"{way.issuer}/.well-known/openid-configuration",
            client_kwargs={
                "scope": way.scopes,
                "code_challenge_method": "S256",
                "token_endpoint_auth_method": "client_secret_basic" if way.client_secret else "none",
                "timeout": PROVIDER_LIMIT_S,
            },
        )

    def session(self, scope: Scope) -> Session | None:
        """Return the session of the request's cookie."""
        return self._sessions.read(HTTPConnection(scope).cookies.get(self._cookie, ""))

    async def over(self, session: Session) -> None:
        """Wait until the session is over."""
        await self._sessions.over(session)

    def refusal(self, scope: Scope) -> Response:
        """Send a browser to the provider; tell anything else that it must sign in."""
        if not wants_a_page(scope):
            return plain(401, f"sign in at {answers.SIGN_IN}")
        query = scope["query_string"].decode("latin-1")
        wanted = scope["path"] + (f"?{query}" if query else "")
        return answers.redirect(f"{answers.SIGN_IN}?{urlencode({'to': wanted})}")

    async def answer(self, scope: Scope, receive: Receive) -> Response | None:
        """Answer a request for a path of the sign-in, None for any other path."""
        request = Request(scope, receive)
        if scope["path"] == answers.SIGN_OUT:
            return self._signed_out(request)
        if scope["path"] not in (answers.SIGN_IN, answers.CALLBACK):
            return None
        if request.method != "GET":
            return plain(405, "only GET is served here")
        try:
            if scope["path"] == answers.SIGN_IN:
                return await self._started(request)
            return await self._called_back(request)
        except SignInFailed as error:
            return _failed(403, str(error))
        except NoRole as error:
            return answers.no_role(error.name)
        except ProviderAway as error:
            log.warning("the OpenID provider %s does not answer: %s", self._way.issuer, error)
            return _failed(
                502,
                f"The OpenID provider {self._way.issuer} does not answer. The collector's command line works without it.",
            )

    async def _started(self, request: Request) -> Response:
        await self._checked_provider()
        asked = await self._provider.create_authorization_url(self._callback(request))
        started = {name: asked[name] for name in ("state", "nonce", "code_verifier")}
        answer = answers.redirect(asked["url"])
        self._set_cookie(
            answer,
            _started_cookie(asked["state"]),
            self._sealed.write("started", started | {"to": _own_path(request.query_params.get("to", "/"))}),
            STARTED_FOR_S,
            path=answers.CALLBACK,
        )
        return answer

    async def _called_back(self, request: Request) -> Response:
        state = request.query_params.get("state", "")
        name = _started_cookie(state)
        started = self._sealed.read("started", request.cookies.get(name, ""))
        if started is None or not secrets.compare_digest(started["state"].encode(), state.encode()):
            raise SignInFailed("This answer of the provider belongs to no sign-in that was started in this browser.")
        if request.query_params.get("error"):
            raise SignInFailed(f"The OpenID provider says: {request.query_params['error'][:200]}.")
        claims = await self._claims(request, started)
        session = self._sessions.begin(self._person(claims))
        answer = answers.redirect(started["to"])
        self._set_cookie(
            answer, self._cookie, self._sessions.text(session), int(self._settings.session_s) or 1, path="/"
        )
        answer.delete_cookie(name, path=answers.CALLBACK, secure=self._settings.is_https, httponly=True, samesite="lax")
        log.info("%s signed in as %s", session.person.name, session.person.role.value)
        return answer

    async def _claims(self, request: Request, started: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the claims of the id token for which the code is exchanged. Raises SignInFailed and ProviderAway."""
        metadata = await self._checked_provider()
        token = await self._exchanged(request, started)
        if not isinstance(token, Mapping) or not token.get("id_token"):
            raise SignInFailed("The OpenID provider sent no id token.")
        wanted = {
            "iss": {"essential": True, "values": [metadata["issuer"]]},
            "aud": {"essential": True, "value": self._way.client_id},
        }
        try:
            claims: Mapping[str, Any] = await self._provider.parse_id_token(
                token, nonce=started["nonce"], claims_options=wanted
            )
        except Exception as error:
            # Each library below has errors of its own; none may let somebody in.
            log.warning("an id token was refused: %s", type(error).__name__)
            raise SignInFailed("The OpenID provider's id token is not valid for this sign-in.") from None
        return claims

    async def _exchanged(self, request: Request, started: Mapping[str, Any]) -> Any:
        try:
            return await self._provider.fetch_access_token(
                redirect_uri=self._callback(request),
                code=request.query_params.get("code", ""),
                state=started["state"],
                code_verifier=started["code_verifier"],
            )
        except OAuthError as error:
            log.warning("the OpenID provider refused a code: %s", error.error)
            raise SignInFailed("The OpenID provider refused the code that it had given.") from None
        except Exception as error:
            raise ProviderAway(type(error).__name__) from None

    async def _checked_provider(self) -> Mapping[str, Any]:
        """Return what the provider says about itself. Raises SignInFailed and ProviderAway."""
        try:
            metadata: dict[str, Any] = await self._provider.load_server_metadata()
        except Exception as error:
            # The HTTP client is authlib's choice, and so are its errors.
            raise ProviderAway(type(error).__name__) from None
        if str(metadata.get("issuer", "")).rstrip("/") != self._way.issuer:
            raise SignInFailed(f"The OpenID provider names itself another issuer than {self._way.issuer}.")
        metadata["id_token_signing_alg_values_supported"] = [
            name
            for name in metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
            if not str(name).startswith(_UNSAFE_ALGORITHMS)
        ]
        return metadata

    def _person(self, claims: Mapping[str, Any]) -> Person:
        """Return the person whom the claims name. Raises SignInFailed and NoRole."""
        name = claims.get(self._way.person_claim)
        if not isinstance(name, str):
            raise SignInFailed(f"The id token has no claim '{self._way.person_claim}'.")
        # Some providers send it as text.
        if self._way.person_claim == "email" and claims.get("email_verified") not in (True, "true"):
            raise SignInFailed(
                "The provider does not say that it has verified this person's address (claim 'email_verified'): anybody "
                "may have typed it. Whoever runs indoubt can name another claim with --person-claim."
            )
        groups = claims.get(self._way.groups_claim, [])
        groups = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        role = self._settings.groups.role_of([group for group in groups if isinstance(group, str)])
        if role is None:
            raise NoRole(name)
        try:
            return named(name, role)
        except InvalidPerson as error:
            raise SignInFailed(f"{error}.") from None

    def _signed_out(self, request: Request) -> Response:
        session = self.session(request.scope)
        if request.method != "POST":
            who = el("p", "You are signed in as ", el("b", session.person.name), ".") if session else None
            return answers.page(200, "Sign out?", who, answers.sign_out_form("Sign out"))
        if session is not None:
            self._sessions.end(session)
        answer = answers.page(
            200,
            "You are signed out",
            el("p", "Your OpenID provider may still know you: sign out there as well on a shared machine."),
            answers.link("/", "Sign in again"),
        )
        answer.delete_cookie(self._cookie, path="/", secure=self._settings.is_https, httponly=True, samesite="lax")
        return answer

    def _callback(self, request: Request) -> str:
        base = self._settings.public_url or f"http://{request.headers.get('host', '')}"
        return base + answers.CALLBACK

    def _set_cookie(self, answer: Response, name: str, text: str, max_age_s: int, *, path: str) -> None:
        answer.set_cookie(
            name, text, max_age=max_age_s, path=path, secure=self._settings.is_https, httponly=True, samesite="lax"
        )


def _started_cookie(state: str) -> str:
    """Return a name for each sign-in that is under way: several tabs may start one at once."""
    return "indoubt_sign_in_" + "".join(each for each in state[:16] if each.isascii() and each.isalnum())


def _own_path(address: str) -> str:
    """Return a path of the app itself: a link to the sign-in must not end at another site."""
    is_own = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if is_own and not address.startswith(answers.SIGN_IN) else "/"


def _failed(status: int, words: str) -> Response:
    return answers.page(status, "You are not signed in", el("p", words), answers.link("/", "Sign in again"))
