"""``python -m demo`` runs all of indoubt on this machine until Ctrl-C; ``--headless`` runs it once, with a fault, and judges it."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from demo.fault_injection import FaultDesk, FaultServer
from demo.faults import Fault
from demo.headless import run_headless
from demo.judge import CannotJudge
from demo.offset_log import OffsetLogUnreadable
from demo.prerequisites import ROOT, Missing
from demo.readers import NotRead
from demo.run import DemoRun, RunSettings, page_port, page_url, say
from demo.waiting import DemoFailed
from indoubt.lifecycle.private_files import close_to_others

PAGE_RATE = 200.0
HEADLESS_RATE = 500.0
PAGE_RESTARTS = 100
"""A user may kill the driver as often as they like."""
HEADLESS_RESTARTS = 5
CHECK_EVERY_S = 0.5


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the command line; each option has a line in docs/settings.md."""
    parser = argparse.ArgumentParser(prog="indoubt demo", description="Run all of indoubt on this machine.")
    parser.add_argument("--directory", type=Path, help="directory for data and logs (default: .run/demo-<pid>)")
    parser.add_argument("--keep", action="store_true", help="keep the data at the end (logs are always kept)")
    parser.add_argument("--rate", type=float, help="records per second (default: 200, headless 500)")
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="three brokers, Spark's standalone cluster with two workers, checkpoints in an object store (8 GB of memory)",
    )
    page = parser.add_argument_group("with pages (the default)")
    page.add_argument("--port", type=int, help="port of the page; 0 takes a free port (default: 8651, or a free port)")
    page.add_argument("--ready-file", type=Path, help="file for the addresses, as JSON, written when everything is up")
    page.add_argument(
        "--flink", action="store_true", help="a Flink job beside the pipeline, where Maven and a JDK are there"
    )
    headless = parser.add_argument_group("without pages")
    headless.add_argument("--headless", action="store_true", help="run once, judge the result, print it as JSON")
    headless.add_argument(
        "--for",
        type=float,
        default=60.0,
        dest="for_s",
        help="seconds of traffic; more if the fault takes longer (default: 60)",
    )
    headless.add_argument("--fault", choices=[fault.value for fault in Fault], default=Fault.NONE.value,
                          help="the fault to cause (default: none)")  # fmt: skip
    headless.add_argument("--report", type=Path, help="file for the result, in addition to stdout")
    return parser


def parse() -> argparse.Namespace:
    """Return the command line's values; exits with a message if they contradict each other."""
    parser = command_line()
    values = parser.parse_args()
    if values.rate is not None and values.rate <= 0:
        parser.error(f"--rate is {values.rate:g}; it must be a number above 0")
    if values.for_s <= 0:
        parser.error(f"--for is {values.for_s:g}; it must be a number of seconds above 0")
    if values.cluster and find_spec("moto") is None:
        parser.error("--cluster needs moto, an S3-compatible store: run 'make setup-tests' in the checkout first")
    if values.headless and values.flink:
        parser.error("--flink needs the pages; a headless run judges the pipeline alone")
    if not values.headless and (values.fault != Fault.NONE.value or values.report):
        parser.error("--fault and --report need --headless; without it, cause faults with the buttons on the page")
    return values


def main() -> int:
    """Run the demo and return the exit code.

    It is 0 if the demo ended in order. A headless run must also have lost, duplicated, shown too early and left open nothing.
    """
    close_to_others()
    values = parse()
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    settings = RunSettings(
        directory=values.directory or ROOT / ".run" / f"demo-{os.getpid()}",
        rate=values.rate or (HEADLESS_RATE if values.headless else PAGE_RATE),
        restart_attempts=HEADLESS_RESTARTS if values.headless else PAGE_RESTARTS,
        keep=values.keep,
        flink=values.flink,
        cluster=values.cluster,
    )
    try:
        if values.headless:
            return _headless(settings, Fault(values.fault), values.for_s, values.report)
        return _with_page(settings, page_port(values.port), values.ready_file)
    except (DemoFailed, Missing, NotRead, OffsetLogUnreadable, CannotJudge) as error:
        say(str(error))
        if settings.directory.exists():
            say(f"the demo keeps its logs and data in {settings.directory}")
        return 1
    except KeyboardInterrupt:
        say(f"interrupted; the logs are in {settings.directory}")
        return 130


def _headless(settings: RunSettings, fault: Fault, for_s: float, report_file: Path | None) -> int:
    report = run_headless(settings, fault, for_s)
    text = json.dumps(report, indent=2)
    print(text)
    if report_file is not None:
        report_file.write_text(text + "\n")
    say("passed" if report["passed"] else f"FAILED: {'; '.join(report['examples']) or 'see the report'}")
    return 0 if report["passed"] else 1


def _with_page(settings: RunSettings, port: int, ready_file: Path | None) -> int:
    with DemoRun(settings) as run:
        run.build_flink()
        run.start_broker()
        desk = FaultDesk(run)
        fault_server = FaultServer(desk)
        run.start_collector(public_url=page_url(port), fault_injection_url=fault_server.url)
        run.start_pipeline()
        run.start_app(port, fault_server.url)
        run.wait_for_collector()
        run.start_generator()
        run.start_flink()
        run.start_downstream()
        run.wait_for_app()
        say("")
        say(f"  Open  {run.app_url}")
        say("")
        run.wait_for_pipeline()
        run.archive_classes()
        addresses = {"app": run.app_url, "collector": run.collector_url, "fault_injection": fault_server.url}
        if ready_file is not None:
            draft = ready_file.with_suffix(".draft")
            draft.write_text(json.dumps({**addresses, "bootstrap_servers": run.bootstrap_servers}))
            draft.rename(ready_file)
        say("")
        say(f'  {run.app_url}: press "Freeze the driver after its decision" under "Fault injection", then watch')
        say("  Overview: a batch needs attention within seconds. Ctrl-C ends everything.")
        say("")
        try:
            while True:
                run.check_running()
                desk.start_if_asked()
                time.sleep(CHECK_EVERY_S)
        except KeyboardInterrupt:
            say("ending everything …")
        finally:
            fault_server.close()
    say(f"ended; logs are in {run.logs}")
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    # The first signal ends the run in order; later ones must not interrupt that.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
