"""The libraries that decode, behind one interface: torch, with our own search and sampling, and CTranslate2."""
