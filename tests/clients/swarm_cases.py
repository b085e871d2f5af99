"""What a trainer is told of its swarm: waits that end, partners, events, members."""
import array
import os
import signal
import threading
import time

import daemon
import starling
import suite
from stage import python, raises, steps_until
from suite import require

SOON = 0.3  # seconds: the bound of waits that are to take too long


def floats(*values):
    return array.array("f", values)


def told(stage, **more):
    """A trainer, and the list of its events."""
    events = []
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket, on_event=events.append, **more))
    return trainer, events


class Silent(daemon.Daemon):
    """Never says `start`."""

    def _begin(self):
        for line in self.before_start:
            self.say(line)
        self.starts += 1


def late(stage, words, **more):
    """Requires an Error with these words, not before the bound."""
    began = time.monotonic()
    raises(starling.Error, words, lambda: starling.attach({"w": floats(1)}, stage.socket, wait=SOON, **more))
    require(time.monotonic() - began >= SOON, "it came too early")


def a_beginning_that_takes_too_long_says_what_it_waits_for(stage):
    for lines, words in ((["say no member has parameters to copy yet"],
                          "training could not begin within 0.3 s, the bound that wait= sets: no member has parameters to copy"),
                         ([], "sets: it gives no reason")):
        silent = Silent(stage.socket, before_start=lines)
        stage.daemons.append(silent)
        late(stage, words)
        silent.until(lambda: silent.ends == 1, "the trainer is gone")
        silent.die()


def a_first_step_that_is_not_allowed_ends_with_the_reason(stage):
    peer = stage.daemon(ahead=0)
    peer.before_start = []
    offer = peer._offer

    def paused():
        offer()
        peer.set(daemon.WAITS, 1)
    peer._offer = paused
    late(stage, "the peer allowed no further step within 0.3 s, the bound that wait= sets: its owner paused it")


def a_step_that_waits_too_long_is_an_error_each_time(stage):
    peer = stage.daemon(every=1000, ahead=1)
    x = {"w": floats(1)}
    trainer = stage.keep(starling.attach(x, stage.socket, wait=SOON))
    for reason, words in ((2, "the rule waits for other peers"), (3, "the replica was lost"), (0, "it gives no reason")):
        peer.set(daemon.WAITS, reason)
        raises(starling.Error, words, trainer.step)
    peer.allow(daemon.EVER)
    x["w"][0] += 4
    trainer.step(1)
    trainer.close()
    require(peer.get(daemon.STEPS) == 4 and peer.value("w") == [5], "no step is lost, and it leaves as usual")


def without_a_bound_a_step_waits_for_its_peer(stage):
    peer = stage.daemon(every=1000, ahead=1)
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket, wait=None))
    peer.set(daemon.WAITS, 1)
    stage.messages.words, stage.messages.then = "its owner paused it", lambda: peer.allow(daemon.EVER)
    trainer.step(1)
    require(peer.get(daemon.STEPS) == 1, "the step is made")


def a_trainer_waits_for_its_partners(stage):
    peer = stage.daemon()
    late(stage, "2 partners did not come within 0.3 s, the bound that wait= sets: 0 live", partners=2)
    begun = []
    waiter = threading.Thread(daemon=True, target=lambda: begun.append(
        starling.attach({"w": floats(1)}, stage.socket, partners=2, wait=suite.HANG)))
    waiter.start()
    peer.until(lambda: peer.starts == 2, "it is attached")
    peer.set(daemon.MEMBERS, 2)
    require(not begun, "one partner is too few")
    peer.set(daemon.MEMBERS, 3)
    waiter.join(suite.HANG)
    require(begun and begun[0].progress.members == 3, "it begins with two")
    stage.keep(begun[0])


