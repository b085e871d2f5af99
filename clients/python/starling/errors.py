"""The exceptions of this package, its log, and the bound of its waits."""
import logging
import time

log = logging.getLogger("starling")


class Error(Exception):
    """One sentence: what failed, where, and what would be right. Raised before training begins, and later only if a wait
    takes longer than gossip(wait=)."""


class Changed(Error):
    """The trainer's tensors are no longer the ones that it declared. Stays inside of the package."""


class Limit:
    """The time that waits may take together: these seconds from now on, or None for ever."""

    def __init__(self, seconds):
        self._seconds, self._end = seconds, None if seconds is None else time.monotonic() + seconds

    def left(self, what, why):
        """The seconds that are left. Raises Error if there are none: `what` has not happened; why() says the reason, or
        None."""
        if self._end is None:
            return 3600
        left = self._end - time.monotonic()
        if left <= 0:
            raise Error(f"{what} within {self._seconds:g} s, the bound that wait= sets: {why() or 'it gives no reason'}")
        return left
