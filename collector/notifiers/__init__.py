"""Receivers of notifications: what each is sent, and the delivery of the outbox to them."""
