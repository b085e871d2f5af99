"""The one exception of this package, and its log."""
import logging

log = logging.getLogger("starling")


class Error(Exception):
    """One sentence: what failed, where, and what would be right. Raised only before training begins."""
