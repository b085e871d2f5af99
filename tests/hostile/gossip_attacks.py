"""Attacks with control messages: lies about members. Each is a function of a stage.Run; the docstring is its name."""

import glob
import re
import time

import frames
import lies
import messages
from identity import changed
from lies import HIGHEST, TREASURE, gossip
from member import Listener, fake
from peers import get, until
from suite import require


def encoded(told):
    return b"".join(frames.control(messages.encode(message)) for message in told)


def impossible_samples(run):
    """5: samples that nobody can have consumed do not end the run"""
    liar = run.member("liar")
    known = [liar.named(peer.name) for peer in run.peers]
    told = encoded(lies.rich([*known, liar.record], [12345]) + gossip([fake(run.swarm, "rich", samples=TREASURE)]))
    while run.goes_on(0.05):
        liar.send_bytes(told)
    total = max(peer.status()["swarm_samples"] for peer in run.peers)
    require(total < TREASURE / 1000, f"the swarm believes in {total} samples")
    run.note(f"the swarm counts {total} samples")


def forged_departures(run):
    """6: what others say does not make a member leave or fail"""
    liar = run.member("slanderer")
    known = [liar.named(peer.name) for peer in run.peers]
    later = known + [changed(member, incarnation=HIGHEST) for member in known]
    told = encoded([message for state in (messages.SUSPECT, messages.FAILED, messages.LEFT)
                    for message in lies.accused(later, state, liar.who.id)] + lies.left(known))
    while run.goes_on(0.1):
        liar.send_bytes(told)


def foreign_records(run):
    """14: address, phase and topology of others cannot be forged, and no revision shuts out the next"""
    trap = run.closing(Listener())
    liar = run.member("forger")
    port = int(trap.address.rsplit(":", 1)[1])
    known = [liar.named(peer.name) for peer in run.peers]
    told = encoded(gossip([changed(member, port=port, incarnation=incarnation, phase=phase) for member in known
                           for incarnation in (member.incarnation + 7, HIGHEST) for phase in (messages.TRAINING, messages.FINISHED)]))
    while run.goes_on(0.2):
        liar.send_bytes(told)
        for revision in (2**53, 2**53 - 1, 2**32):
            liar.send(liar.who.rewire(revision, "ring"))
    first = run.peers[0]
    for peer in run.peers:
        member = first.member(peer.name)
        require(member["address"] == peer.address and member["phase"] == "training", f"p0 believes {member}")
    require(trap.accepted == 0, f"{trap.accepted} connections to the forged address")
    status, _, body = get(first.http, "/api/v1/topology", method="POST", body='{"topology": "exponential"}', headers={"Content-Type": "application/json"})
    require(status == 200, f"the topology cannot be set any more: {status} {body}")


def forged_floods(run):
    """14: floods of forged records do not keep a peer busy"""
    liar = run.member("flooder")
    known = [liar.named(peer.name) for peer in run.peers]
    flood = encoded(gossip([changed(known[n % 3], incarnation=HIGHEST - n) for n in range(2000)]))
    while run.goes_on(0.5):
        liar.send_bytes(flood)


def pinned_vitals(run):
    """18: a sequence of 2^32-1 does not pin the figures of another member"""
    liar = run.member("doctor")
    victim = liar.named("p1")
    told = encoded(lies.figures([victim]))
    while run.goes_on(0.1):
        liar.send_bytes(told)
    for peer in (run.peers[0], run.peers[2]):
        loss = peer.member("p1")["loss"]
        require(loss is not None and loss < 70, f"{peer.name} shows a loss of {loss} for p1")


def relayed_pings(run):
    """10: requests for pings cost no memory and reach no third party"""
    third, swallowing = run.closing(Listener()), "127.9.9.9"
    liar = run.member("pinger")
    victim = liar.named("p1")
    port = int(third.address.rsplit(":", 1)[1])
    wrong = [lies.ping_request(n, target, host, port + n % 7 * (host == swallowing)) for n in range(1000) for target, host in ((victim.id, "127.0.0.1"), (n + 1, "127.0.0.1"), (n + 1, swallowing))]
    right = [lies.ping_request(n, victim.id, victim.host, victim.port) for n in range(200)]
    flood = encoded(wrong + right)
    sent, per_flood, most = 0, len(wrong) + len(right), 150000 if run.stage.thorough else 30000
    while run.goes_on(0.05) and sent < most:
        liar.send_bytes(flood, run.peers[0].address)
        sent += per_flood
    run.wait()
    require(third.accepted == 0, f"{third.accepted} connections to a third party")
    run.note(f"{sent} requests")


