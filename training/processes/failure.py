"""End all processes of a launch for the reason of the first one that ends, and print this reason once."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch.distributed as dist

from configs.errors import UserError
from configs.program import complain, messages_of
from training.processes.restarts import Launch
from training.stop_request import Interrupted

_WAIT = timedelta(seconds=3)
"""How long a process waits for the reason of another one's end, which that process gives before it ends."""


class Lost(BaseException):
    """Another process has ended during an exchange. Not an Exception: no further exchange is possible."""

    def __init__(self, cause: str, code: int | None) -> None:
        """code: exit code of the other process, if it has given a reason."""
        super().__init__(cause.partition("\n")[0])
        self.code = code


def is_broken_connection(error: Exception) -> bool:
    """Whether an exchange has failed, because another process or the network is gone."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "/gloo/" in str(error))


class Ending:
    """The reason why a launch ends, shared through the store of torchrun."""

    def __init__(self, store: dist.Store, launch: Launch) -> None:
        self.store, self.launch = store, launch

    @contextmanager
    def connected(self, *, only_exchanges: bool = True) -> Iterator[None]:
        """Inside the context, convert the error of a broken connection to Interrupted, if a signal has ended the other
        process, or to Lost. only_exchanges: every RuntimeError is such an error."""
        try:
            yield
        except RuntimeError as error:
            if not (only_exchanges or is_broken_connection(error)):
                raise
            code = self.code()
            if code is not None and code > 128:
                raise Interrupted(signal.Signals(code - 128)) from None
            raise Lost(str(error), code) from None

    @contextmanager
    def one_for_all(self) -> Iterator[None]:
        """If the work inside fails in one process, end all with its exit code, and with one message."""
        try:
            with self.connected(only_exchanges=False):  # the exchanges of `fully_shard`
                yield
        except Interrupted as interrupted:
            self.set_code(interrupted.exit_code, final=interrupted.by_all)
            raise
        except KeyboardInterrupt:
            self.set_code(130)
            raise
        except Lost as lost:
            if lost.code is None and self.is_first():
                complain(f"another process of this run has ended unexpectedly ({lost})")
            raise SystemExit(lost.code or 1) from None
        except Exception as error:
            fixable = isinstance(error, UserError | OSError)
            if not self.is_first():
                self.code()  # the message is printed before the code is set
            elif fixable:
                for message in messages_of(error):
                    complain(message)
            else:
                traceback.print_exc()
            self.set_code(2 if fixable else 1, final=fixable)  # a restart would meet the same problem
            raise SystemExit(2 if fixable else 1) from None

    def is_first(self) -> bool:
        """Whether no other process has ended with a message yet."""
        with suppress(RuntimeError):  # the store is gone with its machine
            return self.store.add("ended", 1) == 1
        return False

    def set_code(self, code: int, *, final: bool = True) -> None:
        """Set the exit code of all processes, unless one is set. final: torchrun does not restart them."""
        if final:
            self.launch.remember(exit_code=code)
        with suppress(RuntimeError):
            self.store.compare_set("code", "", str(code))

    def code(self) -> int | None:
        """Return the exit code that the first process to end has set; None if it has been killed."""
        with suppress(RuntimeError):
            self.store.wait(["code"], _WAIT)
            return int(self.store.get("code"))
        return None
