"""Flink's file ``_metadata``: what a checkpoint or savepoint announces of commits.

From the outside in: ``metadata_file`` reads the file's structure, with ``state_handles`` in it and ``checkpoint_properties`` at its
end; ``operator_state`` the bytes of one operator state; ``commit_requests`` what every sink writes into it alike; ``sink_states``
which kind of sink wrote it, with a decoder a kind: ``kafka_sink_states``, ``jdbc_sink_states``, ``file_sink_states``.
Begin with ``checkpoint_metadata.py``.
"""
