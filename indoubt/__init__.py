"""indoubt: what is in doubt in an exactly-once pipeline, what is safe to do about it, and doing it.

The packages are links to folders of the checkout, so that each has one name there, in tests and once installed.
"""

from indoubt.lifecycle.version import VERSION as __version__

__all__ = ["__version__"]
