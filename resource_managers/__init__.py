"""Resource managers in X/Open's sense: begin, prepare, check, commit, roll back, recover; one Protocol for all.

``protocol.py`` is what they promise, ``global_transaction.py`` several of them under one decision. ``kafka`` stands below
``topics`` and ``database``, these below ``mysql`` and ``postgres``. Begin with ``protocol.py``.
"""
