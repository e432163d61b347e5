"""How cost grows with size: one module a curve. ``curve.py`` says what a curve is, ``__main__.py`` draws them."""
