# To be sourced. Packages of Debian's archive for another release or architecture than this machine's,
# unpacked in a folder: signed as all of it is, nothing is installed, no root is needed.
# shellcheck shell=bash
readonly KEYS=/usr/share/keyrings/debian-archive-keyring.gpg

# Debian's own mirror of this machine, not that of its security updates.
mirror() {
    apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 'Created-By: Packages' |
        awk '$2 == "Debian" && $3 == "Debian" { print $1; exit }'
}

# The last argument but the names is `install`, with all that they need, or `download`, without.
unpack_from_archive() { # mirror, release, architecture, folder, install or download, names
    local from=$1 release=$2 architecture=$3 folder=$4 how=$5 apt=$4/apt package
    shift 5
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
    touch "$apt/status"
    echo "deb [signed-by=$KEYS] $from $release main" >"$apt/sources.list"
    local options=(
        -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State=$apt/state" -o "Dir::State::Status=$apt/status" -o "Dir::Cache=$apt/cache"
        -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture"
        -o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=2
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    )
    apt-get "${options[@]}" update
    if [[ $how == install ]]; then
        apt-get "${options[@]}" -y --download-only --no-install-recommends install "$@"
    else
        (cd "$apt/cache/archives" && apt-get "${options[@]}" download "$@")
    fi
    for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$folder/root"; done
}
