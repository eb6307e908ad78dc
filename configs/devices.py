"""Names of devices in settings."""

import re

DEVICES = "auto, cpu, cuda, cuda:N or mps"


def is_device(name: str) -> bool:
    """Whether `name` is a valid device name; whether that device exists is checked on use."""
    return re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,2})?", name) is not None
