#!/usr/bin/env bash
# Makes .venv/bin/tidegate, and brings what `make demo` and `make test` need besides, on Debian 12
# and 13 and Raspberry Pi OS with nothing prepared but python3, make and git.
#
# Rules
# - Done once, it takes milliseconds and no network: .venv/.ready holds what decided the result.
# - Interrupted anywhere, it starts again: .venv/.ready is written last.
# - It changes nothing outside the repository but by apt-get, as root or by sudo without a password.
# - Exit codes: 69 something is not available, 73 the disk, 77 permission.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=.venv
READY=$VENV/.ready
LOG=$VENV/setup.log
LOCKS=".ci/requirements-build.lock .ci/requirements.lock"
SYSTEM_PYTHON=${SYSTEM_PYTHON:-/usr/bin/python3}
MICROBIT_FIRMWARE=${MICROBIT_FIRMWARE:-/usr/share/firmware-microbit-micropython/firmware.hex}
MICROBIT_PACKAGES="qemu-system-arm firmware-microbit-micropython" # 60 MB
DISK_FREE_KIB_MIN=737280 # measured: 565 MiB of environment, 155 MiB of downloads on their way
COMPILE_KIB_MIN=1048576 # measured: 530 MiB for mypyc, then 70 for each compiler
started=$SECONDS

say() { printf 'setup: %s\n' "$*"; }

