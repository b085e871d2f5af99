"""Trees of arrays of NumPy and JAX."""
import daemon
import starling
from stage import raises, steps_until
from suite import Skipped, require


def numpy():
    try:
        import numpy as library
    except ImportError:
        raise Skipped("numpy is not installed") from None
    return library


def jax():
    try:
        import jax as library
        import jax.numpy  # noqa: F401
    except ImportError:
        raise Skipped("jax is not installed") from None
    return library


def keys_of_nested_trees_are_names(stage):
    np = numpy()
    peer = stage.daemon()
    shared = np.ones((2, 3), np.float32)
    params = {"emb": shared, "blocks": [{"w": np.zeros(4), "n": np.arange(3)}, (np.float16([1, 2]),)],
              "scalar": np.zeros((), np.float32), "none": None, "head": shared, "empty": np.zeros((0, 2), np.float32),
              "mean": np.zeros(2, np.float32)}
    trainer = stage.keep(starling.attach(params, stage.socket, roles={"mean": "running"}))
    require([(t.name, t.kind, t.role, t.text) for t in peer.tensors] == [
        ("emb", "f32", "trained", "2,3"), ("blocks.0.w", "f64", "trained", "4"), ("blocks.1.0", "f16", "trained", "2"),
        ("scalar", "f32", "trained", "-"), ("mean", "f32", "running", "2")], f"{[t.name for t in peer.tensors]}")
    require(peer.tied == [("head", "emb")], f"{peer.tied}")
    require(trainer.exchange(params) is params, "NumPy's arrays are changed in place")


def arrays_of_every_type_are_exchanged(stage):
    np = numpy()
    peer = stage.daemon(every=1, ahead=1)
    random = np.random.default_rng(3)
    params = {name: random.normal(size=(5, 7)).astype(name) for name in ("float16", "float32", "float64")}
    start = {name: x.copy() for name, x in params.items()}
    trainer = stage.keep(starling.attach(params, stage.socket))
    first = peer.current()
    for _ in range(3):
        trainer.exchange(params)
    require(peer.current() == first, "without steps the arena stays the same to the bit")
    peer.on_post = lambda p: p.mix(lambda value, i: value + 2 ** -14)  # less than float16 can add to 1
    for _ in range(4):
        trainer.exchange(params)
    for name, x in params.items():
        require(np.allclose(x, start[name] + np.array(2 ** -12, x.dtype), atol=2e-3), f"{name} took the exchanges")
    wanted = np.float32(start["float16"].astype(np.float32) + np.float32(2 ** -12)).ravel()
    require(np.allclose(peer.value("float16"), wanted, atol=1e-6), "rounding to float16 changes nothing in the arena")
    params["float64"] += 0.25
    trainer.exchange(params)
    require(np.allclose(peer.value("float64"), (start["float64"] + 0.25).ravel(), atol=1e-3), "a step of float64")


def new_arrays_of_each_step_are_taken(stage):
    np = numpy()
    peer = stage.daemon(every=1, ahead=1)
    peer.on_post = lambda p: p.mix(lambda value, i: value * 2)
    params = {"w": np.float32([1, 2])}
    trainer = stage.keep(starling.attach(params, stage.socket))
    params = trainer.exchange({"w": params["w"] + 1}, loss=np.float32(0.5))
    require(params["w"].tolist() == [3, 5] and peer.get(daemon.LOSS) == 0.5, f"{params}")
    params["w"] = params["w"] - 4
    require(trainer.exchange(params)["w"].tolist() == [2, 6], f"{params}")
    raises(ValueError, "the shape of w was (2,) and is (3,)", lambda: trainer.exchange({"w": np.zeros(3, np.float32)}))
    trainer.exchange(params)


def replies_of_any_size_are_taken_to_the_bit(stage):
    """s + (r - s) would lose a small r beside a large s."""
    np = numpy()
    peer = stage.daemon(every=1, ahead=1)
    params = {"w": np.float32([1e8, 3])}
    trainer = stage.keep(starling.attach(params, stage.socket))
    peer.on_post = lambda p: p.mix(lambda value, i: 0.3)
    trainer.exchange(params)
    require(params["w"].tolist() == peer.value("w") and params["w"][0] == np.float32(0.3), f"{params}")


def views_of_numpy_are_the_arena(stage):
    np = numpy()
    peer = stage.daemon()
    trainer = stage.keep(starling.attach({"a": {"w": np.float32([[1, 2], [3, 4]])}}, stage.socket, mode="view"))
    params = trainer.params
    params["a"]["w"] *= 2
    require(peer.value("a.w") == [2, 4, 6, 8] and params["a"]["w"].shape == (2, 2), "a step shows in the arena")
    trainer.close()
    peer.mix(lambda value, i: 0)
    require(trainer.params["a"]["w"].tolist() == [[2, 4], [6, 8]], "after the end the arrays are the trainer's own")


