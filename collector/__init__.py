"""The collector: it observes brokers, databases and checkpoints, keeps what they say, judges it, notifies, and acts.

The packages stand in the order in which an observation passes through them: ``observe`` reads it, ``facts`` folds it and
``history`` keeps it, ``verdicts`` and ``assess`` judge it, ``notify`` tells receivers, ``act`` carries out orders, ``serve``
answers. ``records`` holds the values that all of them share, ``views`` what is asked of memory and history together. Each
imports only those below it (the layers in pyproject.toml); ``service.py`` puts them together. Begin there, then read
docs/architecture.md.
"""
