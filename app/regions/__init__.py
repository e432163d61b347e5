"""Live regions: parts of a page that are rendered once per change for all viewers and sent over a WebSocket of our own.

``picture.py`` says what a region is. ``hub.py`` follows the collector and renders; ``app/server.py`` has the WebSocket;
``component.py`` puts a region into a Streamlit page. May import components, client and settings; begin at ``picture.py``.
"""
