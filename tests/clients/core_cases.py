"""Modes, conservation, waiting and eras, with the standard library's arrays."""
import array
import os
import random
import signal

import daemon
import starling
from stage import in_background, microseconds, raises, steps_until
from suite import require


def floats(*values):
    return array.array("f", values)


def as_arrays(params):
    return {name: array.array("f", values) for name, values in params.items()}


def awkward(count, seed=1):
    """Floats that no short sum represents."""
    draw = random.Random(seed)
    return array.array("f", [draw.uniform(-1, 1) * 10 ** draw.randint(-6, 6) for _ in range(count)])


def a_trainer_that_begins_the_run_keeps_its_parameters_to_the_bit(stage):
    peer = stage.daemon()
    for mode in "copy", "view":
        x, before = {"w": awkward(1000), "b": awkward(3, 2)}, {"w": awkward(1000), "b": awkward(3, 2)}
        with starling.attach(x, stage.socket, mode) as trainer:
            require(as_arrays(trainer.params) == before, f"{mode}: at the start")
            require(peer.value("w") == list(before["w"]), f"{mode}: the arena")
        require(as_arrays(trainer.params) == before, f"{mode}: at the end")
        require(trainer.progress.done, f"{mode}: done")
        peer.arena = None


def a_trainer_that_joins_takes_the_parameters_of_the_swarm(stage):
    stage.daemon(initial=floats(*range(32)))
    for mode in "copy", "view":
        trainer = stage.keep(starling.attach({"w": floats(9, 9, 9), "b": floats(9)}, stage.socket, mode))
        w, b = trainer.params["w"], trainer.params["b"]
        require(list(w) == [0, 1, 2] and list(b) == [16], f"{mode}: {trainer.params}")
        trainer.close()


def steps_and_exchanges_of_the_same_moment_are_both_kept(stage):
    peer = stage.daemon(every=1, answers=False)
    x = {"w": floats(0, 0)}
    trainer = stage.keep(starling.attach(x, stage.socket))
    x["w"][0] += 1
    trainer.step(1)  # posts 1, 0
    peer.until(lambda: peer.posts, "a post")
    peer.mix(lambda value, i: value + 100)
    x["w"][1] += 10
    trainer.step(1)
    require(x["w"].tolist() == [1, 10] and len(peer.posts) == 1, "a trainer that waits for a reply trains on")
    peer.answer()  # 101, 100
    x["w"][0] += 2
    trainer.step(1)
    require(x["w"].tolist() == [103, 110], f"x += r - s, got {x['w'].tolist()}")
    peer.until(lambda: len(peer.posts) == 2, "the next post")
    peer.answers = True
    peer.answer()
    trainer.close()
    require(x["w"].tolist() == peer.value("w") == [103, 110], f"{x['w'].tolist()} and {peer.value('w')}")


