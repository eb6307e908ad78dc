"""Peers: their training loops, and our weights exported to their models for decoding."""
