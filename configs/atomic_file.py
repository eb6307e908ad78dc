"""Atomic file writes.

Defined in `attention_maps`, which is published without the rest of the project.
"""

from attention_maps.base.atomic_file import flush, remove_partial, write_whole

__all__ = ["flush", "remove_partial", "write_whole"]
