"""Commands besides the collector itself: ``python -m collector <command>``."""
