"""What tests of history sql build their cases of; others use it, too."""

from __future__ import annotations

COLUMNS: list[str] = (  # noqa: SIM905 - as the document lists them
    "session_id cascade_id trace_id parent_id timestamp node_type phase_name turn_number "
    "attempt_number sounding_index role content_hash content_json content_chars "
    "tool_calls_json model tokens_in tokens_out tokens_cached cost duration_ms "
    "full_history_size context_size tokens_saved metadata_json"
).split()


NODE_TYPES: list[str] = (  # noqa: SIM905 - as the document lists them
    "system user agent follow_up tool_result validation context_injection "
    "context_selection decision error"
).split()
