"""What a hostile member can say about others and about itself: the messages of each lie, for the attacks here and for the liars of
scripts/chaos. Each function returns a list. docs/FAULTS.md lists them beside those of virtual worlds (lab/world/liar.cc)."""

import messages
from identity import changed

HIGHEST = 2**32 - 1
TREASURE = 10**15  # samples


def gossip(members=(), progress=(), vitals=()):
    return [messages.make("Gossip", members=list(members), progress=list(progress), vitals=list(vitals), replyWanted=False)]


def left(members):
    """These records, as they are, are of members that have left."""
    gone = [changed(member, liveness=messages.LEFT) for member in members]
    return [messages.make("Leave", member=member) for member in gone] + gossip(gone)


def accused(members, state, accuser):
    return gossip(changed(member, liveness=state, accuser=accuser) for member in members)


def rich(members, others=()):
    """The members consumed samples that nobody can have; `others` are ids."""
    ids = [member.id for member in members] + list(others)
    return gossip([changed(member, samples=TREASURE) for member in members],
                  [messages.make("Progress", id=id, samples=TREASURE) for id in ids])


def figures(members):
    """The last possible figures of these members, which no true ones could follow."""
    wrong = {"partner": 0, "sequence": HIGHEST, "samplesPerSecond": 1.0, "loss": 77.0, "distance": 0.0, "staleness": 0.0, "flags": 1}
    return gossip(vitals=[messages.make("Vitals", id=member.id, **wrong) for member in members])


def ping_request(sequence, target, host, port):
    return messages.make("PingRequest", sequence=sequence, target=target, host=host, port=port, members=[])
