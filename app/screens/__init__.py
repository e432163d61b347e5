"""A file for each page, with the page's name in the navigation.

Imports ``dialogs`` and all below. Begin with ``overview.py``.
"""