def a_run_that_ends_meanwhile_ends_the_wait_for_partners(stage):
    peer = stage.daemon()
    ends = []

    def attach():
        try:
            ends.append(stage.keep(starling.attach({"w": floats(1)}, stage.socket, partners=1, wait=suite.HANG)).progress.done)
        except starling.Error as error:  # the end arrived with the beginning
            ends.append("the peer is finished" in str(error))
    waiter = threading.Thread(daemon=True, target=attach)
    waiter.start()
    peer.until(lambda: peer.starts == 1, "it is attached")
    peer.over("the peer is finished")
    waiter.join(suite.HANG)
    require(ends == [True], f"it waits on, or ends otherwise: {ends}")


def waits_partners_targets_and_functions_that_are_none_are_errors(stage):
    peer = stage.daemon()
    for words, more in (("wait must be a number of seconds above 0, or None, got 0", {"wait": 0}),
                        ("wait must be", {"wait": "5s"}), ("partners must be", {"partners": -1}),
                        ("partners must be", {"partners": 1.5}), ("on_event must be a function", {"on_event": 3}),
                        ("target must be an accuracy from 0 to 1, got 97", {"target": 97, "on_event": print}),
                        ("target needs on_event", {"target": 0.9})):
        raises(starling.Error, words, lambda more=more: starling.attach({"w": floats(1)}, stage.socket, **more))
    require(not peer.tensors, "none of them reached the peer")


def events_are_told_between_steps_in_the_thread_of_the_trainer(stage):
    peer = stage.daemon()
    threads = set()
    trainer, events = told(stage)
    trainer.on_event = lambda event: (threads.add(threading.get_ident()), events.append(event))
    peer.until(lambda: "events" in peer.lines, "it asks for events")
    for line in ("members 1", "joined ann", "joined bob", "lost ann failed", "mixed bob", "weather fine", "lost bob left",
                 "missed 7"):
        peer.say("event " + line)
    require(not events, "not before a step")
    steps_until(trainer, lambda: len(events) == 6, "six events")
    require(events == [("joined", "ann", ""), ("joined", "bob", ""), ("lost", "ann", "failed"), ("mixed", "bob", ""),
                       ("lost", "bob", "left"), ("missed", None, "7")], f"{events}")
    require(threads == {threading.get_ident()} and isinstance(events[0], starling.Event), f"{threads}")


def the_exception_of_a_function_for_events_is_the_trainers(stage):
    peer = stage.daemon()
    trainer, events = told(stage)

    def fails(event):
        events.append(event)
        raise ZeroDivisionError(event.name)
    trainer.on_event = fails
    peer.until(lambda: "events" in peer.lines, "it asks for events")
    peer.say("event mixed ann")
    peer.say("event mixed bob")
    raises(ZeroDivisionError, "ann", lambda: steps_until(trainer, lambda: False, "an event"))
    raises(ZeroDivisionError, "bob", lambda: steps_until(trainer, lambda: False, "an event"))
    steps = peer.get(daemon.STEPS)
    trainer.step(1)
    require(len(events) == 2 and peer.get(daemon.STEPS) == steps + 1, "once each, and no step is lost")


def a_function_for_events_may_end_the_training(stage):
    peer = stage.daemon()
    trainer, events = told(stage)
    trainer.on_event = lambda event: (events.append(event), trainer.close())
    peer.until(lambda: "events" in peer.lines, "it asks for events")
    peer.say("event lost ann failed")
    peer.say("event mixed bob")
    steps_until(trainer, lambda: "bye" in peer.lines, "it leaves")
    require(len(events) == 1 and trainer.progress.done, f"{events}")


def the_end_of_the_run_is_an_event(stage):
    peer = stage.daemon()
    trainer, events = told(stage)
    peer.over("the peer is finished")
    steps_until(trainer, lambda: events, "the end is told")
    trainer.step(1)
    require(events == [("over", None, "the peer is finished")], f"{events}")


def an_accuracy_that_reaches_the_target_is_an_event_once(stage):
    stage.daemon()
    trainer, events = told(stage, target=0.9)
    trainer.report(accuracy=0.89, loss=0.1)
    require(not events, "too early")
    trainer.report(accuracy=0.9)
    trainer.report(accuracy=0.95)
    require(events == [("target", None, "0.9")], f"{events}")


