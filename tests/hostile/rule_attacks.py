"""Attacks of members that take part: on barriers, weights, the bound of parameters, and the count of samples. Each is a function of a
stage.Run; the docstring is its name."""

import array
import contextlib

import client
import frames
import messages
from data_attacks import Exchanger, parameters_of
from identity import changed
from lies import gossip
from member import Listener, Member
from peers import Peer
from suite import require, until


def _scaled(values, factor):
    return array.array("f", (factor * value for value in array.array("f", values))).tobytes()


def growing_lies(run):
    """19: fresh ids with ever larger parameters do not raise what a peer accepts"""
    first = run.peers[0]
    before = first.status()["loss"]
    values, mixed, ids = None, 0, 0
    while run.goes_on(0.02):
        ids += 1
        liar = run.member("grower", ids, peers=[first])
        values = values or parameters_of(liar, first)
        for _ in range(2):
            with contextlib.suppress(OSError), contextlib.closing(Exchanger(liar, first, _scaled(values, 64 * 4 ** (ids % 20)))) as exchanger:
                exchanger.exchange()
                mixed += exchanger.mixed
        liar.close()
    after = first.status()["loss"]
    run.note(f"{ids} ids, {mixed} mixed, loss {before:.3f} -> {after:.3f}")
    require(mixed == 0 and after < 1.5 * before, run.notes[-1])


def exaggerated_samples(run):
    """5: a member that exchanges counts at most ten times as much as the fastest peer"""
    first = run.peers[0]
    liar = run.member("boaster", phase=messages.TRAINING)
    for peer in run.peers:
        with contextlib.closing(Exchanger(liar, peer, parameters_of(liar, peer))) as exchanger:
            exchanger.exchange()
            require(exchanger.mixed == 1, f"{peer.name} refuses an honest exchange")
    before = {peer.name: peer.status() for peer in run.peers}
    while run.goes_on(0.05):
        for power in range(10, 40):
            for message in gossip([changed(liar.record, samples=2**power)]):
                liar.send(message)
    after = {peer.name: peer.status() for peer in run.peers}
    speed = max(status["samples_per_second"] for status in after.values())
    seconds = first.status()["uptime_seconds"] - before["p0"]["uptime_seconds"]
    grown = max(after[name]["swarm_samples"] - before[name]["swarm_samples"] for name in after)
    run.note(f"{grown} samples in {seconds:.1f} s, the fastest peer makes {speed:.0f} a second")
    require(grown < (3 + 4 * 10) * max(speed, 1000) * (seconds + 10) + 2**17, run.notes[-1])


def doubtful_end(program, folder):
    """5: a run that ends by the samples of a late and boastful member has exit code 3"""
    peer = Peer(program, folder, "brief", "--model", "softmax", "--data", "glyphs", "--epochs", "16", "--pace", "2ms")
    try:
        peer.trains()
        until(lambda: peer.status()["samples"] > 240_000, "a quarter of the run is not over")
        with contextlib.closing(Member(client.Swarm(), [peer.address], "late", phase=messages.TRAINING)) as liar:
            with contextlib.closing(Exchanger(liar, peer, parameters_of(liar, peer))) as exchanger:
                exchanger.exchange()
                require(exchanger.mixed == 1, "an honest exchange is refused")
            def boast():
                with contextlib.suppress(OSError):
                    for power in range(10, 40):  # what is impossible does not count
                        for message in gossip([changed(liar.record, samples=2**power)]):
                            liar.send(message)
                return peer.process.poll() is not None
            until(boast, "the run does not end")
        require(peer.process.returncode == 3, f"exit code {peer.process.returncode}: {peer.log()[-1000:]}")
        require(b"by the samples that one member claims" in peer.log(), f"{peer.log()[-1000:]}")
    finally:
        peer.end()


def hit_and_run(run):
    """11: ids that each shake hands once slow no exchanges down"""
    ids = 0
    while run.goes_on():
        ids += 1
        who = run.swarm.identity("runner", ids)
        listens = f"127.88.{ids // 250 % 250}.{ids % 250 + 1}:9"
        host, port = client.parse_address(listens)
        record = who.sign_member(messages.make("Member", name=f"runner-{ids}", host=host, port=port, incarnation=1, phase=messages.TRAINING,
                                               samples=0, steps=0))
        for peer in run.peers:
            with contextlib.suppress(OSError), contextlib.closing(client.connect(run.swarm, peer.address, who, listens=listens)) as link:
                link.send(messages.make("Join", member=record))
                link.expect("Welcome")
    run.note(f"{ids} ids")


def silent_neighbor(run):
    """20: under d-psgd a member that trains and makes no exchanges stops nobody for long"""
    highest = max(int(peer.status()["id"], 16) for peer in run.peers)
    words = next(("mute", n) for n in range(10**6) if run.swarm.identity("mute", n).id > highest)  # peers begin the exchanges with it
    who, offers = run.swarm.identity(*words), []

    def serve(plain):
        # A peer that hears of the member first dials it, and would give up the link that the member dials.
        connection, _ = client.admit(run.swarm, plain, who, listener.address, "mute", purpose=messages.PURPOSE_BULK)
        while True:
            if messages.is_a(connection.receive(), "ExchangeOffer"):
                offers.append(1)

    listener = run.closing(Listener(serve))
    run.member(*words, phase=messages.TRAINING, listens=listener.address)
    run.wait()
    require(offers, "nobody offers an exchange")
    require(any("does not wait for it" in peer.log().decode() for peer in run.peers), "nobody names the silent member")
    run.note(f"{len(offers)} offers without an answer")


def heavy_parcels(run):
    """21: under push-sum no parcel weighs more than half of the members, and a sink stops no mixing"""
    first = run.peers[0]
    liar = run.member("heavy", peers=[first])
    values = parameters_of(liar, first)
    with contextlib.closing(Exchanger(liar, first, _scaled(values, -1), weight=1024.0)) as exchanger:
        exchanger.exchange()
        require(exchanger.mixed == 0, "a parcel of weight 1024 is taken")
    run.wait()
