"""The fault box: what happens to datagrams, lines and the connection to the broker."""
