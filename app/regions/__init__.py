"""Live regions: parts of a page that are rendered once per change for all viewers and sent over a WebSocket of our own.

``region_content.py`` says what a region is. ``region_server.py`` follows the collector and renders; ``app/server.py`` has the
WebSocket; ``component.py`` puts a region into a Streamlit page. May import components, client and settings; begin at
``region_content.py``.
"""