def arrays_of_jax_are_replaced(stage):
    library = jax()
    jnp = library.numpy
    peer = stage.daemon(every=1, ahead=1)
    peer.on_post = lambda p: p.mix(lambda value, i: value + 1)
    params = {"b": jnp.zeros(()), "a": [jnp.ones((2, 2)), jnp.ones(3, jnp.bfloat16)], "steps": jnp.zeros((), jnp.int32)}
    trainer = stage.keep(starling.attach(params, stage.socket))
    require([(t.name, t.kind) for t in peer.tensors] == [("a.0", "f32"), ("a.1", "bf16"), ("b", "f32")],
            f"in the order of jax: {[t.name for t in peer.tensors]}")
    step = library.jit(lambda tree: library.tree_util.tree_map(lambda x: x * 2, tree))
    params = trainer.exchange(step(params), loss=jnp.float32(1.5))
    require(params["a"][0].tolist() == [[3, 3], [3, 3]] and float(params["b"]) == 1, f"{params}")
    require(params["a"][1].dtype == jnp.bfloat16 and peer.get(daemon.LOSS) == 1.5, "type and loss")
    steps_until(trainer, lambda: peer.get(daemon.STEPS) == 3, "two more steps")
    raises(starling.Error, "cannot be a view", lambda: starling.attach(params, stage.socket, mode="view"))


def frozen_arrays_survive_a_restart_of_the_peer(stage):
    """Also values that cannot travel, which are marks in the arena; but not NaN."""
    np = numpy()
    for mode in "copy", "view":
        peer = stage.daemon(every=1, ahead=1)
        frozen = {"n": np.array([1.5, 2.0, 3.0]), "l": [4.0, 5.0, 6.0], "m": np.array([7, 8, 9], np.float32)}
        params = {"w": np.zeros(2, np.float32), **frozen}
        trainer = stage.keep(starling.attach(params, stage.socket, mode, roles=dict.fromkeys(frozen, "frozen")))
        trainer.step(1)
        bad = [-np.inf, 5.0, 1e300]
        frozen["n"][:], frozen["l"][:], frozen["m"][:] = bad, bad, [-np.inf, 5.0, 3e38]
        trainer.step(1)
        trainer.step(1)
        peer.until(lambda: peer.rings >= 3, "rings")
        for name in frozen:
            require(peer.value(name) == [2.0**-120, 5.0, 2.0**-120], f"{mode}: {name} is {peer.value(name)} in the arena")
        peer.die()
        steps_until(trainer, lambda: stage.messages.count("the peer has ended"), "the death is noticed")
        peer = stage.daemon(initial=[7] * 64, every=1)
        steps_until(trainer, lambda: list(trainer.params["w"]) == [7, 7], "it has the values of the swarm")
        trainer.close()
        for name in frozen:
            wanted = bad if name != "m" else [-np.inf, 5.0, np.float32(3e38)]
            require(list(params[name]) == wanted, f"{mode}: {name} is {params[name]}")
        stage.messages.texts.clear()
        peer.die()


def doubles_beyond_the_bound_are_refused_by_name(stage):
    np = numpy()
    stage.daemon()
    for value in 1e300, 2.0**61, -np.inf:
        raises(starling.Error, "w has values up to ", lambda value=value: starling.attach({"w": np.array([1, value])}, stage.socket))


def strided_and_foreign_arrays_and_named_tuples_are_changed_in_place(stage):
    import collections
    np = numpy()
    peer = stage.daemon(every=1, ahead=1)
    peer.on_post = lambda p: p.mix(lambda value, i: value + 1)
    Pair = collections.namedtuple("Pair", "a b")
    base = np.zeros(10, np.float32)
    params = Pair(base[::2], np.arange(3, dtype=">f4"))
    trainer = stage.keep(starling.attach(params, stage.socket))
    require([tensor.name for tensor in peer.tensors] == ["0", "1"], f"{[t.name for t in peer.tensors]}")
    for _ in range(2):
        require(trainer.exchange(params) is params, "another tree")
    require(base.tolist() == [2, 0] * 5 and params.b.tolist() == [2, 3, 4], f"{base}, {params.b}")


CASES = [frozen_arrays_survive_a_restart_of_the_peer, doubles_beyond_the_bound_are_refused_by_name,
         strided_and_foreign_arrays_and_named_tuples_are_changed_in_place,
         keys_of_nested_trees_are_names, arrays_of_every_type_are_exchanged, new_arrays_of_each_step_are_taken,
         replies_of_any_size_are_taken_to_the_bit, views_of_numpy_are_the_arena, arrays_of_jax_are_replaced]
