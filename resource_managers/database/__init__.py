"""What MySQL and PostgreSQL share as resource managers: markers, branches, settlement, columns, connections.

Knows neither of them by name. Imports ``kafka`` and the protocol. Begin with ``resource_manager.py``.
"""