def no_step_and_no_parameter_is_lost_in_a_swarm_of_two(stage):
    draw, made = random.Random(7), [0.0] * 4
    peers = [stage.daemon(f"{stage.socket}{i}", every=3, answers=False) for i in range(2)]
    xs = [{"w": floats(0, 0, 0, 0)} for _ in peers]
    trainers = [stage.keep(starling.attach(x, peer.path)) for x, peer in zip(xs, peers)]
    for _ in range(400):
        i = draw.randrange(2)
        k = draw.randrange(4)
        xs[i]["w"][k] += 2
        made[k] += 2
        rings = peers[i].rings
        steps, due = trainers[i]._attachment.steps + 1, peers[i].get(daemon.RING_AT)
        free = peers[i].get(daemon.POST) == peers[i].get(daemon.REPLY)
        trainers[i].step()
        if steps >= due and free:
            peers[i].until(lambda: peers[i].rings > rings, "a ring")
        if draw.random() < 0.5 and peers[i].get(daemon.POST) > peers[i].get(daemon.REPLY):
            peers[i].answer()
        if draw.random() < 0.2:
            a, b = (peer.current() for peer in peers)
            a_moves = [(b[k] - a[k]) // 2 for k in range(4)]  # whole numbers, which float32 adds exactly
            peers[0].mix(lambda value, k: value + a_moves[k])
            peers[1].mix(lambda value, k: value - a_moves[k])
    for peer, trainer in zip(peers, trainers):
        peer.answers = True
        if peer.get(daemon.POST) > peer.get(daemon.REPLY):
            peer.answer()
        trainer.close()
    total = [a + b for a, b in zip(peers[0].value("w"), peers[1].value("w"))]
    require(total == made, f"the arenas have {total}, the steps made {made}")
    for x, peer in zip(xs, peers):
        require(x["w"].tolist() == peer.value("w"), "the trainer has the last arena")


def without_steps_since_its_post_a_trainer_has_the_reply_to_the_bit(stage):
    peer = stage.daemon(every=1, ahead=1)
    peer.on_post = lambda p: p.mix(lambda value, i: value * 0.3 + 0.1)
    x = {"w": awkward(500)}
    trainer = stage.keep(starling.attach(x, stage.socket))
    for _ in range(5):
        x["w"][0] += 0.7
        trainer.step(1)  # waits for the reply, as a rule in lock step wants it
        require(x["w"].tolist() == peer.value("w"), "x = r")
    require(peer.get(daemon.STEPS) == 5 and len(peer.posts) == 5, f"{len(peer.posts)} posts in 5 steps")


def a_reply_that_comes_with_the_permission_precedes_the_next_step(stage):
    peer = stage.daemon(every=1, ahead=1)
    peer.on_post = lambda p: p.mix(lambda value, i: value * 2)
    x = {"w": floats(1)}
    trainer = stage.keep(starling.attach(x, stage.socket))
    attachment = trainer._attachment
    receive = attachment.connection.receive

    def late():  # the peer replies while the trainer looks for lines, which are still on their way
        peer.until(lambda: peer.get(daemon.REPLY) == attachment._post, "the reply")
        return ()
    attachment.connection.receive = late
    x["w"][0] += 1
    trainer.step(1)
    attachment.connection.receive = receive
    require(x["w"][0] == 3, f"{x}")


def steps_of_unknown_size_count_no_samples(stage):
    peer = stage.daemon()
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket))
    for _ in range(3):
        trainer.step()
    require(peer.get(daemon.STEPS) == 3 and peer.get(daemon.SAMPLES) == 0, "samples that nobody knows")
    require(stage.messages.count("unknown number of samples count none") == 1, f"{stage.messages.texts}")
    trainer.close()
    other = stage.daemon(f"{stage.socket}2")
    trainer = stage.keep(starling.attach({"w": floats(1)}, other.path, batch=5))
    trainer.step()
    trainer.step(7)
    require(other.get(daemon.SAMPLES) == 12 and stage.messages.count("unknown number") == 1, "known samples")


def snapshots_count_their_steps_and_samples(stage):
    peer = stage.daemon(every=4)
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket, batch=16))
    for _ in range(3):
        trainer.step(loss=2.5)
    trainer.exchange(samples=8, loss=0.25)
    peer.until(lambda: peer.posts, "a post")
    require(peer.posts[0][1:] == (4, 56, 0), f"steps, samples and era: {peer.posts[0][1:]}")
    require(peer.get(daemon.LOSS) == 0.25 and peer.get(daemon.SAMPLES) == 56, "loss and samples")
    require(peer.get(daemon.ACCURACY) != peer.get(daemon.ACCURACY), "an unknown accuracy is NaN")
    trainer.report(accuracy=0.75, learning_rate=0.1)
    require(peer.get(daemon.ACCURACY) == 0.75 and peer.get(daemon.ACCURACY_STEPS) == 4, "accuracy")
    require(peer.get(daemon.LEARNING_RATE) == 0.1, "learning rate")


