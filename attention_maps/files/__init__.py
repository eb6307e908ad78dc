"""Recordings on disk: written by safetensors, read with checks that trust no byte."""
