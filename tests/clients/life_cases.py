"""Peers that refuse, die and return, and peers that the client starts itself."""
import array
import os
import signal
import socket
import struct
import subprocess
import sys
import threading

import daemon
import starling
import starling.attachment
from stage import in_background, raises, steps_until
from starling.daemon import flags_of, listen_for
from suite import require


def floats(*values):
    return array.array("f", values)


def refuses(words, stage, params=None, **more):
    """Requires that attaching fails with these words."""
    raises(starling.Error, words, lambda: starling.attach(params or {"w": floats(1)}, stage.socket, **more))


def nobody_listens(stage):
    refuses("start one with `starling peer --trainer", stage)


def a_refusal_is_an_error_with_the_sentence_of_the_peer(stage):
    stage.daemon(refuses="the run trains lenet, not gpt")
    refuses("the run trains lenet, not gpt", stage)
    stage.daemon(f"{stage.socket}2", refuses="this peer's model differs: tensor 1 is b of 2 there, and a of 2")
    raises(starling.Error, "and a of 2; which parameters require gradients when gossip() begins has to be the same, too",
           lambda: starling.attach({"w": floats(1)}, f"{stage.socket}2"))


def other_major_versions_are_refused_by_both_sides(stage):
    stage.daemon(region_major=2)
    refuses("the peer has version 2.0", stage)
    starling.attachment.MAJOR = 2
    try:
        refuses("the trainer has another version", stage)
    finally:
        starling.attachment.MAJOR = 1


def other_minor_versions_and_unknown_lines_are_accepted(stage):
    peer = stage.daemon(region_minor=9, before_start=["weather fine 20", "unheard-of", "say waits for a partner"])
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket))
    peer.say("tomorrow x y")
    trainer.step(1)
    require(stage.messages.texts == ["starling: waits for a partner"], f"{stage.messages.texts}")


def malformed_regions_are_errors(stage):
    for name, lengths, damage in (("short", 10**6, None), ("magic", 0, (0, b"STARFISH")),
                                  ("outside", 0, (72, b"\xff" * 8)), ("table", 0, (4096, b"nonsense"))):
        peer = stage.daemon(f"{stage.socket}-{name}")
        send_fds = socket.send_fds

        def spoiled(connection, lines, descriptors, lengths=lengths, damage=damage, peer=peer):
            if damage:
                peer.memory[damage[0]:damage[0] + len(damage[1])] = damage[1]
            return send_fds(connection, [f"region {len(peer.memory) + lengths}\n".encode()], descriptors)
        socket.send_fds = spoiled
        try:
            raises(starling.Error, "the peer's", lambda: starling.attach({"w": floats(1)}, peer.path))
        finally:
            socket.send_fds = send_fds


def impossible_parameters_and_arguments_are_errors(stage):
    peer = stage.daemon()
    for words, params, more in (
            ("nothing to train", {"i": array.array("l", [1])}, {}), ("not an array", {"w": "text"}, {}),
            ("1 to 200 bytes without spaces", {"a b": floats(1)}, {}),
            ("must be float32", {"w": [1.0]}, {"mode": "view"}),
            ('"copy" or "view"', {"w": floats(1)}, {"mode": "see"}), ("one word", {"w": floats(1)}, {"data": "a b"})):
        refuses(words, stage, params, **more)
    x = {"w": floats(1)}
    raises(starling.Error, "settings of a peer that runs", lambda: starling.gossip(x, socket=stage.socket, every="1 s"))
    raises(starling.Error, "gossip needs", lambda: starling.gossip(x))
    require(not peer.tensors, "none of them reached the peer")


def training_survives_the_death_of_the_peer(stage):
    for mode in "copy", "view":
        peer = stage.daemon()
        trainer = stage.keep(starling.attach({"w": floats(0, 5)}, stage.socket, mode))

        def work():
            trainer.params["w"][0] += 1
        work()
        trainer.step(1)
        peer.die()
        stage.messages.texts.clear()
        steps_until(trainer, lambda: stage.messages.count("the peer has ended"), "the death is noticed", work)
        for _ in range(100):
            work()
            trainer.step(1)
        made = trainer.params["w"][0]
        require(made > 100 and stage.messages.count("the peer has ended") == 1, "it trains on, and warns once")
        peer = stage.daemon()  # without parameters of its own: it begins the run
        steps_until(trainer, lambda: peer.starts, "it is attached again", work)
        steps_until(trainer, lambda: stage.messages.count("attached to the peer again"), "the start is noticed")
        require(trainer.params["w"][0] >= made, "what was made meanwhile is kept")
        told = [int(word) for word in peer.declaration["made"].split(" ")]
        require(made < told[0] + 1 and told[0] == told[1] == told[2] and len(told) == 4, f"{made} steps: made {told}")
        steps_until(trainer, lambda: peer.get(daemon.STEPS) >= 5, "steps are counted from the start")
        trainer.params["w"][1] = 6
        trainer.close()
        require(peer.value("w")[1] == 6, "and exchanged")
        peer.die()


