#!/usr/bin/env bash
# Installs chromium for the tests of the status page, and what Playwright needs to drive it, if they
# are missing and may be installed here.
#
# Never fails: without it those tests are reported as not run, with the reason. They need Playwright
# as well, which make setup installs where there is a build of it (64-bit machines). With
# TIDEGATE_NO_BROWSER=1 nothing is installed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 0

DISK_FREE_KIB_MIN=1048576 # measured: 350 MiB of chromium, 120 MiB of downloads, and some air

leave() {
    echo "no browser: $1; the tests of the status page will not run" >&2
    exit 0
}

# Playwright is driven by a Node.js of its own, which needs libatomic1; no package of Debian 12's
# chromium brings it.
drives() { .venv/bin/python -m playwright --version >/dev/null 2>&1; }

missing=()
if [[ -z ${CHROMIUM:-} ]] && ! command -v chromium >/dev/null; then missing+=(chromium); fi
if .venv/bin/python -c 'import playwright' 2>/dev/null && ! drives; then missing+=(libatomic1); fi
if ((${#missing[@]} == 0)); then exit 0; fi
if [[ -n ${TIDEGATE_NO_BROWSER:-} ]]; then leave "TIDEGATE_NO_BROWSER is set"; fi
if ! .venv/bin/python -c 'import playwright' 2>/dev/null; then
    leave "playwright has no build for this machine"
fi
if ! command -v apt-get >/dev/null; then leave "${missing[*]} is not installed, and there is no apt-get"; fi
if (($(df -Pk / | awk 'NR == 2 { print $4 }') < DISK_FREE_KIB_MIN)); then
    leave "${missing[*]} is not installed, and the disk has no gigabyte free for it"
fi
how=()
if ((EUID != 0)); then
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
        leave "not installed:  sudo apt-get install --no-install-recommends ${missing[*]}"
    fi
    how=(sudo -n)
fi
echo "installing ${missing[*]} for the tests of the status page" >&2
if ! "${how[@]}" bash .ci/install-packages.sh "${missing[@]}" >>.venv/setup.log 2>&1; then
    leave "installing ${missing[*]} failed; see .venv/setup.log"
fi
