"""The C client: compiled as C11 and C++17, and driven through trainer.c."""
import os
import shutil
import subprocess

import daemon
from stage import CLIENTS, HERE
from suite import HANG, Skipped, require

STRICT = ["-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I", f"{CLIENTS}/c"]


def compiled(stage, source, *flags, compiler="gcc"):
    """The path of the program that this source makes."""
    if not shutil.which(compiler):
        raise Skipped(f"{compiler} is not installed")
    path = os.path.join(stage.folder, os.path.basename(source) + "-" + compiler)
    done = subprocess.run([compiler, *flags, *STRICT, source, "-o", path, "-lm"], capture_output=True, text=True)
    require(done.returncode == 0, done.stderr)
    return path


class Trainer:
    """The process of trainer.c. Its standard error goes to the file `log`."""

    def __init__(self, stage, *flags, compiler="gcc"):
        program = compiled(stage, f"{HERE}/trainer.c", *(flags or ["-std=c11"]), compiler=compiler)
        self.log = os.path.join(stage.folder, "stderr")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                            text=True)
        stage.peers.callback(self.close)

    def send(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def ask(self, command):
        self.send(command)
        return self.answer()

    def answer(self):
        return self.process.stdout.readline().strip()

    def warnings(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(HANG)
        self.process.stdout.close()


def the_header_compiles_without_warnings(stage):
    for source in f"{HERE}/trainer.c", f"{CLIENTS}/examples/linear.c":
        compiled(stage, source, "-std=c11")
        compiled(stage, source, "-x", "c++", "-std=c++17", compiler="g++")
        if shutil.which("clang"):
            compiled(stage, source, "-std=c11", compiler="clang")


def c_declares_and_keeps_its_parameters(stage):
    peer = stage.daemon()
    for mode in "copy", "view":
        trainer = Trainer(stage)
        require(trainer.ask(f"attach {stage.socket} {mode}") == "ok", "attach")
        require(peer.declaration == {"starling-trainer": "1.1", "mode": mode, "model": "tiny", "data": "none",
                                     "device": "C11 cpu", "epoch": "1000", "batch": "4"}, f"{peer.declaration}")
        require([(t.name, t.role, t.text) for t in peer.tensors] == [("w", "trained", "3"), ("b", "running", "-"),
                                                                     ("f", "frozen", "1,1")], "tensors")
        require(trainer.ask("values") == "1 2 3 4 5" == trainer.ask("detach"), f"{mode}: values")
        require(peer.value("w") == [1, 2, 3] and "bye" in peer.lines, f"{mode}: the arena")


def c_takes_exchanges_and_loses_no_step(stage):
    peer = stage.daemon(every=1, answers=False)
    trainer = Trainer(stage)
    trainer.ask(f"attach {stage.socket} copy")
    trainer.ask("step 1")
    peer.until(lambda: peer.posts, "a post")
    peer.mix(lambda value, i: value + 100)
    trainer.ask("add 1 10")
    trainer.ask("step 1")
    peer.answer()
    require(trainer.ask("step 1") == "1" and trainer.ask("values") == "104 112 103 104 5", "x += r - s")
    peer.until(lambda: len(peer.posts) == 2, "the next post")
    require(peer.posts[1][1:] == (3, 12, 0), f"steps, samples, era: {peer.posts[1][1:]}")
    peer.answers = True
    peer.answer()
    trainer.ask("step 2")
    require(trainer.ask("detach") == "106 112 103 104 5" and peer.value("w") == [106, 112, 103], "the end")


def c_views_are_the_arena(stage):
    peer = stage.daemon(every=2)
    trainer = Trainer(stage, "-x", "c++", "-std=c++17", compiler="g++")
    trainer.ask(f"attach {stage.socket} view")
    peer.mix(lambda value, i: value + 10)
    require(trainer.ask("values") == "11 12 13 14 5", "an exchange shows at once, but for a frozen tensor")
    trainer.ask("step 5")
    require(peer.value("w") == [16, 12, 13], "steps, too")
    peer.until(lambda: peer.rings, "a ring")
    peer.die()
    trainer.ask("step 3")
    peer = stage.daemon(initial=[7] * 48)
    trainer.ask("until")
    require(trainer.ask("values") == "7 7 7 7 5", "the arena of the peer that returned")
    trainer.ask("step 2")
    require(peer.value("w") == [9, 7, 7] and trainer.ask("detach") == "9 7 7 7 5", "steps in it")
    require(peer.value("f") == [5], "what is frozen is kept, and the arena follows")


def c_waits_and_reads_the_words(stage):
    peer = stage.daemon(every=1000, ahead=2)
    trainer = Trainer(stage)
    trainer.ask(f"attach {stage.socket} copy")
    for word, value in ((daemon.SWARM_SAMPLES, 2500), (daemon.EXCHANGES, 7), (daemon.MEMBERS, 5), (daemon.RATE, 0.5),
                        (daemon.SHARE_INDEX, 3), (daemon.SHARE_OF, 5)):
        peer.set(word, value)
    require(trainer.ask("state") == "2500 2.5 7 5 0.5 0 1 0 3 5", "state")
    trainer.ask("report 0.75 0.1")
    require(peer.get(daemon.ACCURACY) == 0.75 and peer.get(daemon.LEARNING_RATE) == 0.1, "reports")
    trainer.send("step 3")
    peer.mix(lambda value, i: 50)
    peer.over()
    require(trainer.answer() == "0" and trainer.ask("state").split()[7] == "1", "the run ends while it waits")
    require(trainer.ask("detach").startswith("5"), "with the last parameters")


def c_in_lock_step_begins_each_step_with_the_reply(stage):
    peer = stage.daemon(every=1, ahead=1)
    peer.on_post = lambda p: p.mix(lambda value, i: value * 2)
    trainer = Trainer(stage)
    trainer.ask(f"attach {stage.socket} copy")
    wanted = 1
    for _ in range(20):
        trainer.ask("step 1")
        wanted = 2 * wanted + 1
    require(trainer.ask("values").split()[0] == f"{wanted:g}" and len(peer.posts) == 20, trainer.ask("values"))
    peer.on_post = None
    trainer.ask("add 1 1e12")
    trainer.ask("step 1")
    peer.on_post = lambda p: p.mix(lambda value, i: 0.25)
    trainer.ask("step 1")  # s + (r - s) would lose a small r beside a large s
    require(trainer.ask("values").split()[1] == "0.25", trainer.ask("values"))


def c_takes_a_new_era(stage):
    for mode in "copy", "view":
        peer = stage.daemon(f"{stage.socket}-{mode}", every=1000)
        trainer = Trainer(stage)
        trainer.ask(f"attach {peer.path} {mode}")
        trainer.ask("step 5")
        peer.replace([7] * 48, era=1)
        trainer.ask("step 1")
        require(trainer.ask("values").endswith("7 7 7 5") and trainer.ask("state").split()[5] == "1", f"{mode}: eras")
        trainer.close()


def c_survives_the_death_of_its_peer(stage):
    peer = stage.daemon()
    trainer = Trainer(stage)
    trainer.ask(f"attach {stage.socket} copy")
    trainer.ask("step 2")
    peer.die()
    require(trainer.ask("step 10") == "1" and trainer.ask("state").split()[6] == "0", "it trains on alone")
    require(trainer.warnings().count("the peer has ended") == 1, trainer.warnings())
    peer = stage.daemon()
    made = int(trainer.ask("until"))
    require(trainer.ask("step 1") == "1" and "attached to the peer again" in trainer.warnings(), trainer.warnings())
    require(float(trainer.ask("values").split()[0]) <= 14 + made, "its own steps are kept")
    told = [int(word) for word in peer.declaration["made"].split(" ")]
    require(told[0] >= 12 and told[1] == told[2] and len(told) == 4, f"made {told}")
    trainer.ask("detach")
    require("bye" in peer.lines, "it leaves")


def c_keeps_events_until_they_are_asked_for(stage):
    peer = stage.daemon(every=1000)
    trainer = Trainer(stage)
    trainer.ask(f"attach {stage.socket} copy")
    peer.until(lambda: "events" in peer.lines, "it asks for events")
    require(trainer.ask("events") == "", "none yet")
    for event in "members 1", "joined ann", "lost ann failed", "mixed bob", "weather", "missed 12":
        peer.say("event " + event)
    trainer.ask("step 1")
    require(trainer.ask("events") == "members  1;joined ann ;lost ann failed;mixed bob ;missed  12;", "in their order")
    for number in range(70):
        peer.say(f"event mixed p{number}")
    trainer.ask("step 1")
    found = trainer.ask("events").split(";")
    require(found[0] == "missed  6" and found[1] == "mixed p6 " and found[64] == "mixed p69 ", f"{found}")
    require(trainer.ask("events") == "", "once each")


def c_children_leave_the_connection_alone(stage):
    peer = stage.daemon(every=1000)
    trainer = Trainer(stage)
    trainer.ask(f"attach {stage.socket} copy")
    trainer.ask("fork")
    require(peer.get(daemon.STEPS) == 0 and peer.ends == 0 and trainer.ask("step 1") == "1", "no step, no end")


def c_has_a_sentence_for_each_refusal(stage):
    trainer = Trainer(stage)
    require("start one with" in trainer.ask(f"attach {stage.socket} copy"), "nobody listens")
    stage.daemon(f"{stage.socket}1", refuses="the run trains lenet, not tiny")
    require(trainer.ask(f"attach {stage.socket}1 copy") == "the run trains lenet, not tiny", "refused")
    stage.daemon(f"{stage.socket}2", region_major=2)
    require("version 2.0" in trainer.ask(f"attach {stage.socket}2 copy"), "major")
    stage.daemon(f"{stage.socket}3", region_minor=7, before_start=["weather fine"])
    require(trainer.ask(f"attach {stage.socket}3 copy") == "ok", "minor, and unknown lines")


def c_steps_with_nothing_to_do_are_cheap(stage):
    peer = stage.daemon(every=10**12)
    trainer = Trainer(stage)
    trainer.ask(f"attach {stage.socket} copy")
    nanoseconds = int(trainer.ask("cost 50000"))
    print(f"      a step in C with nothing to do: {nanoseconds} ns")
    require(nanoseconds < 10000 and peer.rings == 0, f"{nanoseconds} ns")


CASES = [the_header_compiles_without_warnings, c_declares_and_keeps_its_parameters, c_takes_exchanges_and_loses_no_step,
         c_views_are_the_arena, c_waits_and_reads_the_words, c_in_lock_step_begins_each_step_with_the_reply,
         c_takes_a_new_era, c_survives_the_death_of_its_peer, c_keeps_events_until_they_are_asked_for, c_children_leave_the_connection_alone,
         c_has_a_sentence_for_each_refusal, c_steps_with_nothing_to_do_are_cheap]
