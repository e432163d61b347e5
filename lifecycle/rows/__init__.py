"""The rows of the collector's API, each described once: a frozen dataclass whose fields are the columns, in their order.

Its JSON (``row_json``), its JSON Schema (``json_schema``) and the app's reader follow from the fields' types:
``str``, ``int``, ``float``, ``bool``, an Enum, another such dataclass, ``tuple[X, ...]`` (a list), ``Mapping[str, X]`` (an
object of any names), ``Any`` (any JSON), and ``X | None``. Times are epoch milliseconds; None: not known.
"""
