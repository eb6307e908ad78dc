"""The one exception that means: the user can mend this."""


class UserError(Exception):
    """Bad config, data, file or checkpoint. The message names the key or file and the fix; the program exits with 2."""