def a_swarm_that_went_on_has_the_parameters(stage):
    for mode in "copy", "view":
        peer = stage.daemon()
        trainer = stage.keep(starling.attach({"w": floats(1, 2)}, stage.socket, mode))
        peer.die()
        steps_until(trainer, lambda: stage.messages.count("the peer has ended"), "the death is noticed")
        peer = stage.daemon(initial=floats(30, 40, *[0] * 14))
        steps_until(trainer, lambda: list(trainer.params["w"]) == [30, 40], "it has the values of the swarm")
        trainer.close()
        peer.die()
        stage.messages.texts.clear()


def returning_never_blocks(stage):
    """Each part of the handshake comes when the peer likes; between them the trainer makes its steps."""
    peer = stage.daemon()
    x = {"w": floats(1)}
    trainer = stage.keep(starling.attach(x, stage.socket))
    peer.die()
    steps_until(trainer, lambda: stage.messages.texts, "the death is noticed")
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(stage.socket)
    silent.listen(1)
    accepted = []
    acceptor = in_background(lambda: accepted.append(silent.accept()))
    steps_until(trainer, lambda: accepted, "it connects")
    for _ in range(1000):
        trainer.step(1)  # no answer to its declaration
    acceptor.join()
    accepted[0][0].close()
    silent.close()
    os.unlink(stage.socket)
    peer = stage.daemon()
    steps_until(trainer, lambda: stage.messages.count("again"), "the next peer is found")


def a_refusal_on_return_is_said_once(stage):
    peer = stage.daemon()
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket))
    peer.die()
    peer = stage.daemon(refuses="another trainer is attached")
    steps_until(trainer, lambda: stage.messages.count("another trainer is attached"), "the refusal is noticed")
    trainer._next_try = 0
    steps_until(trainer, lambda: peer.ends == 2, "it was refused twice")
    steps_until(trainer, lambda: trainer._attachment is None, "the second refusal is noticed")
    require(stage.messages.count("another trainer is attached") == 1, f"{stage.messages.texts}")


def forked_children_leave_the_connection_alone(stage):
    peer = stage.daemon(every=1)
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket))
    child = os.fork()
    if child == 0:
        try:
            for _ in range(10):
                trainer.step(1)
            trainer.report(accuracy=1)
            trainer.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    require(peer.get(daemon.STEPS) == 0 and peer.ends == 0, "the child made no step and no end")
    trainer.step(1)
    peer.until(lambda: len(peer.posts) == 1, "the parent's step is posted")


def a_peer_of_its_own_is_started_restarted_and_ended(stage):
    log = os.path.join(stage.folder, "log")
    x = {"w": floats(1)}
    trainer = stage.keep(starling.gossip(x, listen="127.0.0.1:0", program=stage.stand_in(), log=log, every="8 steps"))
    own = trainer._daemon
    require(os.stat(own.folder).st_mode & 0o777 == 0o700, "its folder is private")
    require(own._command[1:6] == ["peer", "--trainer", own.socket, "--state", f"{own.folder}/state"], "its command")
    require(os.getsid(own.process.pid) != os.getsid(0), "Ctrl-C reaches the trainer only")
    require("--every" in own._command and "--listen" in own._command, "its settings")
    first = own.process.pid
    os.kill(first, signal.SIGKILL)
    steps_until(trainer, lambda: stage.messages.count("again"), "the restarted peer is attached")
    require(own.process.pid != first, "another process")
    x["w"][0] = 9
    trainer.step(1)
    trainer.close()
    require(own.process.returncode == 0 and trainer.progress.done, "it left in peace")
    require(not os.path.exists(own.folder), "its folder is gone")
    with open(log, encoding="utf-8") as file:
        require(file.read().count("waits for a trainer") == 2, "its log is in the file")


def a_peer_that_is_started_again_resumes_its_own_checkpoints(stage):
    program, kept = stage.stand_in(), os.path.join(stage.folder, "kept")
    for more, words in ({"checkpoints": kept}, ["--resume", kept]), ({"checkpoints": kept, "resume": "x"}, []), ({}, []):
        trainer = stage.keep(starling.gossip({"w": floats(1)}, listen="127.0.0.1:0", program=program, log=os.devnull, **more))
        own, commands = trainer._daemon, []
        start = own.start
        own.start = lambda *added, start=start, commands=commands: (commands.append(list(added)), start(*added))
        os.kill(own.process.pid, signal.SIGKILL)
        steps_until(trainer, lambda: stage.messages.count("again"), "the restarted peer is attached")
        require(commands == [words], f"{commands}")
        trainer.close()
        stage.messages.texts.clear()


