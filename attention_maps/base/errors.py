"""The exception for errors that the user can fix."""

from __future__ import annotations


class UserError(Exception):
    """Invalid config, data, file or checkpoint; each argument names the key or file, and the fix. Exit code 2."""
