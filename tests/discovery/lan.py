"""Machines on one network, each with its own D-Bus and Avahi daemon, in network namespaces (tests/reach/network.py)."""
import os
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "reach"))

import network
from peers import wait_for

BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path={path}</listen>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_type="*"/><allow receive_type="*"/><allow send_destination="*"/>
  </policy>
</busconfig>
"""
AVAHI = """[server]
host-name={name}
use-ipv4=yes
use-ipv6=yes
allow-interfaces=wan
[publish]
publish-workstation=no
"""
# The daemon's files are in /run, which the machines share otherwise. It wants to own them as user avahi, but a user
# namespace has only root.
AVAHI_COMMAND = ("mount -t tmpfs tmpfs /run && mount --bind \"$1\" /etc/passwd && mount --bind \"$2\" /etc/group && "
                 "exec avahi-daemon -f \"$0\" --no-drop-root --no-chroot --no-rlimits")
PASSWD = "root:x:0:0::/:/bin/sh\navahi:x:0:0::/:/bin/sh\n"
GROUP = "root:x:0:\navahi:x:0:\n"


class Service:
    """A process in a machine, and its output."""

    def __init__(self, machine, log, *command):
        self.log = log
        with open(log, "wb") as out:
            self.process = subprocess.Popen([*machine.prefix(), *command], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=out, preexec_fn=network.die_with_parent)

    def says(self, text):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.process.args} ended: {self.text()}")
        return text in self.text()

    def text(self):
        with open(self.log, errors="replace") as log:
            return log.read()

    def end(self):
        self.process.kill()
        self.process.wait()


class Lan:
    """A network; every machine on it has the addresses 203.0.113.NUMBER and 2001:db8::NUMBER."""

    def __init__(self, folder):
        self.folder, self.net, self.machines, self.count = folder, network.Internet(), {}, 0

    def machine(self, name, avahi=True):
        self.count += 1
        machine = self.net.public(name, self.count)
        machine.bus = os.path.join(self.folder, name + ".bus")
        plain = machine.prefix()
        machine.prefix = lambda: [*plain, "env", "DBUS_SYSTEM_BUS_ADDRESS=unix:path=" + machine.bus]
        machine.services = []
        self.machines[name] = machine
        if avahi:
            self.start_bus(machine)
            machine.avahi = self.start_avahi(machine)
        return machine

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def start_bus(self, machine):
        conf = self.write(machine.name + ".bus.conf", BUS.format(path=machine.bus))
        bus = Service(machine, conf + ".log", "dbus-daemon", "--nofork", "--print-address", "--config-file", conf)
        machine.services.append(bus)
        wait_for("the bus listens", lambda: bus.says("unix:path="))

    def start_avahi(self, machine):
        conf = self.write(machine.name + ".avahi.conf", AVAHI.format(name=machine.name))
        files = conf, self.write("passwd", PASSWD), self.write("group", GROUP)
        avahi = Service(machine, conf + ".log", "unshare", "--mount", "sh", "-c", AVAHI_COMMAND, *files)
        machine.services.append(avahi)
        wait_for("Avahi runs", lambda: avahi.says("Server startup complete"))
        return avahi

    def announce(self, machine, name, port, *txt, kind="_starling._tcp"):
        """Announces anything, as a stranger could."""
        log = os.path.join(self.folder, f"announced-{len(machine.services)}-{machine.name}.log")
        service = Service(machine, log, "avahi-publish", "--service", name, kind, str(port), *txt)
        machine.services.append(service)
        wait_for(f"{name} is announced", lambda: service.says("Established under name"))
        return service

    def close(self):
        for machine in self.machines.values():
            for service in machine.services:
                service.end()
        self.net.close()