def a_trainer_reads_the_swarm_in_the_words(stage):
    peer = stage.daemon()
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket, epoch=1000, batch=8))
    for word, value in ((daemon.SWARM_SAMPLES, 2500), (daemon.EXCHANGES, 7), (daemon.MEMBERS, 5), (daemon.RATE, 0.5),
                        (daemon.SHARE_INDEX, 3), (daemon.SHARE_OF, 5)):
        peer.set(word, value)
    require(trainer.progress == (2500, 2.5, 7, 5, 0.5, False), f"{trainer.progress}")
    require(trainer.share == (3, 5), f"{trainer.share}")
    peer.die()
    steps_until(trainer, lambda: stage.messages.texts, "the death is noticed")
    require(trainer.progress.samples == 2500 and trainer.share == (3, 5), "the last words stay")


def views_are_the_arena(stage):
    peer = stage.daemon(every=2)
    trainer = stage.keep(starling.attach({"w": floats(1, 2), "b": floats(3)}, stage.socket, mode="view"))
    w = trainer.params["w"]
    peer.mix(lambda value, i: value + 10)
    require(list(w) == [11, 12], "an exchange shows at once")
    w[0] = 50
    require(peer.value("w") == [50, 12], "so does a step")
    steps_until(trainer, lambda: peer.rings == 3, "it rings again")
    require(peer.at_post == 0 and peer.get(daemon.POST) == 0, "views have no mailboxes")
    trainer.close()
    w[0] = -1
    require(list(trainer.params["w"]) == [50, 12], "after the end, the parameters are the trainer's own")


def a_step_waits_and_says_why(stage):
    peer = stage.daemon(every=1000, ahead=2)
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket))
    peer.set(daemon.WAITS, 1)
    stage.messages.words, stage.messages.then = "its owner paused it", lambda: peer.allow(3)
    trainer.step(1)
    trainer.step(1)  # waits until the message allows the third
    require(stage.messages.count("its owner paused it") == 1, f"{stage.messages.texts}")
    peer.set(daemon.WAITS, 2)
    stage.messages.words, stage.messages.then = "the rule waits for other peers", lambda: peer.allow(daemon.EVER)
    trainer.step(1)
    require(len(stage.messages.texts) == 2, f"{stage.messages.texts}")


def a_wait_can_be_interrupted(stage):
    stage.daemon(every=1000, ahead=1)
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket))
    stage.daemons[0].set(daemon.WAITS, 1)
    stage.messages.words, stage.messages.then = "paused", lambda: os.kill(os.getpid(), signal.SIGINT)
    raises(KeyboardInterrupt, "", trainer.step)


def the_run_ends_while_a_step_waits(stage):
    peer = stage.daemon(every=1000, ahead=1, initial=floats(5, *[0] * 15))
    x = {"w": floats(1)}
    trainer = stage.keep(starling.attach(x, stage.socket))
    peer.set(daemon.WAITS, 4)
    stage.messages.words, stage.messages.then = "last samples", lambda: (peer.mix(lambda v, i: 8), peer.over())
    trainer.step(1)
    require(trainer.progress.done and x["w"][0] == 8, f"{trainer.progress}, {x}")


def after_the_end_of_the_run_the_trainer_has_its_last_parameters(stage):
    for mode in "copy", "view":
        peer = stage.daemon(every=100)
        trainer = stage.keep(starling.attach({"w": floats(1, 2)}, stage.socket, mode))
        trainer.step(1)
        peer.mix(lambda value, i: value * 3)
        peer.over()
        steps_until(trainer, lambda: trainer.progress.done, "the run is over")
        require(list(trainer.params["w"]) == [3, 6], f"{mode}: {list(trainer.params['w'])}")
        trainer.params["w"][0] = 7
        trainer.step(1)
        require(list(trainer.params["w"]) == [7, 6] and not stage.messages.texts, f"{mode}: the loop may go on")
        peer.die()


def the_last_steps_are_posted_at_the_end(stage):
    peer = stage.daemon(every=1000)
    x = {"w": floats(0)}
    with starling.attach(x, stage.socket) as trainer:
        for _ in range(5):
            x["w"][0] += 1
            trainer.step(1)
    require(peer.value("w") == [5] and "bye" in peer.lines, f"{peer.value('w')}")
    require(x["w"][0] == 5 and trainer.progress.done, "and the result is the trainer's")


