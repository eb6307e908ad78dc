"""The synchronous grammar: words, phrases and clauses, in English and Japanese at once."""
