"""What is wrong with the user's data, in words."""

from configs.errors import UserError


class DataError(UserError):
    """A file, column or setting of the data that the user can mend; the message names it and the fix."""
