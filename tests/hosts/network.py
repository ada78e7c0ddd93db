#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network of hosts on one machine, for tests: see README.md beside this file.

    with Network(hosts=2) as net:
        net.run(0, ["ssh", "-F", net.ssh_config, "h1", "hostname"])

    network.py --hosts 2 [options] -- COMMAND...      runs COMMAND on host h0
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_TOOLS = ("ip", "iptables", "ip6tables", "nsenter", "ssh", "ssh-keygen", "tc", "unshare")
_SSHD_PLACES = "/usr/sbin:/sbin:/usr/local/sbin:/usr/libexec"
_LIMIT = 20.0
_MAIN, _SECOND = ("10.77.0", "fd77::"), ("10.78.0", "fd78::")  # nothing outside sees them
_DOCKER_ADDRESS = "172.17.0.1/16"

# The first process of a host: names it, gives it what must be its own, and lives until the test's end of the pipe closes,
# also by kill -9. With SIGCHLD ignored the kernel reaps the orphans that it inherits. What this user's shell does at its
# start (loading version managers, printing) is none of the tests' business.
_HOST = """
set -e
hostname {name}
mount -t tmpfs tmpfs /dev/shm
mount -t sysfs sysfs /sys
test ! -f ~/.bashrc || mount --bind /dev/null ~/.bashrc
mount --bind {folder}/{name}.hosts /etc/hosts
mkdir -p /run/sshd
ip link set lo up
echo ready
trap '' CHLD HUP INT TERM
exec cat >/dev/null
"""
# The switch has a namespace of its own, so nothing is added to the machine's network. It removes the folder at the end.
_SWITCH = """
set -e
for bridge in {bridges}; do ip link add $bridge type bridge; ip link set $bridge up; done
echo ready
trap '' HUP INT TERM
cat >/dev/null
rm -rf {folder}
"""
_SSHD = """
HostKey {folder}/hostkey
AuthorizedKeysFile {folder}/id.pub
PidFile none
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
MaxStartups 200
"""
_SSH = """
Host *
  IdentityFile {folder}/id
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""


def available():
    """None, or the reason why this machine cannot run such a network."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if _sshd() is None:
        missing.append("sshd")
    if missing:
        return f"not installed: {' '.join(missing)}"
    probe = ("mount -t tmpfs tmpfs /dev/shm && ip link add br0 type bridge && ip link add v0 type veth peer name v1 && "
             "iptables -A INPUT -s 192.0.2.1 -j DROP")
    done = subprocess.run([*_unshare(), "sh", "-c", probe], capture_output=True, text=True)
    return None if done.returncode == 0 else f"network namespaces are not permitted: {done.stderr.strip()}"


def _unshare():
    return ["unshare", "--net", "--mount", *_propagation(), "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]


def _propagation():
    """What a host mounts must not reach us. unshare sees to that, except in a chroot, whose root it cannot change: there it must
    be so already."""
    mounts = [line.split() for line in _read("/proc/self/mountinfo").splitlines()]
    in_chroot = not any(fields[4] == "/" for fields in mounts)
    shared = any(field.startswith("shared:") for fields in mounts for field in fields[6 : fields.index("-")])
    return ["--propagation", "unchanged"] if in_chroot and not shared else []


def _sshd():
    return shutil.which("sshd", path=os.environ.get("PATH", "") + ":" + _SSHD_PLACES)


class HostProcess(subprocess.Popen):
    """A process on a host. Signals go to the command itself, not to the nsenter before it; `pid` is nsenter's."""

    @property
    def command_pid(self):
        """The command's process id as seen from outside; None when it has ended."""
        deadline = time.monotonic() + _LIMIT
        while self.poll() is None and time.monotonic() < deadline:
            children = _read(f"/proc/{self.pid}/task/{self.pid}/children").split()
            if children:
                return int(children[0])
            time.sleep(0.001)
        return None

    def send_signal(self, sig):
        pid = self.command_pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):  # it may have ended since, before nsenter has
                os.kill(pid, sig)
            if sig in (signal.SIGCONT, signal.SIGKILL):
                super().send_signal(signal.SIGCONT)  # nsenter stops when its command does, but does not go on with it


