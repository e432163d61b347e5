"""Who may do what under ``watch``: the tokens of its run, and the environment of each of its processes."""

from __future__ import annotations

import os
import pwd
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from indoubt.app.sign_in.settings import CLIENT_SECRET, CLIENT_SECRET_FILE
from indoubt.collector.config import tokens
from indoubt.lifecycle import settings_file
from indoubt.program import session

PAGES, EVERYONE = "pages", "everyone"
"""The name of the pages' token where persons sign in, and where nobody does."""
_TOKEN_BYTES = 24
_OF_APP = (settings_file.VARIABLE, CLIENT_SECRET, CLIENT_SECRET_FILE)
_NOT_OF_COLLECTOR = (session.COLLECTOR_URL, session.TOKEN, session.TOKEN_FILE, CLIENT_SECRET, CLIENT_SECRET_FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """``on_pages``: in whose name the pages order, "" where they do not; ``in_commands``: likewise the commands of this user.

    ``command_token``: for those commands. Neither process is given a secret that is for the other alone.
    """

    on_pages: str
    in_commands: str
    signs_in: bool
    read_only: bool
    command_token: str = field(repr=False)
    of_collector: Mapping[str, str] = field(repr=False)
    of_app: Mapping[str, str] = field(repr=False)

    @property
    def looks_only(self) -> bool:
        """Return whether no order is given from the pages."""
        return self.read_only or not (self.signs_in or self.on_pages)


def access(environment: Mapping[str, str], *, is_local: bool, signs_in: bool, read_only: bool) -> Access:
    """Return tokens of this run, beside those of the environment. Raises SettingsError where those are wrong.

    ``is_local``: only this machine reaches the pages.
    """
    given = tokens.read(environment)
    operators = given.operators if given is not None else {}
    user = user_name()
    by_command = user if user not in operators else f"{user}-local"
    command_token, page_token = secrets.token_urlsafe(_TOKEN_BYTES), secrets.token_urlsafe(_TOKEN_BYTES)
    added = {name: [environment[name]] if environment.get(name, "").strip() else [] for name in tokens.NAMES}
    added[tokens.VIEWER if read_only else tokens.OPERATOR].append(f"{by_command}:{command_token}")
    on_pages = ""
    if signs_in:
        added[tokens.FOR_PERSONS].append(f"{PAGES}:{page_token}")
    elif is_local and not read_only and len(operators) == 1:
        # The pages cannot tell who asks: they order in one person's name, and only for this machine.
        ((on_pages, page_token),) = operators.items()
    else:
        added[tokens.VIEWER].append(f"{EVERYONE}:{page_token}")
    joined = {name: ",".join(pairs) for name, pairs in added.items() if pairs}
    others = {name: text for name, text in environment.items() if not name.startswith("INDOUBT_")}
    of_app = {name: environment[name] for name in _OF_APP if name in environment}
    return Access(
        on_pages=on_pages,
        in_commands="" if read_only else by_command,
        signs_in=signs_in,
        read_only=read_only,
        command_token=command_token,
        of_collector={name: text for name, text in environment.items() if name not in _NOT_OF_COLLECTOR} | joined,
        of_app=others | of_app | {session.TOKEN: page_token},
    )


def user_name() -> str:
    """Return the name of who runs this, as the system knows it, without what separates tokens."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"user-{os.getuid()}"
    return re.sub(r"[:,\s]", "-", name)
