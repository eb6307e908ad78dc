"""Our models in CTranslate2's format, for its engine and for the programs that use it."""
