"""The program ``indoubt``: each part and each command by its name, and ``watch``, which runs collector and app together.

Begin with ``main.py``. Nothing else imports this package.
"""
