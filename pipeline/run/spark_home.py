"""A Spark home whose Python workers import PySpark from where it is installed, as compiled modules.

Spark puts ``$SPARK_HOME/python/lib/pyspark.zip`` before everything else on its workers' path. Nothing in it is compiled, so
each of the five Python processes of a start compiled what it imports: half a second of processor time each. In this home all
is a link to the installed package, and there is no zip.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

import pyspark

from indoubt.pipeline.config.settings import KEPT

HOME = KEPT / "spark"
LINKED = ("bin", "jars", "sbin")
log = logging.getLogger(__name__)


def use(home: Path = HOME) -> None:
    """Make ``home`` if it is not there and have Spark take it; a SPARK_HOME that is set already stays.

    The same place for each start: a class data archive fits one class path. Where nothing can be written, Spark starts as ever.
    """
    if "SPARK_HOME" in os.environ:
        return
    installed = Path(pyspark.__file__).parent
    try:
        _make(home, installed)
    except OSError as error:
        log.info("Spark's workers start slower, because %s cannot be made: %s", home, error)
        return
    os.environ["SPARK_HOME"] = str(home)


def _make(home: Path, installed: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    for name in LINKED:
        link, target = home / name, installed / name
        if link.is_symlink() and link.readlink() == target:
            continue
        # Put in place in one step: other drivers may be starting.
        with tempfile.TemporaryDirectory(dir=home) as aside:
            (Path(aside) / name).symlink_to(target)
            (Path(aside) / name).replace(link)
