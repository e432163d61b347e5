"""``python -m pipeline run …``: a supervised pipeline. ``driver``: one run, as the supervisor starts it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys

from lifecycle.errors import IndoubtError, SettingsError
from pipeline.exit_codes import WRONG_SETTINGS
from pipeline.settings import PipelineSettings
from pipeline.supervisor import Supervisor


def main() -> int:
    """Read the settings, then supervise or drive."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    parser = argparse.ArgumentParser(prog="python -m pipeline", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a pipeline and restart it when it fails")
    for setting in dataclasses.fields(PipelineSettings):
        default = "" if setting.default is dataclasses.MISSING else f" (default: {setting.default!r})"
        flag = "--" + setting.name.replace("_", "-")
        run.add_argument(flag, dest=setting.name, help=(setting.metadata["help"] + default).replace("%", "%%"))
    driver = commands.add_parser("driver", help="one run of a driver, without restarts")
    driver.add_argument("--settings", required=True, help="all settings, as JSON")
    driver.add_argument("--run-file", default="", help="file to which the driver writes which run it is, as JSON")
    arguments = vars(parser.parse_args())
    command, run_file = arguments.pop("command"), arguments.pop("run_file", "")
    try:
        given = json.loads(arguments["settings"]) if command == "driver" else arguments
        settings = PipelineSettings.read({name: value for name, value in given.items() if value is not None})
        if command == "driver":
            # Only here: a supervisor needs no Spark, and starts in less than half of the time without.
            from pipeline.driver import run_driver

            return run_driver(settings, run_file)
        return Supervisor(settings).run()
    except SettingsError as error:
        print(f"pipeline: {error}", file=sys.stderr)
        return WRONG_SETTINGS
    except IndoubtError as error:
        print(f"pipeline: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
