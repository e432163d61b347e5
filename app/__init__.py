"""Shows and asks: the pages of indoubt. Talks to the collector's HTTP API (docs/api.md) and to nothing else."""
