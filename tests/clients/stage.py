"""What the cases share: sockets, daemons, the client's warnings, and a `starling` program that is the stand-in."""
import contextlib
import logging
import os
import subprocess
import sys
import threading
import time

import daemon
import suite

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
CLIENTS = os.path.join(SOURCE, "clients")
sys.path.insert(0, os.path.join(CLIENTS, "python"))


class Messages(logging.Handler):
    """The client's warnings, and what to do when one comes: `then` is called once, with the first that has `words`."""

    def __init__(self):
        super().__init__()
        self.texts, self.words, self.then = [], None, None

    def emit(self, record):
        text = record.getMessage()
        self.texts.append(text)
        if self.words and self.words in text:
            self.words, then = None, self.then
            then()

    def count(self, words):
        return sum(words in text for text in self.texts)


class Stage:
    """One case's folder, daemons and messages."""

    def __init__(self, program, folder):
        self.program, self.folder, self.daemons = program, folder, []
        os.makedirs(folder)
        self.socket = os.path.join(folder, "s")
        self.messages = Messages()
        logging.getLogger("starling").addHandler(self.messages)
        logging.getLogger("starling").propagate = False
        self.peers = contextlib.ExitStack()

    def daemon(self, path=None, **settings):
        made = daemon.Daemon(path or self.socket, **settings)
        self.daemons.append(made)
        return made

    def keep(self, peer):
        """Closes the peer at the case's end."""
        self.peers.callback(peer.close)
        return peer

    def stand_in(self, *flags):
        """The path of a program like `starling`."""
        path = os.path.join(self.folder, "starling")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {sys.executable} -B {HERE}/daemon.py "$@" {" ".join(flags)}\n')
        os.chmod(path, 0o700)
        return path

    def environment(self, **more):
        return {**os.environ, "PYTHONPATH": os.path.join(CLIENTS, "python"), "PYTHONDONTWRITEBYTECODE": "1", **more}

    def close(self):
        try:
            self.peers.close()
        finally:
            logging.getLogger("starling").removeHandler(self.messages)
            for made in self.daemons:
                made.die()


def python(*lines):
    """A program of these lines, which has ended."""
    return subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.path.join(CLIENTS, "python")})


def steps_until(peer, condition, what, work=lambda: None):
    """Makes steps, as a training loop does, until the condition holds."""
    def stepped():
        if condition():
            return True
        work()
        peer.step(1)
        return False
    suite.until(stepped, f"made steps in vain until {what}", 0)


def in_background(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def microseconds(work, count=20000):
    """Processor time of this thread for a call, in the fastest of five series."""
    best = float("inf")
    for _ in range(5):
        begin = time.thread_time()
        for _ in range(count):
            work()
        best = min(best, time.thread_time() - begin)
    return best / count * 1e6


def raises(kind, words, work):
    """Requires that work() raises this kind of exception with these words in its sentence."""
    try:
        work()
    except kind as error:
        if words not in str(error):
            raise AssertionError(f'"{error}" lacks "{words}"') from None
        return
    raise AssertionError(f'nothing was raised; expected "{words}"')
