"""How a setting names a device."""

import re

DEVICES = "auto, cpu, cuda, cuda:N or mps"


def is_device(name: str) -> bool:
    """Whether `name` has the form of a device; whether that device exists is checked when it is used."""
    return re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,2})?", name) is not None
