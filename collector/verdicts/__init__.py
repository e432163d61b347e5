"""What it means: numbered, pure rules for verdicts, causes of aborts, data loss, hanging transactions and timeouts.

The time is passed in. Imports ``facts``, never ``history``. Begin with ``verdict_rules.py``.
"""
