"""Torture: training runs that are killed many times must end like an undisturbed run, to the last bit."""
