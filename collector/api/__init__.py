"""How it is served: FastAPI routes, answers as JSON, server-sent events, metrics, the API's document.

Imports everything below. Begin with ``app.py``; docs/api.md describes each route.
"""
