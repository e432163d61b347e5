"""Which version this is; the build and every ``--version`` take it from here."""

VERSION = "0.2.0"
