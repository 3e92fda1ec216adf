"""Which runs this process drives, told to other processes by locks of the kernel.

A lock of the kernel is gone with its process, however that ended, so no run stays held by a dead process, and no
process id that was given out again passes for a live one. Each run is one byte of a file beside the journal; the file
stays empty, since bytes need not be there to be locked. One open file serves for all runs that a process drives.

Linux has locks of an open file, which nothing else in the process can lose. Elsewhere (macOS, BSD) the locks are of the
process: to open and close this file in a process that drives runs, as for a copy of the folder, gives them up. Windows
has neither.
"""

from __future__ import annotations

import hashlib
import os
import struct
from errno import EACCES, EAGAIN
from typing import NamedTuple

from ..errors import JournalError
from .sqlite_forks import Guarded

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]


class _File(NamedTuple):
    descriptor: int
    run_ids: set[str]


class Holds(Guarded):
    """The runs that this process drives, by journal.

    There is one for all stores: two open files of one process may not exclude each other, and to close one may give up
    the locks of the other.
    """

    order = 2

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, _File] = {}

    def take(self, path: str, run_id: str) -> bool:
        """Whether the run was free, and is held now. Raises OSError, and JournalError on a system without locks."""
        _check_system()
        with self.lock:
            file = self._files.get(path) or _File(os.open(f"{path}-holds", os.O_RDWR | os.O_CREAT, 0o666), set())
            try:
                if run_id in file.run_ids or not _lock(file.descriptor, fcntl.F_WRLCK, run_id):
                    return False
                file.run_ids.add(run_id)
                self._files[path] = file
                return True
            finally:
                if not file.run_ids:
                    os.close(file.descriptor)

    def has(self, path: str, run_id: str) -> bool:
        """Whether a process holds the run. Nothing is taken, so this stands in nobody's way. Raises as `take` does."""
        _check_system()
        with self.lock:
            file = self._files.get(path)
            if file is not None:
                return run_id in file.run_ids or _is_locked(file.descriptor, run_id)
            descriptor = os.open(f"{path}-holds", os.O_RDWR | os.O_CREAT, 0o666)
            try:
                return _is_locked(descriptor, run_id)
            finally:
                os.close(descriptor)

    def release(self, path: str, run_id: str) -> None:
        """Let somebody else drive the run. Nothing happens in a child that was forked meanwhile: it never held it."""
        with self.lock:
            file = self._files.get(path)
            if file is None or run_id not in file.run_ids:
                return
            file.run_ids.remove(run_id)
            if file.run_ids:
                _lock(file.descriptor, fcntl.F_UNLCK, run_id)
            else:
                del self._files[path]
                os.close(file.descriptor)

    def after_fork_in_child(self) -> None:
        """An open file that lives on in a child would hold the runs longer than the parent lives."""
        for file in self._files.values():
            os.close(file.descriptor)
        self._files.clear()


HOLDS = Holds()


def _check_system() -> None:
    if fcntl is None:
        raise JournalError("a run can be driven only on a system with locks on files, and this one has none")


def _is_locked(descriptor: int, run_id: str) -> bool:
    """Whether another process has locked the byte of a run."""
    if hasattr(fcntl, "F_OFD_GETLK"):
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, run_id))
        (kind,) = struct.unpack_from("h", found)
        return bool(kind != fcntl.F_UNLCK)
    if not _lock(descriptor, fcntl.F_WRLCK, run_id):
        return True
    _lock(descriptor, fcntl.F_UNLCK, run_id)  # held for no longer than this takes
    return False


def _flock(kind: int, run_id: str) -> bytes:
    """struct flock of Linux: type, whence, start, length, process id (which has to be 0)."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, _place(run_id), 1, 0)


def _place(run_id: str) -> int:
    """The byte of a run. It is drawn from 2 ** 62, so no two of them are ever the same."""
    return int.from_bytes(hashlib.sha256(run_id.encode(errors="surrogatepass")).digest()[:8]) >> 2


def _lock(descriptor: int, kind: int, run_id: str) -> bool:
    """Lock or unlock the byte of a run; False where another process has locked it."""
    try:
        if hasattr(fcntl, "F_OFD_SETLK"):
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(kind, run_id))
        else:
            how = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
            fcntl.lockf(descriptor, how, 1, _place(run_id))
    except OSError as error:
        if error.errno in (EACCES, EAGAIN):
            return False
        raise
    return True
