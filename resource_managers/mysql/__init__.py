"""MySQL and MariaDB: XA.

Imports ``database`` and all below. Begin with ``resource_manager.py``; docs/databases.md says what is needed.
"""
