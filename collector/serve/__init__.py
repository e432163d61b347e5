"""How the collector is asked: over HTTP (``api``), and from a terminal through it (``cli``)."""
