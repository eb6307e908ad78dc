"""The error for bad data or data settings."""

from configs.errors import UserError


class DataError(UserError):
    """A problem with a file, column or setting of the data that the user can fix; the message names it and the fix."""
