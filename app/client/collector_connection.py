"""The connection to the collector: one request at a time, its answer read into rows, or one CollectorError."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import httpx

from indoubt.app.client.collector_errors import NOT_IN_TIME, CollectorError, Failure, refusal, unanswered
from indoubt.app.client.kept_answers import KeptAnswers
from indoubt.app.settings import Settings
from indoubt.lifecycle.errors import IndoubtError
from indoubt.lifecycle.page_paths import CLUSTER_HEADER
from indoubt.lifecycle.persons import Person
from indoubt.lifecycle.rows.row_json import read_row

READ_LIMIT_S = 4.0
SILENCE_LIMIT_S = 12.0
"""The collector sends an event each 5 s at least."""
Row = TypeVar("Row")
Wanted = str | int | bool | None | Sequence[str]
"""What a look asks for by one name; several texts are sent several times, and what is None or empty is not sent."""


class Rows(list[Row]):
    """Rows of a table, and how many ``more`` there are behind them; ``next`` leads to those, None where nothing does."""

    def __init__(self, rows: Iterable[Row], more: int, next: str | None = None) -> None:
        super().__init__(rows)
        self.more, self.next = more, next


class CollectorConnection:
    """Sends requests and reads the answers. Every method raises CollectorError.

    ``shared_for_s``: so long an answer serves all who ask the same in the name of the same person; by default each asks again.
    ``asking_person`` returns who that is at the moment, None for the holder of the token.
    """

    def __init__(
        self,
        settings: Settings,
        shared_for_s: float = 0.0,
        asking_person: Callable[[], Person | None] = lambda: None,
    ) -> None:
        self.address, self.cluster = settings.collector_url, settings.cluster
        self._settings, self._asking_person = settings, asking_person
        self.kept_answers = KeptAnswers(shared_for_s)
        self._look_only = settings.look_only
        # Proxies from the environment are left out: the token goes to the collector's address and nowhere else.
        self._http = httpx.Client(
            base_url=self.address,
            timeout=httpx.Timeout(READ_LIMIT_S, connect=2.0),
            trust_env=False,
            verify=settings.tls(),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def forget(self) -> None:
        """Share no answer from before now."""
        self.kept_answers.forget()

    async def changes(self) -> AsyncGenerator[bool]:
        """Yield True for each change and False for each sign of life, the first at once. It ends by CollectorError."""
        limits, settings = httpx.Timeout(SILENCE_LIMIT_S, connect=2.0), self._settings
        try:
            async with httpx.AsyncClient(
                base_url=self.address, timeout=limits, trust_env=False, verify=settings.tls()
            ) as http:
                authorization = {"Authorization": f"Bearer {settings.token()}"}
                async with http.stream("GET", "/api/v1/changes", headers=authorization) as answer:
                    if not answer.is_success:
                        raise CollectorError(
                            Failure.UNREACHABLE, f"The collector answered with HTTP {answer.status_code}"
                        )
                    async for line in answer.aiter_lines():
                        if line.startswith("event:"):
                            yield line.removeprefix("event:").strip() == "changed"
        except httpx.TimeoutException as error:
            raise CollectorError(Failure.UNREACHABLE, NOT_IN_TIME) from error
        except (httpx.HTTPError, OSError, asyncio.IncompleteReadError) as error:
            raise CollectorError(Failure.UNREACHABLE, unanswered(error)) from error
        raise CollectorError(Failure.UNREACHABLE, "The collector closed the connection")

    def _read(self, path: str, row: type[Row], **wanted: Wanted) -> Row:
        """Return the one row that is the answer."""
        return self._understand(path, partial(read_row, row), self._get_shared(path, wanted))

    def _rows(self, path: str, row: type[Row], **wanted: Wanted) -> Rows[Row]:
        """Return the rows of a table."""
        read, answer = partial(read_row, row), self._get_shared(path, wanted)
        return self._understand(
            path, lambda value: Rows(map(read, value["rows"]), int(value["more"]), value["next"]), answer
        )

    def _sent(self, method: str, path: str, row: type[Row], **request: Any) -> Row:
        """Send what is no look, and return the row that is the answer."""
        return self._understand(path, partial(read_row, row), self._ask(method, path, **request))

    def _understand(self, path: str, read: Callable[[Any], Row], answer: Any) -> Row:
        try:
            return read(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CollectorError(
                Failure.UNEXPECTED,
                f"{self.address}{path} answered with something unexpected ({type(error).__name__}: {error}): "
                "are collector and app of the same version?",
            ) from error

    def _get_shared(self, path: str, wanted: Mapping[str, Wanted]) -> Any:
        asked = {name: _as_sent(value) for name, value in wanted.items() if value not in (None, "", (), [])}
        # Each person has a limit, and one who reaches it must not hold up the others.
        what = (path, frozenset(asked.items()), self._asking_person())
        return self.kept_answers.get(what, lambda: self._ask("GET", path, params=asked))

    def _ask(self, method: str, path: str, **request: Any) -> Any:
        try:
            return self._asked(method, path, **request)
        finally:
            if method != "GET":
                self.kept_answers.forget()

    def _asked(self, method: str, path: str, **request: Any) -> Any:
        if self._look_only and method != "GET":
            raise CollectorError(Failure.NOT_ALLOWED, "These pages give no orders (--look-only)")
        try:
            person = self._asking_person()
            named = {CLUSTER_HEADER: self.cluster} if self.cluster else {}
            headers = (
                named
                | {"Authorization": f"Bearer {self._settings.token()}"}
                | (person.headers() if person is not None else {})
            )
            answer = self._http.request(method, path, headers=headers, follow_redirects=False, **request)
        except httpx.TimeoutException as error:
            raise CollectorError(Failure.UNREACHABLE, NOT_IN_TIME) from error
        except httpx.HTTPError as error:
            raise CollectorError(Failure.UNREACHABLE, unanswered(error)) from error
        except IndoubtError as error:
            raise CollectorError(Failure.TOKEN, str(error)) from error
        try:
            value = answer.json()
        except ValueError:
            value = None
        if answer.is_success and value is not None:
            return value
        raise refusal(answer.status_code, value)


def _as_sent(value: Wanted) -> str | tuple[str, ...]:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else tuple(value or ())
