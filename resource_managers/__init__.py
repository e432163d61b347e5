"""Resource managers in X/Open terms: what holds prepared transactions and finishes them by handle, from any process."""
