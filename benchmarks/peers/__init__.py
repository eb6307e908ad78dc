"""Training loops of the peers, and export of our weights to the peers' models for decoding."""
