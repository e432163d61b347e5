"""``indoubt pipeline run …``: a supervised pipeline; ``settle …``: say what ended; ``history-rollup …``: count archived history.

A supervisor starts the others.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import sys
from collections.abc import Sequence

from indoubt.lifecycle import settings_file
from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.errors import IndoubtError, SettingsError
from indoubt.lifecycle.version import VERSION
from indoubt.lifecycle.visible_text import protect_log_lines, visible
from indoubt.pipeline.config.settings import PipelineSettings, add_file
from indoubt.pipeline.config.sink_settings import SinkSettings
from indoubt.pipeline.runtime.status_file import WRONG_SETTINGS
from indoubt.pipeline.supervision.supervisor import Supervisor

ROLLUP = "history-rollup"


def main(words: Sequence[str]) -> int:
    """Read the settings, then supervise or drive."""
    protect_log_lines()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    if list(words[:1]) == [ROLLUP]:
        # Only here: it needs Spark.
        from indoubt.pipeline.jobs import history_rollup

        return history_rollup.main(words[1:])
    arguments = vars(_parser().parse_args(words))
    command, run_file = arguments.pop("command"), arguments.pop("run_file", "")
    run_id = arguments.pop("run_id", None)
    arguments.pop("settings_file", None)
    given_outcome = {name: arguments.pop(name, None) for name in ("outcome", "who", "transaction", "yes")}
    origins: dict[str, str] = {}
    try:
        if command in ("driver", "sweep"):
            # From its supervisor: they may hold secrets, and every user of the machine can read a command line.
            given = json.load(sys.stdin)
        else:
            flags = {name: value for name, value in arguments.items() if value is not None}
            given, origins = add_file(flags, words, os.environ)
        if command == "settle":
            from indoubt.pipeline.recovery.settle_command import settle as settle_command

            outcome = Settled(given_outcome["outcome"]) if given_outcome["outcome"] else None
            known = {setting.name for setting in dataclasses.fields(SinkSettings)}
            of_sink = SinkSettings.read({name: value for name, value in given.items() if name in known}, origins)
            return settle_command(
                of_sink, outcome, given_outcome["who"], given_outcome["transaction"], yes=given_outcome["yes"]
            )
        settings = PipelineSettings.read(given, origins)
        if command == "driver":
            # Only here: a supervisor needs no Spark, and starts in less than half of the time without.
            from indoubt.pipeline.run.driver import run_driver

            return run_driver(settings, run_file, run_id)
        if command == "sweep":
            from indoubt.pipeline.recovery.sweep import sweep_after

            sweep_after(settings, run_id)
            return 0
        return Supervisor(settings).run()
    except SettingsError as error:
        print(f"pipeline: {visible(error)}", file=sys.stderr)
        return WRONG_SETTINGS
    except IndoubtError as error:
        print(f"pipeline: {visible(error)}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="indoubt pipeline", description=__doc__)
    parser.add_argument("--version", action="version", version=f"indoubt {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_settings(commands.add_parser("run", help="run a pipeline and restart it when it fails"))
    settle = commands.add_parser("settle", help="list what was decided and is not settled, and say how it ended")
    _add_settings(settle)
    settle.add_argument(
        "--outcome", choices=[how.value for how in Settled], help="how those ended whose end nothing proves"
    )
    settle.add_argument("--who", default="", help="your name: it stands in the decision log")
    settle.add_argument(
        "--transaction", action="append", default=[], help="only this one, as it is listed; may be repeated"
    )
    settle.add_argument("--yes", action="store_true", help="write it to the decision log")
    commands.add_parser(ROLLUP, add_help=False, help="count archived history by cluster, day and application")
    driver = commands.add_parser(
        "driver", help="one run of a driver, without restarts; all settings come as JSON on standard input"
    )
    driver.add_argument("--run-file", default="", help="file to which the driver writes which run it is, as JSON")
    driver.add_argument("--run-id", default="", help="the run's id in the decision log (default: a new one)")
    sweep = commands.add_parser(
        "sweep", help="roll back what runs left open that are over; all settings come as JSON on standard input"
    )
    sweep.add_argument("--run-id", action="append", required=True, help="a run that is over; may be repeated")
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    settings_file.add_option(parser, "pipeline")
    for setting in dataclasses.fields(PipelineSettings):
        default = "" if setting.default is dataclasses.MISSING else f" (default: {setting.default!r})"
        flag = "--" + setting.name.replace("_", "-")
        parser.add_argument(flag, dest=setting.name, help=(setting.metadata["help"] + default).replace("%", "%%"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
