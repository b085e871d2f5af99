"""Peers seen from outside: processes and their HTTP answers."""
import http.client
import json
import os
import signal
import subprocess

from . import clock, places

os.environ.setdefault("STARLING_EXPORT", "none")  # peers leave no models


TOKEN = "a-token-for-chaos-only"  # of all peers
ANSWER_S = 5  # for a request to a peer
LIAR_NAME = "liar"  # the names of liars begin with it


def last_line(log):
    with open(log, errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1] if lines else "no output"


class Life:
    """One process of a peer."""

    def __init__(self, peer, command, log):
        self.peer = peer
        self.log = log
        self.started = clock.now()
        with open(log, "ab") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True, preexec_fn=places.die_with_parent)
        self.stopped = False
        self.cut = False
        self.told_to_end = None  # when
        self.ended = None        # when
        self.healthy_since = self.started
        self.id = None
        self.status, self.members = None, []
        self.answered = self.steps_changed = self.started
        self.training_since = None
        self.resident = []  # (when, bytes)
        self.files_max = self.links_max = 0
        self.seen = {}      # member -> (state, incarnation)
        self.gone = {}      # members reported as left -> incarnation

    @property
    def running(self):
        return self.ended is None

    @property
    def healthy(self):
        return self.running and not self.stopped and not self.cut and self.told_to_end is None

    @property
    def phase(self):
        return self.status["phase"] if self.status else "starting"

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self, now):
        self.process.kill()
        self.process.wait()
        self.ended = now

    def stop(self):
        self.signal(signal.SIGSTOP)
        self.stopped = True

    def go_on(self):
        self.signal(signal.SIGCONT)
        self.stopped = False
        self.healthy_since = clock.now()

    def tell_to_end(self, now, by_http=False):
        self.told_to_end = now
        if by_http:
            self.post("/api/v1/leave")
        else:
            self.signal(signal.SIGTERM)

    def has_exited(self, now):
        if self.ended is None and self.process.poll() is not None:
            self.ended = now
        return self.ended is not None

    def request(self, method, path, limit_s):
        host, port = self.peer.http.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=limit_s)
        try:
            body = "{}" if method == "POST" else None
            headers = {}
            if method == "POST":  # not from the peer's machine if the peer has a network namespace
                headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
            return json.loads(text) if answer.status < 300 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    def post(self, path):
        return self.request("POST", path, ANSWER_S)

    def ask(self):
        """Its status and members; thread-safe. None if it does not answer."""
        status = self.request("GET", "/api/v1/status", ANSWER_S)
        members = self.request("GET", "/api/v1/members", ANSWER_S) if status else None
        return (status, members["members"]) if members else None

    def measure(self, now):
        """Records the memory and open files of the process."""
        try:
            with open(f"/proc/{self.process.pid}/statm") as file:
                resident = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
            files = len(os.listdir(f"/proc/{self.process.pid}/fd"))
        except (OSError, IndexError):
            return
        self.resident.append((now, resident))
        self.files_max = max(self.files_max, files)

    def last_words(self):
        return last_line(self.log)


class Peer:
    def __init__(self, number, place, settings):
        self.number = number
        self.name = f"p{number}"
        self.place = place
        self.settings = settings
        self.address, self.http = place.address(number), place.http(number)
        self.lives = []

    @property
    def life(self):
        return self.lives[-1]

    @property
    def checkpoint(self):
        return os.path.join(self.settings.out, f"{self.name}.safetensors")

    def token_file(self):
        path = os.path.join(self.settings.out, f"{self.name}.token")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(TOKEN)
        return path

    def start(self, join=None):
        """Joins through the given peer; without one, starts the run or rejoins it by the state folder."""
        s = self.settings
        command = self.place.prefix(self.number) + [
            s.starling, "peer", "--name", self.name, "--listen", self.address, "--http", self.http,
            "--token-file", self.token_file(),
            "--state", os.path.join(s.out, f"{self.name}.state"), "--out", s.out, "--data", s.data,
            "--model", s.model, "--pace", s.pace]
        if join is None:
            command += ["--seed", str(s.seed), "--rule", s.rule, "--batch-size", str(s.batch_size), "--every", s.every]
        else:
            command += ["--join", join.address]
        self.lives.append(Life(self, command, os.path.join(s.out, f"{self.name}.log")))


class Liar:
    """The process of a hostile member (liar.py). Its place follows those of the peers."""

    def __init__(self, number, place, settings):
        self.name = f"{LIAR_NAME}{number}"
        self.number = settings.peers + number
        self.place, self.settings = place, settings
        self.log = os.path.join(settings.out, f"{self.name}.log")
        self.process = None

    def start(self, addresses):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "liar.py")
        command = self.place.prefix(self.number) + [
            "/usr/bin/python3", program, "--name", self.name, "--listen", self.place.address(self.number),
            "--peers", ",".join(addresses), "--seed", str(self.settings.seed + self.number)]
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True, preexec_fn=places.die_with_parent)

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def end(self):
        if not self.running:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def last_words(self):
        return last_line(self.log)
