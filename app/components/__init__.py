"""What pages are made of: escaped markup, pictures, signs of verdicts, times as text, pages of a list.

It knows no page and sends no request. It imports ``client`` for its rows. Begin with ``markup.py``.
"""
