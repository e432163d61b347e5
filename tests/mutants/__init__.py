"""Changes one thing at a time in the rules and looks whether a test notices: ``make mutants`` (docs/contributing.md).

Begin at ``__main__.py``. ``operators.py`` says what is changed, ``judged_modules.py`` in which modules and which tests judge
them, ``not_counted.py`` which changes alter no verdict, ``trials.py`` runs the tests against a change.
"""
