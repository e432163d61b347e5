"""The JVM takes the options of its heap without a word, and a size that the user chose is not cut by ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from demo.prerequisites import java_home
from pipeline import jvm_options


def started_with(options: str) -> str:
    """Return all that a JVM says that prints its flags."""
    command = [f"{java_home()}/bin/java", *options.split(), "-XX:+PrintFlagsFinal", "-Xmx2g", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout + done.stderr


def flag(said: str, name: str) -> str:
    """Return the value of one of its flags."""
    (value,) = [words[3] for words in map(str.split, said.splitlines()) if words[1:2] == [name]]
    return value


def test_records_die_in_a_young_generation_of_half_the_heap() -> None:
    said = started_with(jvm_options.heap(own_size=False))
    assert "VM warning" not in said
    assert (flag(said, "MaxNewSize"), flag(said, "UseParallelGC")) == (str(1 << 30), "true")


def test_a_heap_of_the_users_size_is_divided_by_the_jvm() -> None:
    assert "-Xmn" not in jvm_options.heap(own_size=True)


@pytest.mark.parametrize(
    ("enabled", "asked"), [("always [madvise] never\n", True), ("always madvise [never]\n", False), (None, False)]
)
def test_huge_pages_are_asked_for_only_where_there_are_some(
    enabled: str | None, asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "enabled"
    if enabled is not None:
        told.write_text(enabled)
    monkeypatch.setattr(jvm_options, "HUGE_PAGES", told)
    assert ("UseTransparentHugePages" in jvm_options.heap(own_size=False)) is asked
