"""The exceptions of this package, and its log."""
import logging

log = logging.getLogger("starling")


class Error(Exception):
    """One sentence: what failed, where, and what would be right. Raised only before training begins."""


class Changed(Error):
    """The trainer's tensors are no longer the ones that it declared. Stays inside of the package."""
