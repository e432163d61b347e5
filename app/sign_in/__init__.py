"""Who looks at the pages: sign-in by OIDC or by a trusted proxy, and the one guard in front of every path.

Begin with ``guard.py``; docs/security.md says what each way promises.
"""