def fake_members(run, count=3000):
    """11: members that do not exist cost neither exchanges nor connections to a third party"""
    third = run.closing(Listener())
    port = int(third.address.rsplit(":", 1)[1])
    liar = run.member("crowd")
    crowd = [fake(run.swarm, n, port=port if n % 3 else 9 + n % 900) for n in range(count)]
    flood = encoded(gossip(crowd))
    begun = time.monotonic()
    while run.goes_on(0.5):
        liar.send_bytes(flood)
    rate = third.accepted / (time.monotonic() - begun)
    require(rate < 10, f"{rate:.0f} connections per second to a third party")
    known = run.peers[0].status()["members_known"]
    require(known < 100, f"p0 knows {known} members")
    run.note(f"{rate:.1f} connections/s to a third party")


def one_address_twice(run):
    """2: two peers that advertise one address both stay, and both logs tell"""
    run.begun.set()
    run.tolerate("p1")  # until it is heard again
    first, honest = run.peers[0], run.peers[1]
    twin = run.stage.start("twin", "--join", first.address, "--advertise", honest.address)
    try:
        twin.trains()
        said = b"two peers advertise the same address"  # once a minute: a twin in a repeated test may not be told
        until(lambda: said in honest.log() and (said in twin.log() or run.stage.attempts > 1), "the logs do not tell")
        states = lambda: [first.member(name)["state"] for name in ("p1", "twin")]
        until(lambda: states() == ["alive", "alive"], lambda: f"p1 and its twin are {states()}")
        run.wait()
        require(states() == ["alive", "alive"], f"p1 and its twin are {states()}")
    finally:
        twin.leave()
    before = honest.status()["exchanges"]["completed"]
    until(lambda: first.member("p1")["state"] == "alive" and honest.status()["exchanges"]["completed"] > before + 5, "p1 is shut out")


def spoiled_files(run):
    """1: hosts and names that cannot be read back spoil neither caches nor checkpoints"""
    run.begun.set()
    folder = f"{run.stage.folder}/kept-{run.stage.attempts}"
    name = f"kept-{run.stage.attempts}"
    flags = ["--join", run.peers[0].address, "--state", f"{folder}/state", "--checkpoints", folder, "--checkpoint-every", "300ms", "--resume", folder]
    kept = run.stage.start(name, *flags)
    try:
        kept.trains()
        _tell_bad_names(run, [*run.peers, kept])
        steps = kept.status()["steps"]
        until(lambda: kept.status()["steps"] > steps + 40, "it does not train")
        until(lambda: _newest_steps(folder) > steps, "there is no new checkpoint")
        kept.end()
        again = run.stage.start(name, *flags)
        try:
            again.trains()
            require(again.status()["steps"] >= steps, f"the restarted peer begins anew: {again.status()['steps']} steps, {steps} before")
            require(not _damaged(folder) and b"damaged" not in again.log(), "a file is damaged")
        finally:
            again.leave()
    finally:
        kept.end()


def _tell_bad_names(run, peers):
    for n, bad in enumerate([{"host": "a b"}, {"host": "[x"}, {"host": "a]"}, {"host": "h\u0085"}, {"name": b"\xff" * 64}, {"name": "a\u202eb"},
                             {"port": 0}, {"host": "x" * 300}, {"name": "n" * 65}]):
        liar = run.member("scribbler", n, peers=peers)
        record = changed(fake(run.swarm, "bad", n), **bad)
        liar.send_bytes(encoded(gossip([run.swarm.identity("fake", "bad", n).sign_member(record)])))
    # The worst that the wire accepts, about a member that answers.
    run.member("odd", peers=peers, name='"\\{}<>&%s\'\u20ac\u20ac')


def _newest_steps(folder):
    return max((int(re.search(r"\.(\d+)\.safetensors$", path)[1]) for path in glob.glob(f"{folder}/*.safetensors")), default=0)


def _damaged(folder):
    return glob.glob(f"{folder}/**/*.damaged", recursive=True)
