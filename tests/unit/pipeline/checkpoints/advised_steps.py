"""What a refusal of a damaged checkpoint directory says is to be done."""

from __future__ import annotations

import re
from collections.abc import Iterator


def steps(said: str) -> Iterator[tuple[str, ...]]:
    """Yield what a text says is to be done, to the letter."""
    (text,) = re.findall(r"Do this, then start again: (.*?)\. (?=[A-Z])", said)
    for step in text.split("; "):
        if step.startswith("remove "):
            names = re.findall(r"(?:offsets|commits)/\.?\d+(?:\.crc)?", step)
            assert names
            yield from (("remove", name) for name in names)
        elif match := re.match(r"write two lines into (\S+), v1 and (\{.*?\})", step):
            yield "write", match[1], f"v1\n{match[2]}"
        elif match := re.match(r"copy (\S+) to ([^\s,]+)", step):
            yield "copy", match[1], match[2]
        else:
            raise AssertionError(step)
        yield from (("remove", name) for name in re.findall(r"and remove (\S+\.crc)", step))
