"""A Debian of its own in a folder, thrown away afterwards, and booted with a systemd of its own.

Rules
- The base of each release and architecture is made once by debootstrap and kept in a cache:
  $TIDEGATE_ROOTS, or tidegate/roots below $XDG_CACHE_HOME or ~/.cache. Each use is a layer over it.
- The mirror, and what reaches it, are those of this machine's own apt.
- What runs in it has processes, a host name, devices and shared memory of its own, and a network of
  its own: none, or one behind slirp4netns. It ends with all its processes.
- Another architecture than this machine's runs by qemu-user, which the kernel calls by a
  registration of the folder's own (Linux 6.7), so that nothing of this machine is changed; where
  the kernel is older, by one that the machine has.
- Booting needs systemd-nspawn and the right to use it; what needs more than a folder asks for it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import IO, Self

REPOSITORY = Path(__file__).resolve().parents[2]
# All that the package depends on, so that its installation can be done without a network.
FOR_THE_PACKAGE = ("systemd", "systemd-sysv", "dbus", "python3", "init-system-helpers", "man-db")
BOOT_S = 90.0
COMMAND_S = 300.0
EMULATORS = {"arm64": "aarch64", "armhf": "arm", "amd64": "x86_64"}  # as qemu names them
# A path of its own in each of them, and no variable of this machine.
SURROUNDINGS = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TERM": "dumb",
    "DEBIAN_FRONTEND": "noninteractive",
}
TRUSTED = Path("etc/ssl/certs/ca-certificates.crt")
# What sends a client of a registry to it, which a machine may need.
WAYS_OUT = ("_PROXY", "_CERT", "_CA_BUNDLE", "_INDEX_URL", "_CERT_FILE")
APT_WAYS_OUT = ("Proxy", "Check-Valid-Until", "Check-Date", "CAInfo", "Verify-Peer")

# Holds what follows until the maps of the name space, and its network, were made from outside.
HOLD = 'read -r _ && exec "$@" </dev/null'
# Mounts what is /dev below $root.
DEVICES = r"""
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for each in null zero full random urandom tty; do
    : >"$root/dev/$each"
    mount --bind /dev/$each "$root/dev/$each"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for each in 0:stdin 1:stdout 2:stderr; do
    ln -s /proc/self/fd/${each%:*} "$root/dev/${each#*:}"
done
"""
ENTER = (
    r"""
set -e
root=$1 host=$2 emulator=$3 python=$4 pivot=$5
shift 5
mount --make-rprivate /
if [ -n "$emulator" ]; then
    formats=/proc/sys/fs/binfmt_misc
    name=qemu-$emulator
    if mount -t binfmt_misc binfmt_misc $formats 2>/dev/null && [ ! -e $formats/$name ]; then
        cat /usr/lib/binfmt.d/$name.conf >$formats/register
    fi
    [ -e $formats/$name ] || { echo "the kernel cannot be told of $name" >&2; exit 69; }
fi
ip link set lo up 2>/dev/null || true
mount --bind "$root" "$root"
# In a container debootstrap leaves a link there until its second stage.
if [ -L "$root/proc" ]; then rm "$root/proc" && mkdir "$root/proc"; fi
mount -t proc proc "$root/proc"
if [ -n "$emulator" ]; then mount --bind $formats "$root$formats"; fi # it goes with its last mount
"""
    + DEVICES
    + r"""
hostname "$host"
exec "$python" -I -c "$pivot" "$root" "$@"
"""
)
# In a chroot the kernel gives no user name space; so the folder becomes the root. By a
# program that runs already: those in the folder may be emulated, where umount fails.
PIVOT = """
import ctypes, os, sys, warnings  # the last for execvp, which finds no module afterwards

root, *command = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(root)
if libc.pivot_root(b".", b".") or libc.umount2(b".", 2):
    sys.exit(f"the root cannot be changed: {os.strerror(ctypes.get_errno())}")
