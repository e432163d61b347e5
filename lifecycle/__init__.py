"""The language of indoubt: states, identities, decisions, events, checkpoints and verdicts. Imports nothing local."""
