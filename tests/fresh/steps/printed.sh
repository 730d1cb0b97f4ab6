# As it was printed, but for the question whether to go on, which a person answers.
echo 'APT::Get::Assume-Yes "true";' >/etc/apt/apt.conf.d/91yes
bash -c "$(cat ~sensor/printed)"
