"""One command that runs all of indoubt on one machine, with faults on request."""
