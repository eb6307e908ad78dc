"""The small models of the tests of `model`."""

from tests.model.conftest import _seed, config, poisoned_memory, sharpen

__all__ = ["_seed", "config", "poisoned_memory", "sharpen"]
