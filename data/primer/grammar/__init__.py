"""The synchronous grammar: build words, phrases and clauses in English and Japanese at once."""
