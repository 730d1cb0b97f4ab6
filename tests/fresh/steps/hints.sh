# What errors tell to type, typed as they tell it: after `sudo` by root, which has no need of it.
set -eu
user=sensor
id $user >/dev/null 2>&1 || useradd -m -s /bin/bash $user
as_user() { su - $user -c "$1"; }
as_user 'command -v tidegate' >/dev/null || apt-get install -y --no-install-recommends /srv/fresh/tidegate.deb
apt-get install -y --no-install-recommends sudo
count=0

# told WHAT COMMAND CODE: it ends with this code, and with the one of a gateway that serves once the
# command is typed that is printed between the marks.
told() {
    echo "== $1"
    code=0
    as_user "$2" >~/said 2>&1 || code=$?
    cat ~/said
    [[ $code == "$3" ]] || { echo "exit code $code, not $3"; exit 1; }
    command=$(grep -o '`[^`]*`' ~/said | tr -d '`' | grep "$4" | head -n 1)
    echo "\$ $command"
}

serves() {
    code=0
    timeout 10 bash -c "$1" >~/said 2>&1 || code=$?
    grep -q 'listening for sensors' ~/said || { cat ~/said; exit 1; }
    [[ $code == 124 ]] || { echo "exit code $code"; cat ~/said; exit 1; }
    count=$((count + 1))
}

run() { echo "tidegate run --set admin.listen= --set udp.0.listen=127.0.0.1:21885 --set gateway.state_dir=$1"; }

told 'a state folder that is not there' "$(run /srv/away/state)" 77 'sudo install'
bash -c "$command"
serves "su - $user -c '$(run /srv/away/state)'"

install -d -m 0700 /srv/of-root
told 'a state folder of another user' "$(run /srv/of-root)" 77 'sudo -u'
serves "$command"

install -d -m 0500 -o $user /srv/locked
told 'a state folder that its owner may not write' "$(run /srv/locked)" 77 'sudo chown'
bash -c "$command"
serves "su - $user -c '$(run /srv/locked)'"

# Of `doctor` all that is no file to edit, until it has nothing more to tell.
as_user 'printf "[gateway]\nstate_dir = \"/srv/doctor/state\"\n[admin]\nlisten = \"\"\n[[udp]]\nlisten = \"127.0.0.1:21886\"\n" >~/doctor.toml'
for _ in 1 2 3 4; do
    as_user 'tidegate doctor --only disk --syncs 10 --config ~/doctor.toml --json' >~/found || true
    cat ~/found
    command=$(python3 -c '
import json, sys
found = json.load(open(sys.argv[1]))["disk"]["findings"]
print(next((one["command"] for one in found if one["level"] == "failure"), ""))' ~/found)
    [[ -n $command ]] || break
    echo "\$ $command"
    bash -c "$command"
    count=$((count + 1))
done
[[ -z $command ]] || { echo "and it fails still"; exit 1; }

# What is installed for a verb: by the installer that is there.
for verb in 'demo --seconds 5 --sensors 2' 'flash --port /dev/null --name n1 --gateway 10.0.0.1'; do
    echo "== tidegate $verb"
    as_user "tidegate $verb" >~/said 2>&1 </dev/null || true
    cat ~/said
    command=$(sed -n 's/^.*[Ii]nstall \(them\|it\|esptool\)[^:]*: *//p; s/^ *\(\(sudo\|uv\|pipx\|apt-get\|python3\) .*install.*\)$/\1/p' ~/said | head -n 1)
    [[ -n $command ]] || continue
    echo "\$ $command"
    if [[ $command == *sudo* || $command == apt-get* ]]; then bash -c "$command"; else as_user "$command"; fi
    as_user "tidegate $verb" >~/said 2>&1 </dev/null || true
    cat ~/said
    if grep -q "not installed" ~/said; then exit 1; fi
    count=$((count + 1))
done
# What listeners with DTLS and packets with AES-CCM need, with words of the gateway itself: `check`
# prints it and is content once it is typed.
for keys in 'udp.0.security=dtls-psk' 'protection.schemes=["aes-ccm-128"]'; do
    echo "== $keys"
    check="tidegate check --set udp.0.listen=127.0.0.1:21887 --set gateway.state_dir=/srv/away/state --set '$keys'"
    as_user "$check" >~/said 2>&1 || true
    cat ~/said
    command=$(sed -n 's/^.*install \(them\|it\) with:  *//p' ~/said | head -n 1)
    [[ -n $command ]] || continue # the machine has it
    echo "\$ $command"
    if [[ $command == sudo* ]]; then bash -c "$command"; else as_user "$command"; fi
    as_user "$check" >~/said 2>&1 || true
    cat ~/said
    if grep -q 'install \(them\|it\) with' ~/said; then exit 1; fi
    count=$((count + 1))
done
echo "=> $count commands typed as they were printed"
