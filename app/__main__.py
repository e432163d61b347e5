"""``indoubt app --collector http://127.0.0.1:8650 --port 8651``: serve the pages until Ctrl-C."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from indoubt.app.settings import COLLECTOR_URL, FAULT_INJECTION_URL, LOOK_ONLY, TOKEN, TOKEN_FILE, Settings
from indoubt.app.sign_in import settings as sign_in_settings
from indoubt.app.sign_in.settings import OidcSignIn, SignIn, is_loopback
from indoubt.lifecycle import private_files, settings_file
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.version import VERSION
from indoubt.lifecycle.visible_text import protect_log_lines


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the command line; each option has a line in docs/settings.md."""
    parser = argparse.ArgumentParser(prog="indoubt app", description="Serve the pages of indoubt.")
    settings_file.add_option(parser, "app")
    parser.add_argument(
        "--collector",
        action="append",
        default=[],
        metavar="[NAME=]URL",
        help=f"address of the collector's API, with the cluster's name where there are several (or {COLLECTOR_URL})",
    )
    parser.add_argument(
        "--token-file",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help=f"file that holds the bearer token, or each collector's (or {TOKEN}, {TOKEN_FILE})",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8651, help="port to listen on (default: %(default)s)")
    parser.add_argument(
        "--look-only",
        action="store_true",
        help="the pages give no orders, whatever the token may; with a --host beyond loopback, everybody may look",
    )
    parser.add_argument(
        "--sign-in-by-proxy",
        action="store_true",
        help="allow a --host beyond loopback: a proxy in front signs users in, and nobody learns who they are",
    )
    sign_in_settings.add_options(parser)
    parser.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="host name that browsers use to reach the pages, in addition to the loopback names; repeatable",
    )
    parser.add_argument("--version", action="version", version=f"indoubt {VERSION}")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Check the settings, then serve. Exits with 2 and one line when a setting is wrong."""
    protect_log_lines()
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING, stream=sys.stderr
    )
    private_files.close_to_others()
    parser = command_line()
    try:
        given_arguments = sys.argv[1:] if arguments is None else arguments
        variables = {"collector": COLLECTOR_URL, "token_file": TOKEN_FILE, "look_only": LOOK_ONLY}
        table = settings_file.read("app", given_arguments, os.environ, variables)
        for unknown in table.set_defaults(parser):
            raise SettingsError(f"{table.origin(unknown)} is not a setting of the app")
    except SettingsError as error:
        parser.error(str(error))
    given = parser.parse_args(arguments)
    # Every session of the pages reads its settings from the environment.
    if collectors := _given(parser, given.collector, "collector"):
        os.environ[COLLECTOR_URL] = ",".join(collectors)
    if token_files := _given(parser, given.token_file, "token_file"):
        os.environ[TOKEN_FILE] = ",".join(map(_absolute, token_files))
    if given.look_only:
        os.environ[LOOK_ONLY] = "true"
    try:
        sign_in = sign_in_settings.read(given, os.environ)
        by_cluster = Settings.by_cluster()
        settings = next(iter(by_cluster.values()))
        check_host(given.host, given.sign_in_by_proxy or settings.look_only, sign_in)
        for each in by_cluster.values():
            each.token()
        public_url = sign_in_settings.public_url(given)
    except SettingsError as error:
        parser.error(str(error))
    print(f"indoubt's pages: http://{given.host}:{given.port}")
    faults = settings.fault_injection_url or "off"
    asked = ", ".join(f"{name} {each.collector_url}".strip() for name, each in by_cluster.items())
    print(f"collector: {asked}; fault injection ({FAULT_INJECTION_URL}): {faults}", flush=True)
    # A late import: a wrong setting is reported in less than a tenth of the time that Streamlit takes to load.
    from indoubt.app.server import serve

    serve(given.host, given.port, given.allowed_host, sign_in, public_url)


def _given(parser: argparse.ArgumentParser, texts: list[str], flag: str) -> list[str]:
    """Return what the command line gives, else what the file does: a flag wins over the file, also one that is repeatable."""
    of_file = parser.get_default(flag)
    return texts[len(of_file) :] or texts


def _absolute(token_file: str) -> str:
    name, _, file = token_file.rpartition("=")
    return f"{name}={Path(file).absolute()}" if name else str(Path(file).absolute())


def check_host(host: str, is_open: bool, sign_in: SignIn | None) -> None:
    """Return if only this machine reaches the pages, or whoever does signs in. Raises SettingsError.

    ``is_open``: who reaches them may do what they may do, because a proxy lets no stranger through, or they give no orders.
    """
    if is_loopback(host):
        return
    if sign_in is None and not is_open:
        raise SettingsError(
            f"--host {host} lets every client that reaches this port act with the rights of the app's token: give a sign-in "
            "(--oidc-issuer or --trusted-proxy) or --look-only, or omit --host"
        )
    if sign_in is not None and isinstance(sign_in.way, OidcSignIn) and not sign_in.is_https:
        raise SettingsError(
            f"--host {host} would send the cookies of the sign-in in clear: put a proxy that does TLS in front of the pages, and "
            "give its address as --public-url https://…"
        )


if __name__ == "__main__":
    main()
