"""Observers: one source each, in its own thread; each fails alone, is tried again, and says how it is."""
