"""Flink's file ``_metadata``: what a checkpoint or savepoint holds of Kafka transactions.

From the outside in: ``metadata_file`` reads the file's structure, with ``state_handles`` in it and ``checkpoint_properties`` at its
end; ``operator_state`` the bytes of one operator state; ``sink_states`` what Flink's sinks and the Kafka connector write into it.
Begin with ``checkpoint_metadata.py``.
"""
