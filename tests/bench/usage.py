"""What a process has cost so far, as its kernel counts it."""

import ctypes
import gc
import os
import time
from pathlib import Path

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """CPU of all threads since the process began, before and after the memory was cleaned up for the measurement."""

    cpu_seconds: float
    cpu_seconds_after: float
    resident_mib: float
    peak_mib: float


def usage() -> Usage:
    """Memory is measured after everything that can be given back was given back.

    Otherwise it would tell what an allocator keeps of what a list once needed, and that is chance.
    """
    spent = time.process_time()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return Usage(
        cpu_seconds=spent,
        cpu_seconds_after=time.process_time(),
        resident_mib=mib_of("VmRSS"),
        peak_mib=mib_of("VmHWM"),
    )


def mib_of(field: str, process: int | str = "self") -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    kib = next(line.split()[1] for line in lines if line.startswith(f"{field}:"))
    return int(kib) / 1024


def cpu_seconds_of(process: int) -> float:
    """Of all its threads since it began, in its own code and in the kernel."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()  # its name may have spaces
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