class Network:
    """Hosts h0, h1, … on one bridge, an sshd in each; everything ends with the `with` block, or with this process.

    second_network  None, "good", "slow" (1 Mbit/s) or "unreachable" (addresses, but nothing arrives); with it the names of
                    the interfaces differ: eth0 and eth1 on even hosts, enp1 and enp2 on odd ones
    loopback_names  each host finds 127.0.1.1 for its own name, as Debian installs it
    docker_bridge   each host has a bridge docker0 with the same address 172.17.0.1
    rate            what each host can send, for example "1gbit"
    ipv6_only       no IPv4 except 127.0.0.1
    """

    def __init__(self, hosts=2, rate=None, ipv6_only=False, second_network=None, docker_bridge=False,
                 loopback_names=False):
        if second_network not in (None, "good", "slow", "unreachable"):
            raise ValueError(f"second_network: {second_network!r} is not good, slow or unreachable")
        self.host_names = [f"h{index}" for index in range(hosts)]
        self.folder = None
        self.ssh_config = None  # for ssh -F
        self._rate, self._ipv6_only, self._second = rate, ipv6_only, second_network
        self._docker_bridge, self._loopback_names = docker_bridge, loopback_names
        self._switch = None
        self._hosts = []  # the first process of each host, as unshare's Popen
        self._roots = []  # process ids of the first processes
        self._daemons = []

    def __enter__(self):
        try:
            self._write_files()
            bridges = "br0 br1" if self._second else "br0"
            script = _SWITCH.format(bridges=bridges, folder=self.folder)
            self._switch = self._hold(["unshare", "--net"], script)
            for index in range(len(self.host_names)):
                self._start_host(index)
            for index in range(len(self.host_names)):
                self._start_sshd(index)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for holder in self._hosts:
            holder.kill()  # unshare takes the first process with it, and the kernel all others of that host
            holder.wait()
            holder.stdin.close()
            holder.stdout.close()
        for daemon in self._daemons:
            daemon.wait()
        if self._switch:
            self._switch.stdin.close()
            self._switch.stdout.close()
            self._switch.wait()
        elif self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._hosts, self._roots, self._daemons, self._switch = [], [], [], None

    # ---- use

    def run(self, host, argv, env=None, timeout=60, **options):
        """Runs a command on a host and returns its CompletedProcess with text output; after `timeout` it is killed."""
        options.setdefault("stdin", subprocess.DEVNULL)
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        process = self.popen(host, argv, env, **options)
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def popen(self, host, argv, env=None, **options):
        """Starts a command on a host. `env` is added to this process's environment, with the host's TMPDIR."""
        options.setdefault("cwd", os.getcwd())
        inside = ["env", "-C", options.pop("cwd"), "--", *argv]  # entering a mount namespace loses the folder
        env = {**os.environ, "TMPDIR": self.temporary(host), **(env or {})}
        return HostProcess([*self.enter(host), *inside], env=env, **options)

    def temporary(self, host):
        """The folder for temporary files of a host (TMPDIR), removed at the end."""
        return f"{self.folder}/{self.host_names[host]}.tmp"

    def processes(self, host):
        """{pid as seen from outside: command line} of what lives on a host, without its first process and sshd."""
        found = {}
        if not os.path.exists(f"/proc/{self._roots[host]}/ns/pid"):
            return found  # killed by kill_host
        space = os.stat(f"/proc/{self._roots[host]}/ns/pid").st_ino
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                command = _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
                if os.stat(f"/proc/{pid}/ns/pid").st_ino == space and command and "sshd" not in command:
                    found[int(pid)] = command
            except OSError:
                continue  # ended meanwhile
        found.pop(self._roots[host], None)
        return found

    def addresses(self, host, family=None):
        """The addresses of a host on the first network, IPv4 first; family 4 or 6 for one kind only."""
        found = [f"{_MAIN[0]}.{host + 1}"] if not self._ipv6_only and family in (None, 4) else []
        return found + ([f"{_MAIN[1]}{host + 1}"] if family in (None, 6) else [])

    def interfaces(self, host):
        """The names of a host's interfaces: of the first network, and of the second if there is one."""
        names = ("eth0", "eth1") if host % 2 == 0 or not self._second else ("enp1", "enp2")
        return list(names[: 2 if self._second else 1])

    def drop(self, source, target, both=False):
        """Packets from source to target vanish without a word; with `both` also the other way."""
        self._filter("-A", source, target, both)

    def undrop(self, source, target, both=False):
        """Ends what the same call of drop began."""
        self._filter("-D", source, target, both)

    def cut(self, host):
        """Pulls a host's cables: its links stay configured, but carry nothing."""
        self._links(host, "down")

    def uncut(self, host):
        """Plugs them in again. The kernels may take a second to notice."""
        self._links(host, "up")

    def kill_host(self, host):
        """Everything on the host dies at once, as without power; its kernel answers nothing any more."""
        self.cut(host)
        self._hosts[host].kill()
        self._hosts[host].wait()

    # ---- make

    def _write_files(self):
        self.folder = tempfile.mkdtemp(prefix="hvd-hosts-")
        os.chmod(self.folder, 0o755)
        for name in ("id", "hostkey"):
            _call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.folder}/{name}"])
        os.chmod(f"{self.folder}/id.pub", 0o600)
        key = " ".join(_read(f"{self.folder}/hostkey.pub").split()[:2])
        known = [name for index, host in enumerate(self.host_names) for name in (host, *self.addresses(index))]
        folder = Path(self.folder)
        (folder / "known_hosts").write_text("".join(f"{name} {key}\n" for name in known))
        (folder / "sshd").write_text(_SSHD.format(folder=self.folder))
        self.ssh_config = str(folder / "ssh_config")
        Path(self.ssh_config).write_text(_SSH.format(folder=self.folder))
        for index, name in enumerate(self.host_names):
            lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
            for other, other_name in enumerate(self.host_names):
                own = other == index and self._loopback_names
                lines.append(f"{'127.0.1.1' if own else self.addresses(other)[0]} {other_name}")
            (folder / f"{name}.hosts").write_text("\n".join(lines) + "\n")
            (folder / f"{name}.tmp").mkdir()

    def _hold(self, unshare, script):
        """Starts a first process and waits until it says that it is ready."""
        process = subprocess.Popen([*unshare, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if process.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{unshare[0]} ended with {process.wait()}")
        return process

    def _start_host(self, index):
        name = self.host_names[index]
        holder = self._hold(_unshare(), _HOST.format(name=name, folder=self.folder))
        self._hosts.append(holder)
        self._roots.append(int(_read(f"/proc/{holder.pid}/task/{holder.pid}/children").split()[0]))
        for number, (interface, network) in enumerate(zip(self.interfaces(index), (_MAIN, _SECOND))):
            port = f"h{index}-{number}"
            _call([*self.enter_switch(), "ip", "link", "add", port, "type", "veth", "peer", "name", interface,
                   "netns", str(self._roots[index])])
            if number == 0 or self._second != "unreachable":
                _call([*self.enter_switch(), "ip", "link", "set", port, "master", f"br{number}"])
            _call([*self.enter_switch(), "ip", "link", "set", port, "up"])
            self._set_up(index, interface, network, self._rate if number == 0 or self._second != "slow" else "1mbit")
        if self._docker_bridge:
            for command in ("link add docker0 type bridge", f"addr add {_DOCKER_ADDRESS} dev docker0",
                            "link add container type veth peer name inner", "link set container master docker0 up",
                            "link set inner up", "link set docker0 up"):
                _call([*self.enter(index), "ip", *command.split()])

    def _set_up(self, host, interface, network, rate):
        enter = self.enter(host)
        if not self._ipv6_only:
            _call([*enter, "ip", "addr", "add", f"{network[0]}.{host + 1}/24", "dev", interface])
        _call([*enter, "ip", "addr", "add", f"{network[1]}{host + 1}/64", "dev", interface, "nodad"])
        _call([*enter, "ip", "link", "set", interface, "up"])
        if rate:
            _call([*enter, "tc", "qdisc", "add", "dev", interface, "root", "tbf", "rate", rate, "burst", "256kb",
                   "latency", "50ms"])

    def _start_sshd(self, index):
        log = f"{self.folder}/sshd{index}.log"
        with open(log, "wb") as file:
            arguments = [_sshd(), "-D", "-e", "-f", f"{self.folder}/sshd", "-o", f"SetEnv=TMPDIR={self.temporary(index)}"]
            daemon = self.popen(index, arguments, cwd="/", stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        self._daemons.append(daemon)
        deadline = time.monotonic() + _LIMIT
        while "Server listening on ::" not in _read(log):
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sshd on {self.host_names[index]} does not start: {_read(log).strip()}")
            time.sleep(0.005)

    # ---- parts

    def enter(self, host):
        """What a command line begins with to run in the namespaces of a host."""
        return ["nsenter", "-t", str(self._roots[host]), "-n", "-m", "-u", "-i", "-p", "-r", "--"]

    def enter_switch(self):
        """The same for the network namespace of the switch, which has a port h0-0, h1-0, … for each host."""
        return ["nsenter", "-t", str(self._switch.pid), "-n", "--"]

    def _filter(self, action, source, target, both):
        for sender, receiver in ((source, target), (target, source))[: 2 if both else 1]:
            for tool, family in (("iptables", 4), ("ip6tables", 6)):
                for address in self.addresses(sender, family):
                    _call([*self.enter(receiver), tool, "-w", action, "INPUT", "-s", address, "-j", "DROP"])

    def _links(self, host, state):
        for number in range(len(self.interfaces(host))):
            _call([*self.enter_switch(), "ip", "link", "set", f"h{host}-{number}", state])


def _call(argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")


def _read(path):
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def main():
    parser = argparse.ArgumentParser(usage="network.py [options] -- command [arguments]",
                                     description="Runs a command on h0 of a network of hosts; HVD_TEST_HOSTS holds their "
                                     "names, HOROVOD_SSH_ARGS what ssh needs.")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--rate", metavar="1gbit")
    parser.add_argument("--ipv6-only", action="store_true")
    parser.add_argument("--second-network", nargs="?", const="good", choices=("good", "slow", "unreachable"))
    parser.add_argument("--docker-bridge", action="store_true")
    parser.add_argument("--loopback-names", action="store_true")
    parser.add_argument("command", nargs="+")
    options = vars(parser.parse_args())
    command = options.pop("command")
    reason = available()
    if reason:
        sys.exit(f"network.py: {reason}")
    with Network(**options) as net:
        env = {"HVD_TEST_HOSTS": ",".join(net.host_names), "HOROVOD_SSH_ARGS": f"-F {net.ssh_config}"}
        process = net.popen(0, command, env)
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        signal.signal(signal.SIGINT, lambda *_: None)  # the terminal sends it to the command as well
        code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
