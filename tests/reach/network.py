"""A small internet in network namespaces: public machines, and private ones behind routers that masquerade.

The script restarts itself in a network namespace of its own, which is the internet: a bridge with 203.0.113.0/24 and
2001:db8::/64. Every machine has another namespace, which ends with its holder process, so no cleanup is needed.
"""
import ctypes
import itertools
import os
import shutil
import signal
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import suite  # noqa: E402

INSIDE = "STARLING_REACH_INSIDE"  # set in the restarted script
WAYS_IN = (["unshare", "--net", "--mount"], ["unshare", "--user", "--map-root-user", "--net", "--mount"])
RULES = """
table inet router {
  chain post { type nat hook postrouting priority 100; oifname "wan" masquerade; }
  chain in { type filter hook forward priority 0; policy drop; iifname "lan" accept; ct state established,related accept; }
}
"""


def die_with_parent():
    """Called between fork and exec: kills the process when the script ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def run(*command, text=None):
    done = subprocess.run(command, input=text, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def enter():
    """Restarts the script in a namespace where networks can be made. Returns why that is impossible, or None."""
    if os.environ.get(INSIDE):
        return None
    for tool in ("ip", "nft", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            return f"{tool} is missing (scripts/deps --tests installs it)"
    for way in WAYS_IN:
        check = "ip link add probe type bridge && nft add table inet t && nft 'add chain inet t c { type nat hook postrouting priority 100; }'"
        if subprocess.run([*way, "sh", "-c", check], capture_output=True, check=False).returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp(way[0], [*way, sys.executable, *sys.argv])
    return "this system permits no network namespaces with address translation"


class Machine:
    """A namespace. Commands run in it; its processes end with the script."""

    def __init__(self, name):
        self.name = name
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], preexec_fn=die_with_parent, start_new_session=True)
        own = os.readlink("/proc/self/ns/net")
        suite.until(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != own, "a namespace was not made", 0.005)
        self.do("ip", "link", "set", "lo", "up")

    def prefix(self):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]

    def do(self, *command, text=None):
        run(*self.prefix(), *command, text=text)

    def address(self, device, address):
        self.do("ip", "addr", "add", address, "dev", device, *(["nodad"] if ":" in address else []))

    def end(self):
        self.holder.kill()
        self.holder.wait()


class Internet:
    # The kernel removes the cables of an ended namespace some time later, so a name is never used twice.
    cables = itertools.count(1)

    def __init__(self):
        self.machines = []
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "internet", "type", "bridge")
        run("ip", "link", "set", "internet", "up")

    def plug(self, machine, device, bridge_of=None, bridge="internet"):
        """A cable from the machine's `device` to a bridge here or in another machine."""
        far = f"c{next(self.cables)}"
        run("ip", "link", "add", far, "type", "veth", "peer", "name", device, "netns", str(machine.holder.pid))
        if bridge_of is not None:
            run("ip", "link", "set", far, "netns", str(bridge_of.holder.pid))
        (bridge_of.do if bridge_of else run)("ip", "link", "set", far, "master", bridge, "up")
        machine.do("ip", "link", "set", device, "up")

    def machine(self, name):
        self.machines.append(Machine(name))
        return self.machines[-1]

    def public(self, name, number, v4=True, v6=True):
        """A machine that all can dial, at 203.0.113.NUMBER and 2001:db8::NUMBER."""
        machine = self.machine(name)
        self.plug(machine, "wan")
        machine.addresses = []
        if v4:
            machine.address("wan", f"203.0.113.{number}/24")
            machine.addresses.append(f"203.0.113.{number}")
        if v6:
            machine.address("wan", f"2001:db8::{number}/64")
            machine.addresses.append(f"[2001:db8::{number}]")
        return machine

    def router(self, name, number, v4=True, v6=True):
        """A home router: it lets its machines out, behind its own address, and nobody in."""
        router = self.public(name, number, v4, v6)
        router.do("ip", "link", "add", "lan", "type", "bridge")
        router.do("ip", "link", "set", "lan", "up")
        router.do("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        router.address("lan", "192.168.1.1/24")
        router.address("lan", "fd00::1/64")
        router.do("nft", "-f", "-", text=RULES)
        return router

    def private(self, name, router, number, v4=True, v6=True):
        machine = self.machine(name)
        self.plug(machine, "lan", router, "lan")
        if v4:
            machine.address("lan", f"192.168.1.{number}/24")
            machine.do("ip", "route", "add", "default", "via", "192.168.1.1")
        if v6:
            machine.address("lan", f"fd00::{number}/64")
            machine.do("ip", "-6", "route", "add", "default", "via", "fd00::1")
        return machine

    def close(self):
        for machine in self.machines:
            machine.end()
        run("ip", "link", "del", "internet")
