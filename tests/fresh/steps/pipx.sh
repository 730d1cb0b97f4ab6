cd ~/tidegate
pipx install .
pipx ensurepath
bash -l /srv/fresh/gateway.sh
