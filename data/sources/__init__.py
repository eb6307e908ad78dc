"""Load files, URLs, hub datasets or the built-in corpus as rows of text."""
