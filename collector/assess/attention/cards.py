"""A card: what it does not say is empty."""

from functools import partial

from indoubt.lifecycle.rows.attention import Attention, Remedy

card = partial(
    Attention,
    remedy=Remedy.OPEN,
    pipeline="",
    batch=None,
    keys=(),
    waits=(),
    deadline_ms=None,
    partitions=(),
    verdict=None,
    certainty=None,
    rows=None,
)