fail() { # code, lines
    local code=$1
    shift
    printf 'setup: %s\n' "$1" >&2
    shift
    if (($#)); then printf '       %s\n' "$@" >&2; fi
    exit "$code"
}

# What decides the result: where the environment is and which Python made it; then the contents.
place() { printf '%s %s\n' "$PWD" "$(readlink -f "$VENV/bin/python" || true)"; }
# shellcheck disable=SC2086 # names without spaces, one word each
contents() { cat pyproject.toml $LOCKS .ci/setup.sh | sha256sum; }

# Debian puts it in /usr/sbin, which is not on an ordinary user's PATH.
has_mosquitto() { PATH=$PATH:/usr/sbin:/usr/local/sbin command -v mosquitto >/dev/null; }
has_microbit() { command -v qemu-system-arm >/dev/null && [[ -e $MICROBIT_FIRMWARE ]]; }
has_uv() { command -v uv >/dev/null; }
made_by() { sed -n 2p "$READY"; } # the Python that made the environment
is_wanted() { [[ -z ${PYTHON:-} || $(command -v "$PYTHON") == "$(made_by)" ]]; }
is_placed() {
    [[ -r $READY && -x $VENV/bin/python && $(head -n 1 "$READY") == "$(place)" ]] &&
        [[ -x $(made_by) ]] && is_wanted
}
is_ready() {
    is_placed && [[ -x $VENV/bin/tidegate && $(tail -n 1 "$READY") == "$(contents)" ]] && has_mosquitto
}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
makes_environments() { has_uv || "$1" -c 'import ensurepip, venv' 2>/dev/null; }

# Prints the first that is new enough. The system's own comes before others on PATH: it is what the
# package runs, and Debian builds it with a profile, which makes the gateway a tenth faster than with
# one that was built from source (docs/performance.md).
find_python() {
    local candidate system=
    if makes_environments "$SYSTEM_PYTHON"; then system=$SYSTEM_PYTHON; fi
    for candidate in ${PYTHON:-} $system python3 python3.14 python3.13 python3.12 python3.11; do
        if is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail 69 "Python 3.11 or newer is needed; python3 here is $(python3 --version 2>&1 || true)." \
        "Debian 12 or newer and Raspberry Pi OS bookworm or newer have it: upgrade the system, or" \
        "type  make setup PYTHON=/path/to/python3.11  with one that you installed yourself."
}

check_board() {
    if [[ $(uname -m) == armv6l ]]; then
        fail 69 "this board (ARMv6: Raspberry Pi 1, Zero, Zero W) cannot run Tidegate: a package that it needs has no build for it." \
            "Any Raspberry Pi from 2 on, and the Zero 2 W, can."
    fi
}

check_place() {
    if [[ ! -w . ]]; then
        fail 77 "$PWD cannot be written by $(id -un)." "Clone the repository to a folder of your own."
    fi
    if [[ -e $VENV && ! -w $VENV ]]; then
        fail 77 "$VENV belongs to $(stat -c %U "$VENV")." "Type  sudo rm -rf $VENV  and then again."
    fi
}

check_disk() {
    local free_kib
    free_kib=$(df -Pk . | awk 'NR == 2 { print $4 }')
    if ((free_kib < DISK_FREE_KIB_MIN)); then
        fail 73 "$((free_kib / 1024)) MiB are free here, $((DISK_FREE_KIB_MIN / 1024)) are needed." \
            "Free some:  sudo apt-get clean  ;  du -xh --max-depth=2 ~ | sort -h | tail"
    fi
}

# Says why the last step failed, from what its command wrote.
explain() { # what failed
    local said
    said=$(grep -vE '^ *(Collecting|Downloading|Using cached|Requirement already|Building|Installing)' "$LOG" || true)
    tail -n 6 "$LOG" | awk '{ print "    " substr($0, 1, 160) }' >&2
    if grep -qiE 'no space left|quota exceeded' <<<"$said"; then
        fail 73 "$1 failed: the disk is full." "Free some space ($(df -h . | awk 'NR == 2 { print $4 }') left), then again."
    elif grep -qiE 'do not match the hashes|hash mismatch' <<<"$said"; then
        fail 69 "$1 failed: a file that came has not the hash that the lock file has (above)." \
            "Nothing of it was installed. It was changed on its way, or comes from an index with files of its own," \
            "which  $VENV/bin/python -m pip config list  and  env | grep -i index  show."
    elif grep -qiE 'certificate is not yet valid|certificate has expired|is not valid yet' <<<"$said"; then
        fail 69 "$1 failed: the clock may be wrong; it says $(date)." "Set it ( timedatectl status  tells), then again."
    elif grep -qiE 'resol[uv]|unreachable|timed? ?out|connection (refused|reset|broken|failed)|dns error|error sending request|connect error' <<<"$said"; then
        fail 69 "$1 failed: the network or the package index did not answer." \
            "Check the connection (a proxy goes in HTTPS_PROXY), then again."
    fi
    fail 69 "$1 failed; the whole output is in $LOG."
}

install_packages() { # names; from Debian
    local command="apt-get install --no-install-recommends $*" how=()
    if ! command -v apt-get >/dev/null; then
        fail 69 "$* must be installed, and this system has no apt-get." \
            "Install mosquitto 2 (and Python's venv) with its own package tool, then again."
    fi
    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null; then
            fail 77 "missing: $*. Only the administrator can install that. Type" "" \
                "    su -c 'apt-get update && $command'" "" "and then  make setup  again."
        elif ! sudo -n true 2>/dev/null; then
            fail 77 "missing: $*. Installing that needs your password. Type" "" \
                "    sudo apt-get update && sudo $command" "" "and then  make setup  again."
        fi
        how=(sudo -n)
    fi
    say "installing $* with apt-get"
    "${how[@]}" bash .ci/install-packages.sh "$@" >>"$LOG" 2>&1 || explain "Installing $*"
    if [[ " $* " == *" mosquitto "* ]]; then
        say "Debian's own mosquitto service was left off (sudo systemctl enable --now mosquitto)"
    fi
}

# An emulated micro:bit, which only tests need: nobody is asked for a password, and without it they
# are reported as not run.
install_microbit() {
    local how=()
    if has_microbit || ! command -v apt-get >/dev/null; then return; fi
    if ((EUID != 0)); then
        if ! sudo -n true 2>/dev/null; then
            say "tests on a micro:bit will not be run without:  sudo apt-get install $MICROBIT_PACKAGES"
            return
        fi
        how=(sudo -n)
    fi
    say "installing $MICROBIT_PACKAGES with apt-get, for tests"
    # shellcheck disable=SC2086 # names without spaces, one word each
    "${how[@]}" bash .ci/install-packages.sh $MICROBIT_PACKAGES >>"$LOG" 2>&1 ||
        say "they are not available ($LOG says why): tests on a micro:bit will not be run"
}

missing_packages() { # python; prints names
    if [[ ! -x $VENV/bin/python ]] && ! makes_environments "$1"; then
        "$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'
    fi
    has_mosquitto || echo mosquitto
}

is_32_bit() { "$1" -c 'import sys; sys.exit(sys.maxsize > 2**32)'; } # python

# A 32-bit Raspberry Pi OS runs a 64-bit kernel on most boards; without this its Python would call
# the machine aarch64, and packages would be chosen that exist for 64 bits only.
word_size() { # python; prints a command to prefix
    if [[ $(uname -m) =~ 64 ]] && is_32_bit "$1"; then echo setarch linux32; fi
}

# The index of Raspberry Pi OS builds its own wheels for 32-bit ARM, so theirs are other hashes.
has_the_locked_files() { # python
    [[ $(uname -m) =~ ^(x86_64|aarch64)$ ]] && ! is_32_bit "$1"
}

make_environment() { # python
    say "making $VENV with $("$1" --version) ($1)"
    if has_uv; then
        uv venv --quiet --allow-existing --python "$1" "$VENV" >>"$LOG" 2>&1 || explain "Making $VENV"
    else
        "$1" -m venv "$VENV" >>"$LOG" 2>&1 || explain "Making $VENV"
    fi
}

install_python_packages() { # python
    local install=("$VENV/bin/python" -m pip install --no-input --disable-pip-version-check)
    local as32 lock
    read -ra as32 <<<"$(word_size "$1")"
    if has_uv; then install=(uv pip install --python "$VENV/bin/python" --compile-bytecode); fi
    say "installing $(grep -c == .ci/requirements.lock) Python packages (a minute or two on a small board)"
    # The environment's own pip.conf apart, PIP_USER=1 would send everything to the home directory.
    export PIP_USER=0
    if has_the_locked_files "$1"; then
        # What builds comes first, so that a package without a wheel is built by nothing unlocked. The
        # locks are whole; pip before 23.1 would not find the extras of a package that is locked by hash.
        for lock in $LOCKS; do
            "${install[@]}" --require-hashes --no-deps --no-build-isolation -r "$lock" >>"$LOG" 2>&1 ||
                explain "Installing the Python packages"
        done
    else
        sed -E '/^ +--hash=/d; s/ \\$//' .ci/requirements.lock >"$VENV/requirements.txt"
        "${as32[@]}" "${install[@]}" -r "$VENV/requirements.txt" >>"$LOG" 2>&1 ||
            explain "Installing the Python packages"
    fi
    "${as32[@]}" "${install[@]}" --no-deps --no-build-isolation --editable . >>"$LOG" 2>&1 ||
        explain "Installing tidegate"
}

# What every message goes through, for `tidegate run`: a fifth to a third less of the processor under load
# (docs/performance.md). Where it cannot be had the sources run, and nobody is asked for anything; with
# COMPILE=must, as .ci/run has it, it is an error where a compiler is.
compile_modules() {
    local include
    if [[ ${COMPILE:-} == no ]]; then return; fi
    include=$("$VENV/bin/python" -c 'import mypyc, setuptools, sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null) ||
        return 0 # no mypyc for this machine
    if [[ ! -e $include/Python.h ]] || ! command -v gcc >/dev/null; then
        say "not compiled, for which gcc and Python's headers are needed: it runs as it is"
    elif (($(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo) < COMPILE_KIB_MIN)); then
        say "not compiled, for which $((COMPILE_KIB_MIN / 1024)) MiB of memory are needed: it runs as it is"
    else
        say "compiling what every message goes through (half a minute, some on a small board; not with COMPILE=no)"
        if "$VENV/bin/python" .ci/compile.py --if-needed >>"$LOG" 2>&1; then return; fi
        if [[ ${COMPILE:-} == must ]]; then
            tail -n 20 "$LOG" | awk '{ print "    " substr($0, 1, 160) }' >&2
            fail 1 "the modules that every message goes through cannot be compiled, though gcc and Python's headers are here."
        fi
        say "that failed ($LOG says why): it runs as it is"
    fi
}

main() {
    if is_ready; then
        if [[ ${COMPILE:-} == must ]]; then compile_modules; fi
        return
    fi
    check_board
    check_place
    exec 9<"${BASH_SOURCE[0]}"
    flock 9 # two make commands at once: the second waits, and finds everything done
    if is_ready; then return; fi

    local python packages
    python=$(find_python)
    if is_placed; then python=$(made_by); else rm -rf "$VENV"; fi
    if ! has_uv && ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then rm -rf "$VENV"; fi
    [[ -x $VENV/bin/python ]] || check_disk
    packages=$(missing_packages "$python")
    mkdir -p "$VENV"
    : >"$LOG"
    # shellcheck disable=SC2086 # names without spaces, one word each
    if [[ -n $packages ]]; then install_packages $packages; fi
    [[ -x $VENV/bin/python ]] || make_environment "$python"
    install_python_packages "$python"
    install_microbit
    compile_modules
    { place && echo "$python" && contents; } >"$READY"
    say "ready in $((SECONDS - started)) s: $VENV/bin/tidegate"
}

trap 'exit 130' INT
trap 'exit 143' TERM
main
