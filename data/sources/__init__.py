"""From files, URLs, the hub or the embedded corpus to rows of text."""
