"""The CPU's memory allocator: freed blocks are reused, large tensors lie on huge pages."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from functools import cache
from pathlib import Path


@cache
def keep_freed_memory() -> None:
    """Ask glibc to reuse freed blocks instead of returning them to the system, and Linux to back them with huge pages.

    Activations come and go in every step; by default each large one is mapped and zeroed by the kernel anew, 10-25 % of
    a step. With pages of 4 kB, looking up addresses takes another 5 % of a step that works on gigabytes.
    """
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL("libc.so.6")
        trim_threshold, mmap_threshold, gibibyte = -1, -3, 1 << 30  # parameters of mallopt(3)
        libc.mallopt(trim_threshold, 2 * gibibyte - 1)
        if not libc.mallopt(mmap_threshold, gibibyte):  # before 2.35
            libc.mallopt(mmap_threshold, gibibyte // 32)
        elif addresses_are_free():
            use_huge_pages(libc)


def addresses_are_free() -> bool:
    """Whether a process may reserve as many addresses as it likes: neither a limit nor an account of them is kept."""
    import resource

    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    strict = Path("/proc/sys/vm/overcommit_memory")
    return set(limits) == {resource.RLIM_INFINITY} and not (strict.exists() and strict.read_text().strip() == "2")


def use_huge_pages(libc: ctypes.CDLL) -> None:
    """Let half as much heap as there is memory grow in pages of 2 MB, where Linux grants them on request. Takes no
    memory yet.

    The request is for addresses, so the heap is extended here, marked, and freed again for the allocations to come. The
    last block stays, or the C library would return what lies before it; being never touched, it takes addresses alone.
    What the heap has once held then stays with the process, as the next step would ask for it again.
    """
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    page, block, advice = os.sysconf("SC_PAGE_SIZE"), 1 << 29, 14  # MADV_HUGEPAGE of madvise(2)
    count = page * os.sysconf("SC_PHYS_PAGES") // 2 // block
    blocks = [address for _ in range(count) if (address := libc.malloc(block))]
    for address in blocks[:-1]:
        libc.madvise(address - address % page, block + page, advice)  # to the page where the next one begins
    for address in blocks[:-1]:
        libc.free(address)