def a_peer_that_returns_tells_only_what_has_changed(stage):
    peer = stage.daemon()
    trainer, events = told(stage)
    peer.until(lambda: "events" in peer.lines, "it asks for events")
    for line in "members 2", "joined ann", "joined bob":
        peer.say("event " + line)
    steps_until(trainer, lambda: len(events) == 2, "both are told")
    peer.die()
    steps_until(trainer, lambda: stage.messages.count("the peer has ended"), "the death is noticed")
    peer = stage.daemon()
    steps_until(trainer, lambda: "events" in peer.lines, "it asks again")
    for line in "members 2", "joined carl", "joined bob", "mixed carl":
        peer.say("event " + line)
    steps_until(trainer, lambda: len(events) == 5, "what has changed is told")
    require(events[2:] == [("joined", "carl", ""), ("lost", "ann", "failed"), ("mixed", "carl", "")], f"{events}")


def trainers_that_want_no_events_are_sent_none(stage):
    peer = stage.daemon()
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket))
    peer.say("event mixed ann")
    for _ in range(10):
        trainer.step(1)
    trainer.close()
    require("events" not in peer.lines, f"{peer.lines}")


def members_are_asked_for_between_steps(stage):
    peer = stage.daemon()
    trainer, events = told(stage)
    peer.members = [{"name": "ann", "condition": "training", "steps": 3}, {"name": "me", "this_peer": True, "loss": None}]
    peer.say("event mixed ann")
    require(trainer.members() == peer.members, f"{trainer.members()}")
    require(not events, "events wait for the step")
    trainer.step(1)
    require(events == [("mixed", "ann", "")], f"{events}")
    peer.members = None
    trainer._wait = SOON
    raises(starling.Error, "the peer did not name the members within 0.3 s", trainer.members)
    peer.say("member {nonsense")
    require(trainer.members() == [] and stage.messages.count("the peer has ended") == 1, "a malformed line ends the connection")
    require(trainer.members() == [], "without a peer")


def an_interrupt_ends_every_wait(stage):
    stage.daemons.append(Silent(stage.socket, before_start=["say nobody is there"]))
    stage.messages.words, stage.messages.then = "nobody is there", lambda: os.kill(os.getpid(), signal.SIGINT)
    raises(KeyboardInterrupt, "", lambda: starling.attach({"w": floats(1)}, stage.socket))


def a_peer_that_does_not_accept_in_time_is_an_error_with_its_last_line(stage):
    program = os.path.join(stage.folder, "starling")
    with open(program, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho 'info: reads the data'\nexec sleep 1000\n")
    os.chmod(program, 0o700)
    done = python("import array, starling",
                  f"starling.gossip({{'w': array.array('f', [1])}}, listen='127.0.0.1:0', program={program!r}, wait=1)")
    require(done.stderr.strip().endswith("training could not begin within 1 s, the bound that wait= sets: info: reads the "
                                         "data"), done.stderr)


CASES = [
    a_beginning_that_takes_too_long_says_what_it_waits_for, a_first_step_that_is_not_allowed_ends_with_the_reason,
    a_step_that_waits_too_long_is_an_error_each_time, without_a_bound_a_step_waits_for_its_peer,
    a_trainer_waits_for_its_partners, a_run_that_ends_meanwhile_ends_the_wait_for_partners,
    waits_partners_targets_and_functions_that_are_none_are_errors,
    events_are_told_between_steps_in_the_thread_of_the_trainer, the_exception_of_a_function_for_events_is_the_trainers,
    a_function_for_events_may_end_the_training, the_end_of_the_run_is_an_event,
    an_accuracy_that_reaches_the_target_is_an_event_once, a_peer_that_returns_tells_only_what_has_changed,
    trainers_that_want_no_events_are_sent_none, members_are_asked_for_between_steps, an_interrupt_ends_every_wait,
    a_peer_that_does_not_accept_in_time_is_an_error_with_its_last_line,
]
