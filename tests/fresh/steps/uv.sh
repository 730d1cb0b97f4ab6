cd ~/tidegate
pipx uninstall tidegate || true
pipx install uv
bash -lc "uv tool install --python /usr/bin/python3 ."
bash -l /srv/fresh/gateway.sh
