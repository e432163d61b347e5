"""How it is served: FastAPI routes, answers as JSON, server-sent events, metrics, the API's document.

``listings.py`` chooses what is on a page; ``views`` makes its rows. Imports everything below. Begin with ``app.py``;
docs/api.md describes each route.
"""