def a_peer_that_cannot_begin_again_is_said_once(stage):
    program = stage.stand_in()
    trainer = stage.keep(starling.gossip({"w": floats(1)}, listen="127.0.0.1:0", program=program, log=os.devnull))
    with open(program, encoding="utf-8") as file:
        text = file.read()
    with open(program, "w", encoding="utf-8") as file:
        file.write(text.replace("$@", "$@\" --fail \"the port is taken"))
    starts = []
    start = trainer._daemon.start
    trainer._daemon.start = lambda *added: (starts.append(1), start(*added))
    os.kill(trainer._daemon.process.pid, signal.SIGKILL)
    steps_until(trainer, lambda: len(starts) == 4, "four starts")
    found = [one for one in stage.messages.texts if "cannot begin again" in one]
    require(len(found) == 1 and found[0].endswith("error: the port is taken"), f"{stage.messages.texts}")


def a_peer_that_cannot_begin_is_an_error_with_its_last_line(stage):
    program = stage.stand_in("--fail", "'cannot listen at 127.0.0.1:7100'")
    log = os.path.join(stage.folder, "log")
    raises(starling.Error, "error: cannot listen at 127.0.0.1:7100",
           lambda: starling.gossip({"w": floats(1)}, listen="127.0.0.1:7100", program=program, log=log))
    raises(starling.Error, "cannot start", lambda: starling.gossip({"w": floats(1)}, listen="127.0.0.1:7100",
                                                                   program="/nonexistent/starling"))
    raises(starling.Error, "cannot open the log", lambda: starling.gossip(
        {"w": floats(1)}, listen="127.0.0.1:7100", program=program, log="/nonexistent/log"))


def an_exit_without_close_leaves_nothing(stage):
    temporary = os.path.join(stage.folder, "tmp")
    os.mkdir(temporary)
    program = stage.stand_in()
    text = ("import array, starling, sys\n"
            f"peer = starling.gossip({{'w': array.array('f', [1])}}, listen='127.0.0.1:0', program={program!r})\n"
            "peer.step()\nprint(peer._daemon.process.pid, flush=True)\nsys.exit(3)\n")
    trainer = subprocess.run([sys.executable, "-c", text], env=stage.environment(TMPDIR=temporary), text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    require(trainer.returncode == 3 and not os.listdir(temporary), f"{trainer.returncode}, {os.listdir(temporary)}")
    raises(ProcessLookupError, "", lambda: os.kill(int(trainer.stdout), 0))


def an_exception_in_the_loop_leaves_the_swarm_in_peace(stage):
    peer = stage.daemon()

    def loop():
        with starling.attach({"w": floats(1)}, stage.socket) as trainer:
            trainer.step(1)
            raise ZeroDivisionError("of the loop")
    raises(ZeroDivisionError, "of the loop", loop)
    require("bye" in peer.lines, "it said bye")


def settings_become_flags(_):
    require(flags_of({"every": "8 steps", "on_end": "echo", "discover": True, "join": ["a:1", "b:2"], "key": None,
                      "epochs": 3, "flip": False})
            == ["--every", "8 steps", "--on-end", "echo", "--discover", "--join", "a:1", "--join", "b:2", "--epochs",
                "3"], "flags")
    require(listen_for("127.0.0.1:7100") == listen_for(["localhost:1"]) == "127.0.0.1:0", "on this machine")
    require(listen_for("10.0.0.7:7100") == "none", "elsewhere")


def regions_end_where_they_say(stage):
    """The stand-in's region agrees with the contract's offsets, which the client reads by other means."""
    peer = stage.daemon()
    x = {"w": floats(*range(20)), "s": floats(1)}
    trainer = stage.keep(starling.attach(x, stage.socket, roles={"s": "frozen"}))
    require(struct.unpack_from("<8sHHIQQQI", peer.memory, 0)[0] == b"STARLING", "magic")
    require(peer.count == 48 and peer.offsets == [0, 32], f"{peer.count}, {peer.offsets}")
    require(len(peer.memory) == peer.at_reply + 4 * 48, "the end")
    require(threading.active_count() < 20 and trainer.share == (0, 1), "share")


CASES = [
    nobody_listens, a_refusal_is_an_error_with_the_sentence_of_the_peer, other_major_versions_are_refused_by_both_sides,
    other_minor_versions_and_unknown_lines_are_accepted, malformed_regions_are_errors,
    impossible_parameters_and_arguments_are_errors, training_survives_the_death_of_the_peer,
    a_swarm_that_went_on_has_the_parameters, returning_never_blocks, a_refusal_on_return_is_said_once,
    forked_children_leave_the_connection_alone, a_peer_of_its_own_is_started_restarted_and_ended,
    a_peer_that_is_started_again_resumes_its_own_checkpoints, a_peer_that_cannot_begin_again_is_said_once,
    a_peer_that_cannot_begin_is_an_error_with_its_last_line, an_exit_without_close_leaves_nothing,
    an_exception_in_the_loop_leaves_the_swarm_in_peace, settings_become_flags, regions_end_where_they_say,
]
