"""The pages for the engineer on call: Streamlit, talking to the collector's HTTP API and to nothing else.

Low to high: ``settings``, ``client``, ``components``, ``live`` (the session), ``dialogs``, ``screens``, ``page``; each
imports only those before it. Begin with ``page.py``.
"""