def the_end_waits_for_a_reply_and_then_posts(stage):
    peer = stage.daemon(every=1, answers=False)
    x = {"w": floats(0)}
    trainer = stage.keep(starling.attach(x, stage.socket))
    x["w"][0] += 1
    trainer.step(1)
    peer.until(lambda: peer.posts, "a post")
    x["w"][0] += 1
    trainer.step(1)
    peer.mix(lambda value, i: value + 100)
    peer.answers = True
    waiter = in_background(peer.answer)
    trainer.close()
    waiter.join()
    require(peer.value("w") == [102] and x["w"][0] == 102, f"{peer.value('w')}, {x}")


def a_new_era_replaces_the_parameters(stage):
    peer = stage.daemon(every=1, answers=False)
    x, eras = {"w": floats(1)}, []
    trainer = stage.keep(starling.attach(x, stage.socket))
    trainer.on_era = lambda: eras.append(1)
    trainer.step(1)
    peer.until(lambda: peer.posts, "a post")
    peer.replace([7] + [0] * 15, era=1)
    x["w"][0] = 1000
    trainer.step(1)
    require(x["w"][0] == 7 and eras == [1], f"x = r, whatever the trainer has: {x}")
    peer.until(lambda: len(peer.posts) == 2, "the forgotten post is made again")
    require(peer.posts[1][3] == 1, "a post of the new era")
    peer.answers = True
    peer.answer()
    x["w"][0] += 1
    trainer.step(1)
    peer.until(lambda: peer.value("w") == [8], "the step is in the arena")
    require(eras == [1], "once")


def views_see_a_new_era(stage):
    peer = stage.daemon()
    eras = []
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket, mode="view"))
    trainer.on_era = lambda: eras.append(1)
    peer.replace([7] + [0] * 15, era=1)
    trainer.step(1)
    require(list(trainer.params["w"]) == [7] and eras == [1], "the arena's values, and fresh optimizer state")


def doubles_have_a_master_whose_rounding_never_shows(stage):
    peer = stage.daemon(every=1, ahead=1)
    start = awkward(200)
    x = {"d": array.array("d", start), "l": list(start)}
    trainer = stage.keep(starling.attach(x, stage.socket))
    for _ in range(3):
        trainer.step(1)
    require(peer.value("d") == list(start) and peer.value("l") == list(start), "the arena is the same to the bit")
    x["l"][0] += 0.5
    trainer.step(1)
    require(peer.value("l")[0] == floats(start[0] + 0.5)[0], "a step arrives")
    require([tensor.kind for tensor in peer.tensors] == ["f64", "f64"], "the declared types")


def a_hook_with_nothing_to_do_is_cheap(stage):
    peer = stage.daemon(every=10**9)
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket))
    cost = microseconds(lambda: trainer.step(64, 0.5))
    print(f"      a step with nothing to do: {cost:.2f} us")
    require(cost < 50 and peer.rings == 0, f"{cost} us")


CASES = [
    a_trainer_that_begins_the_run_keeps_its_parameters_to_the_bit,
    a_trainer_that_joins_takes_the_parameters_of_the_swarm,
    steps_and_exchanges_of_the_same_moment_are_both_kept,
    no_step_and_no_parameter_is_lost_in_a_swarm_of_two,
    without_steps_since_its_post_a_trainer_has_the_reply_to_the_bit,
    a_reply_that_comes_with_the_permission_precedes_the_next_step, steps_of_unknown_size_count_no_samples,
    snapshots_count_their_steps_and_samples, a_trainer_reads_the_swarm_in_the_words, views_are_the_arena,
    a_step_waits_and_says_why, a_wait_can_be_interrupted, the_run_ends_while_a_step_waits,
    after_the_end_of_the_run_the_trainer_has_its_last_parameters, the_last_steps_are_posted_at_the_end,
    the_end_waits_for_a_reply_and_then_posts, a_new_era_replaces_the_parameters, views_see_a_new_era,
    doubles_have_a_master_whose_rounding_never_shows, a_hook_with_nothing_to_do_is_cheap,
]
