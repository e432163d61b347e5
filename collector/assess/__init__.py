"""What is open, judged: one assessment at a time, which everything that answers or acts reads.

Begin with ``assessor.py``: it says when an assessment is made, and who follows it. ``rules`` find what must be notified,
``attention`` lists what needs a person; docs/alerts.md says what to do about each.
"""