os.chdir("/")
os.execvp(command[0], command)
"""


class Network(Enum):
    """What of it a folder has."""

    NONE = "none"
    OWN = "its own, behind slirp4netns"
    SHARED = "this machine's: a port of another program may be in the way"


def why_not(architecture: str | None = None) -> str | None:
    """Why there is no Debian in a folder here, or None."""
    if os.geteuid() != 0:
        return "it needs root"
    needed = ["debootstrap", "unshare", "dpkg-deb"]
    emulator = emulator_of(architecture)
    if emulator:
        needed.append(f"qemu-{emulator}-static")
    missing = [name for name in needed if not shutil.which(name)]
    return f"{', '.join(missing)} missing" if missing else None


def why_no_boot() -> str | None:
    return None if shutil.which("systemd-nspawn") else "systemd-nspawn is missing"


def this_architecture() -> str:
    return run("dpkg", "--print-architecture").strip()


def emulator_of(architecture: str | None) -> str:
    """Empty where the processor runs it."""
    if architecture is None or architecture == this_architecture():
        return ""
    return EMULATORS[architecture]


def run(
    *command: str | Path, check: bool = True, environment: Mapping[str, str] | None = None
) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=COMMAND_S * 4,
        check=False,
        env={
            **os.environ,
            "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
            **(environment or {}),
        },
    )
    said = done.stdout + done.stderr
    assert not check or done.returncode == 0, f"{command}: {said}"
    return said


# The base


def cache() -> Path:
    chosen = os.environ.get("TIDEGATE_ROOTS")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else caches / "tidegate" / "roots"


def base(release: str, packages: Sequence[str], architecture: str | None = None) -> Path:
    architecture = architecture or this_architecture()
    digest = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:8]
    folder = cache() / f"{release}-{architecture}-{digest}"
    root = folder / "root"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        options = ["--variant=minbase", f"--arch={architecture}", f"--include={','.join(packages)}"]
        emulator = emulator_of(architecture)
        if emulator:
            options.append("--foreign")
        run("debootstrap", *options, release, root, *filter(None, [mirror()]))
        if emulator:
            # It makes no devices in a container, where it may not, and takes those that are there.
            second = ("/debootstrap/debootstrap", "--second-stage")
            with entered(
                root, "debian", ("env", "container=lxc", *second), emulator=emulator
            ) as it:
                said, _ = it.communicate()
                assert it.returncode == 0, said.decode(errors="replace")
        (folder / "complete").touch()
    return root


def mirror() -> str | None:
    """Debian's own one of this machine's apt, not that of its security updates."""
    shown = "$(REPO_URI) $(ORIGIN) $(LABEL)"
    said = run("apt-get", "indextargets", "--format", shown, "Created-By: Packages", check=False)
    lines = (line.split() for line in said.splitlines())
    return next((line[0] for line in lines if line[1:] == ["Debian", "Debian"]), None)


# What runs in it


@contextmanager
def entered(
    root: Path,
    host: str,
    command: Sequence[str],
    *,
    network: Network = Network.SHARED,
    emulator: str = "",
    output: int | IO[bytes] = subprocess.PIPE,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a folder, with standard output and error in one; at the end it is ended."""
    kinds = ["--user"] if emulator else []
    if network is not Network.SHARED:
        kinds.append("--net")
    own = ("--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc")
    outer = ["unshare", *kinds, "sh", "-c", HOLD, "sh", "unshare", *own]
    process = subprocess.Popen(
        [
            *outer,
            "sh",
            "-c",
            ENTER,
            "sh",
            str(root),
            host,
            emulator,
            sys.executable,
            PIVOT,
            *command,
        ],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**SURROUNDINGS, **ways_out()},
        start_new_session=True,
    )
    uplink = None
    try:
        for kind in kinds:
            _until_apart(process, kind.removeprefix("--"))
        if emulator:
            for ids in ("uid_map", "gid_map"):
                Path(f"/proc/{process.pid}/{ids}").write_text("0 0 65536\n")
        if network is Network.OWN:
            uplink = _uplink(process.pid)
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
        process.stdin = None
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if uplink is not None:
            uplink.kill()
            uplink.wait()


def ways_out() -> dict[str, str]:
    """Variables by which clients of registries find them from here."""
    return {key: value for key, value in os.environ.items() if key.upper().endswith(WAYS_OUT)}


def _until_apart(process: subprocess.Popen[bytes], kind: str) -> None:
    deadline = time.monotonic() + COMMAND_S
    theirs, ours = (Path(f"/proc/{each}/ns/{kind}") for each in (process.pid, "self"))
    while theirs.readlink() == ours.readlink():
        assert process.poll() is None, f"no {kind} name space"
        assert time.monotonic() < deadline, f"no {kind} name space"
        time.sleep(0.01)


