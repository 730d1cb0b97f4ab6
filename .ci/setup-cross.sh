#!/usr/bin/env bash
# What compiles for a Python of Debian on another machine (.ci/compile.py --headers): a cross-compiler
# by apt-get, and that Python's headers, unpacked in FOLDER/root, where nothing is installed.
#
#     .ci/setup-cross.sh ARCHITECTURE RELEASE PYTHON FOLDER     armhf bookworm 3.11 build/headers
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=.ci/debian-archive.sh
source .ci/debian-archive.sh

fail() {
    printf 'setup-cross: %s\n' "$*" >&2
    exit 69
}

architecture=$1 release=$2 python=$3 folder=$4
case $architecture in
amd64) compiler=x86_64-linux-gnu-gcc packages="gcc-x86-64-linux-gnu libc6-dev-amd64-cross" ;;
arm64) compiler=aarch64-linux-gnu-gcc packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;;
armhf) compiler=arm-linux-gnueabihf-gcc packages="gcc-arm-linux-gnueabihf libc6-dev-armhf-cross" ;;
*) fail "$architecture is none of amd64, arm64, armhf" ;;
esac
# Debian's own compiler of a machine is called so there too.
if [[ $architecture == "$(dpkg --print-architecture)" ]]; then packages="gcc libc6-dev"; fi

compiles() { "$compiler" -include stdio.h -x c -c /dev/null -o /dev/null 2>/dev/null; }

how=()
if ((EUID != 0)); then how=(sudo -n); fi
if ! compiles; then
    # shellcheck disable=SC2086 # names without spaces, one word each
    "${how[@]}" bash .ci/install-packages.sh $packages >&2 || fail "missing:  sudo apt-get install $packages"
fi

from=$(mirror)
if [[ -z $from ]]; then fail "apt knows no mirror of Debian"; fi
if [[ ! -r $KEYS ]]; then fail "Debian's keys are not here:  sudo apt-get install debian-archive-keyring"; fi
rm -rf "$folder"
unpack_from_archive "$from" "$release" "$architecture" "$folder" download \
    "libpython$python-dev" "libpython$python-minimal" >&2
