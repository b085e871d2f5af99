"""Attacks with connections: many, silent, garbled, in another's name, and slow HTTP clients. Each is a function of a stage.Run; the
docstring is its name."""

import contextlib
import os
import time

import client
import frames
import messages
from identity import changed
from member import fake
from peers import get, until
from suite import require

RENEWAL = 2.4  # seconds; peers allow 3 for a handshake


def silent_crowd(run, each=300):
    """3: silent connections do not keep a joiner out"""
    crowd = contextlib.ExitStack()
    try:
        while run.goes_on():
            crowd.close()
            for n in range(each):
                for peer in run.peers:
                    source = "127.0.0.1" if n % 2 else f"127.0.1.{n % 20 + 1}"
                    with contextlib.suppress(OSError):
                        crowd.callback(client.dial(peer.address, source).close)
            renewal = time.monotonic() + RENEWAL
            while time.monotonic() < renewal and run.goes_on(0.05):
                pass
    finally:
        crowd.close()


def unresolved_names(run):
    """4: members whose names do not resolve do not keep a joiner out"""
    liar = run.member("cartographer")
    lost = [fake(run.swarm, "lost", n, host=f"no-such-host-{n}.example") for n in range(300)]
    message = messages.make("Gossip", members=lost, progress=[], vitals=[], replyWanted=False)
    while run.goes_on(0.5):
        liar.send(message)


def garbage(run):
    """13: connections with garbage do not fill the log"""
    future = frames.control(messages.encode(client.hello_of(run.swarm, run.swarm.identity("g"), "127.0.0.1:9", "g", 0)), version=77)
    texts = [b"GET / HTTP/1.0\r\n\r\n", bytes(64), b"\x16\x03\x01\x02\x00\x01" + bytes(64), future, b"STRL" + b"\xff" * 20, b"\x00"]
    sent, before = 0, sum(_refused(peer) for peer in run.peers)
    while run.goes_on():
        for peer in run.peers:
            with contextlib.suppress(OSError), client.dial(peer.address, f"127.0.2.{sent % 250 + 1}") as plain:
                plain.sendall(texts[sent % len(texts)])
                sent += 1
    counted = lambda: sum(_refused(peer) for peer in run.peers) - before
    until(lambda: counted() > 0.5 * sent, lambda: f"{sent} connections with garbage, {counted()} counted")
    run.note(f"{sent} connections")


def _refused(peer):
    return sum(peer.status()["connections_refused"].values())


def stolen_ids(run):
    """7: nobody connects in another's name; unusable values quarantine only their sender"""
    first = run.peers[0]
    thief = run.member("thief", peers=run.peers[:2])
    victim = thief.named("p1")
    before = _false_identities(first)

    def steal(hello):
        hello.id, hello.name = victim.id, victim.name

    def steal_key(hello):
        steal(hello)
        hello.key = victim.key
    run.begun.set()
    for change in (steal, steal_key):
        for purpose in (messages.PURPOSE_CONTROL, messages.PURPOSE_BULK):
            _is_refused(run, first, thief.who, purpose, change)
    until(lambda: _false_identities(first) >= before + 4, lambda: f"{_false_identities(first) - before} false identities counted, of 4")
    _poison(thief, first)
    until(lambda: first.member(thief.name)["state"] == "quarantined", "the sender of unusable values is not quarantined")
    run.wait()
    states = [first.member(peer.name)["state"] for peer in run.peers]
    require(states == ["alive"] * 3, f"the peers are {states}")


def _false_identities(peer):
    text = get(peer.http, "/metrics")[2].decode()
    line = next(line for line in text.splitlines() if line.startswith('starling_connections_refused_total{reason="false identity"}'))
    return float(line.split()[-1])


def _is_refused(run, peer, who, purpose, change):
    """A dialer with another's id gets a Refusal: at once, or for its Proof."""
    try:
        connection = client.connect(run.swarm, peer.address, who, purpose=purpose, change=change)
    except client.Refused as refusal:
        require(refusal.reason == messages.FALSE_IDENTITY, f"another reason: {refusal}")
        return
    with contextlib.closing(connection):
        try:
            connection.expect("Ack")
            raise AssertionError("a false identity is accepted")
        except client.Refused as refusal:
            require(refusal.reason == messages.FALSE_IDENTITY, f"another reason: {refusal}")


