# Puts together the app (formerly add-on) for Home Assistant, in build/home_assistant_app: the folder
# of docs/examples with the wheel of this tree and the list of its packages beside it. The Supervisor
# builds an app from its own folder alone.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
into=build/home_assistant_app
rm -rf $into
mkdir -p build
cp -R docs/examples/home_assistant_app $into
cp .ci/requirements-gateway.lock $into/tidegate/
.venv/bin/python -m hatchling build -t wheel -d "$PWD/$into/tidegate" >/dev/null
cat <<END
$into is a repository of apps; $into/tidegate is the app.
Copy that folder into \\\\homeassistant.local\\addons (the app "Samba share" or "Advanced SSH"), then
Settings, Apps, App store, Check for updates: Tidegate is under "Local apps".
END