def _uplink(pid: int) -> subprocess.Popen[bytes]:
    """A network for it; nothing of this machine's loopback is reached by it."""
    ready, theirs = os.pipe()
    options = ("--configure", "--disable-host-loopback", f"--ready-fd={theirs}")
    started = subprocess.Popen(
        ["slirp4netns", *options, str(pid), "tap0"],
        pass_fds=(theirs,),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    with open(ready, "rb") as pipe:  # noqa: PTH123 # a descriptor
        assert pipe.read(1) == b"1", "slirp4netns does not start"
    return started


def prepare_network(root: Path, network: Network) -> None:
    """As on an installed machine, but that its own name is in no file."""
    etc = root / "etc"
    (etc / "hosts").write_text("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n")
    (etc / "resolv.conf").unlink(missing_ok=True)
    servers = Path("/etc/resolv.conf").read_text()
    own = "nameserver 10.0.2.3\n"  # slirp4netns
    (etc / "resolv.conf").write_text(own if network is Network.OWN else servers)
    if Path("/", TRUSTED).exists():
        shutil.copy(Path("/", TRUSTED), root / TRUSTED)
    if Path("/etc/pip.conf").exists():
        shutil.copy("/etc/pip.conf", etc)
    said = run("apt-config", "dump").splitlines()
    kept = [line for line in said if line.split("::")[-1].split(" ")[0] in APT_WAYS_OUT]
    (etc / "apt/apt.conf.d/90machine").write_text("".join(f"{line}\n" for line in kept))


class DebianFolder:
    def __init__(
        self,
        release: str,
        folder: Path,
        *,
        packages: Sequence[str] = FOR_THE_PACKAGE,
        architecture: str | None = None,
        network: Network = Network.NONE,
        host: str = "tidegate-test",
    ) -> None:
        self.root = folder / "root"
        self._layers = [folder / name for name in ("upper", "work")]
        for path in (self.root, *self._layers):
            path.mkdir(parents=True)
        self._base = base(release, packages, architecture)
        self._emulator = emulator_of(architecture)
        self._network = network
        self._host = host
        self._container: subprocess.Popen[bytes] | None = None
        self._init = 0

    def __enter__(self) -> Self:
        upper, work = self._layers
        options = f"lowerdir={self._base},upperdir={upper},workdir={work}"
        run("mount", "-t", "overlay", "overlay", "-o", options, self.root)
        if self._network is not Network.NONE:
            prepare_network(self.root, self._network)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._container is not None:
            # All in it end with its init; with systemd-nspawn alone none of them would.
            if self._init:
                with suppress(ProcessLookupError):
                    os.kill(self._init, signal.SIGKILL)
            else:
                self._container.kill()
            self._container.wait(COMMAND_S)
        run("umount", self.root)

    def do(self, command: str, *, check: bool = True) -> str:
        """In the folder, or in what was booted from it; without a network in either case."""
        if self._container is not None:
            where = ("nsenter", "-t", str(self._init), "-a")
            return run(*where, "sh", "-c", command, check=check)
        with self.process(("sh", "-c", command)) as process:
            said = process.communicate(timeout=COMMAND_S * 4)[0].decode(errors="replace")
            assert not check or process.returncode == 0, f"{command}: {said}"
            return said

    @contextmanager
    def process(
        self, command: Sequence[str], output: int | IO[bytes] = subprocess.PIPE
    ) -> Iterator[subprocess.Popen[bytes]]:
        with entered(
            self.root,
            self._host,
            command,
            network=self._network,
            emulator=self._emulator,
            output=output,
        ) as process:
            yield process

    def boot(self) -> None:
        options = ("--register=no", "--keep-unit", "--boot", "--private-network", "--quiet")
        self._container = subprocess.Popen(
            ["systemd-nspawn", f"--directory={self.root}", "--machine=tidegate-test", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait(self._is_up, "the boot")

    def wait_for(self, command: str, what: str) -> str:
        """Until the command says so."""
        self._wait(lambda: what in self.do(command, check=False), f"{what!r} from {command}")
        return self.do(command, check=False)

    def _is_up(self) -> bool:
        assert self._container is not None
        children = run("pgrep", "-P", str(self._container.pid), check=False).split()
        if not children:
            return False
        self._init = int(children[0])
        state = self.do("systemctl is-system-running", check=False).strip()
        return state in ("running", "degraded")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + BOOT_S
        while not condition():
            assert time.monotonic() < deadline, f"no {what}"
            time.sleep(0.2)
