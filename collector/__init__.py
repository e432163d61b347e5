"""The collector: observes, keeps, judges and acts; the only owner of the history and the only hand on the brokers."""
