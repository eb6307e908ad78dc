"""From files, addresses, the hub or the embedded corpus to rows of text."""
