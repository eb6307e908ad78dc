"""The CPU's memory allocator: reuse freed blocks and back large tensors with huge pages."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from functools import cache
from pathlib import Path


@cache
def keep_freed_memory() -> None:
    """Configure glibc to keep and reuse freed blocks, and Linux to back them with huge pages.

    Activations are allocated and freed in every step; by default the kernel maps and zeroes each large one again, which
    takes 10-25 % of a step. With 4 kB pages, address translation takes another 5 % of a step that uses gigabytes.
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
    """Whether a process may reserve unlimited address space: no resource limit and no strict overcommit accounting."""
    import resource

    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    strict = Path("/proc/sys/vm/overcommit_memory")
    return set(limits) == {resource.RLIM_INFINITY} and not (strict.exists() and strict.read_text().strip() == "2")


def use_huge_pages(libc: ctypes.CDLL) -> None:
    """Ask Linux to back the heap, up to half of physical memory, with 2 MB pages. This uses no memory yet.

    The request applies to addresses, so the heap is extended, marked, and freed again for later allocations. The last
    block stays allocated, or the C library would return the memory below it; it is never touched and uses only address
    space. The process keeps all memory that the heap has used, since the next step needs it again.
    """
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    page, block, advice = os.sysconf("SC_PAGE_SIZE"), 1 << 29, 14  # MADV_HUGEPAGE of madvise(2)
    count = page * os.sysconf("SC_PHYS_PAGES") // 2 // block
    blocks = [address for _ in range(count) if (address := libc.malloc(block))]
    for address in blocks[:-1]:
        libc.madvise(address - address % page, block + page, advice)  # to the page where the next block begins
    for address in blocks[:-1]:
        libc.free(address)
