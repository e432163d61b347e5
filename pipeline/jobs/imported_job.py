"""A job of the user's own: a function of a module of theirs, named MODULE:FUNCTION."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lifecycle.errors import SettingsError
from pipeline.config.settings import PipelineSettings

ISOLATION, READ_COMMITTED = "kafka.isolation.level", "read_committed"


def import_job(name: str) -> Callable[[SparkSession, PipelineSettings], DataFrame]:
    """Return the function, which takes the session, and the settings too if it has a second parameter.

    Raises SettingsError when module or function are not there, and when it is called, unless it returns a stream.
    """
    module_name, _, function_name = name.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _cannot_import(name, module_name, error) from error
        raise SettingsError(
            f"job {name!r}: there is no module {error.name!r}: start in its folder, or name the folder in PYTHONPATH"
        ) from None
    except Exception as error:
        raise _cannot_import(name, module_name, error) from error
    function: Any = getattr(module, function_name, None)
    if not callable(function):
        functions = inspect.getmembers(module, inspect.isfunction)
        own = [key for key, value in functions if value.__module__ == module_name and not key.startswith("_")]
        raise SettingsError(
            f"job {name!r}: module {module_name!r} has no function {function_name!r}; it has: {', '.join(own) or 'none'}"
        )
    return lambda spark, settings: _rows(name, function, spark, settings)


def _rows(name: str, function: Any, spark: SparkSession, settings: PipelineSettings) -> DataFrame:
    takes_settings = len(inspect.signature(function).parameters) > 1
    rows = function(spark, settings) if takes_settings else function(spark)
    if not isinstance(rows, DataFrame) or not rows.isStreaming:
        what = "rows that are no stream" if isinstance(rows, DataFrame) else f"a {type(rows).__name__}"
        raise SettingsError(f"job {name!r} returned {what}: return a DataFrame that is read with spark.readStream")
    check_isolation(rows)
    return rows


def check_isolation(rows: DataFrame) -> None:
    """Return when no stream of Kafka that ``rows`` are made of shows records of aborted or open transactions.

    Spark's source shows them by default, and nobody can set another default for a session. Raises SettingsError.
    """
    leaves = rows._jdf.queryExecution().analyzed().collectLeaves()
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        if leaf.getClass().getSimpleName() != "StreamingRelationV2" or leaf.sourceName() != "kafka":
            continue
        if leaf.extraOptions().get(ISOLATION) != READ_COMMITTED:
            topics = [leaf.extraOptions().get(name) for name in ("subscribe", "subscribePattern", "assign")]
            raise SettingsError(
                f"the rows come from a Kafka source ({next(filter(None, topics), 'unknown topics')}) that shows records of "
                "aborted and open transactions, which would be written as if they were committed: add "
                f'.option("{ISOLATION}", "{READ_COMMITTED}") to its spark.readStream'
            )


def _cannot_import(job: str, module: str, error: Exception) -> SettingsError:
    return SettingsError(f"job {job!r}: module {module!r} cannot be imported: {type(error).__name__}: {error}")
