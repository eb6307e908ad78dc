"""Settings `key=value` of the small commands.

Defined in `attention_maps`, which is published without the rest of the project.
"""

from attention_maps.base.settings import NOT_A_SETTING, describe, expected, field_documentation, read_settings

__all__ = ["NOT_A_SETTING", "describe", "expected", "field_documentation", "read_settings"]