def _poison(member, peer):
    """Chunks of NaN in three exchanges, each of which ends its connection."""
    floats = member.manifest.arenaFloats
    for exchange in range(1, 4):
        with contextlib.closing(member.bulk(peer.address)) as bulk:
            bulk.send(member.offer(exchange))
            bulk.send_bytes(frames.chunk(exchange, 0, floats, frames.OFFER, b"\0\0\xc0\x7f" * floats))
            with contextlib.suppress(OSError):
                answer = bulk.receive()
                require(not isinstance(answer, tuple), f"NaN is answered: {answer}")


def odd_names(run):
    """18: names with control characters reach no log, list or page"""
    bad = ["a\u009bb", "a\u202eb", "a\u2028b", b"a\x9bb", "a\x1bb", "a b"]
    for n, name in enumerate(bad):
        for peer in run.peers:
            with contextlib.suppress(OSError):
                client.connect(run.swarm, peer.address, run.swarm.identity("odd", n), change=lambda hello: setattr(hello, "name", name)).close()
                raise AssertionError(f"the name {name!r} is accepted")
    liar = run.member("namer")
    run.begun.set()
    for n, name in enumerate(bad):
        record = run.swarm.identity("odd", n).sign_member(changed(fake(run.swarm, n), name=name))
        with contextlib.suppress(OSError):
            liar.send(messages.make("Gossip", members=[record], progress=[], vitals=[], replyWanted=False))
    run.wait()
    for peer in run.peers:
        text = peer.log() + get(peer.http, "/api/v1/members")[2]
        require(not any(mark in text for mark in ("\u009b".encode(), "\u202e".encode(), "\u2028".encode(), b"a\x9bb", b"\x1b")), "a control character")


# ---- HTTP ----

def endless_heads(run):
    """9: endless heads of requests cost no memory"""
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    line, sent = b"X-A: " + b"a" * 4000 + b"\r\n", 0
    while run.goes_on(0.01):
        for peer in run.peers:
            for piece in (line, b"a" * 65536):
                with contextlib.suppress(OSError), client.dial(peer.http) as plain:
                    plain.sendall(head)
                    for _ in range(5000):
                        plain.sendall(piece)
                        sent += len(piece)
    run.note(f"{sent / 1e6:.0f} MB")


def slow_clients(run, count=40):
    """9: slow clients do not delay /livez"""
    sources = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    with contextlib.ExitStack() as crowd:
        clients = [crowd.enter_context(client.dial(peer.http, sources[n % 3])) for n in range(count) for peer in run.peers]
        while run.goes_on(0.3):
            for plain in clients:
                with contextlib.suppress(OSError):
                    plain.sendall(b"GET / HTTP/1.1\r\n" if not plain.gettimeout() else b"X-A: a\r\n")


def unread_streams(run):
    """9: unread streams do not keep the owner from the page"""
    with contextlib.ExitStack() as crowd:
        for n in range(32):
            for peer in run.peers:
                plain = crowd.enter_context(client.dial(peer.http, f"127.0.3.{n % 3 + 1}"))
                with contextlib.suppress(OSError):
                    plain.sendall(b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        run.wait()
        for peer in run.peers:
            status, headers, _ = get(peer.http, "/")
            require(status == 200, f"the page: {status}")
            require(headers.get("X-Frame-Options") == "DENY", "the page can be framed")
            with contextlib.closing(client.dial(peer.http)) as plain:  # a stream of the owner
                plain.sendall(b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                require(b" 200 " in plain.recv(64), "the owner gets no stream")


def token_guesses(run):
    """18: guesses of the token are slowed down and do not fill the log"""
    token = f"{run.stage.folder}/token"
    with open(os.open(token, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        file.write("this-is-the-token-0123456789")
    guarded = run.stage.start(f"guarded-{run.stage.attempts}", "--join", run.peers[0].address, "--token-file", token, "--token-always")
    try:
        guarded.trains()
        answers, begun = {}, time.monotonic()
        while run.goes_on(0.002):
            status = _command(guarded, "a-wrong-token-0000000000")
            answers[status] = answers.get(status, 0) + 1
        require(set(answers) == {401, 429} and answers[401] <= 4 * (time.monotonic() - begun + 3), f"answers: {answers}")
        require(guarded.log().count(b"token") <= 3, "each guess is logged")
        run.note(f"answers: {answers}")
        until(lambda: _command(guarded, "this-is-the-token-0123456789") == 200, "the token is not accepted")  # within a second
    finally:
        guarded.leave()


def _command(peer, token):
    return get(peer.http, "/api/v1/log-level", method="POST", body='{"level": "info"}',
               headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"})[0]
