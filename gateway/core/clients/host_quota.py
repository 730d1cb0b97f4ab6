"""How many clients each host has, and who gives way when all places are taken.

A host is what an address says beside the port (`EngineOptions.host_of`): the nodes behind one
forwarder, and those on one serial line, are one host. No client is refused while there are places,
so all may be of one host, as behind a router. When places run out the host with the most gives
way first, to one that has fewer even after that: the client of it that has been silent the longest
among those that are unproven (`Session.is_proven`). One that is proven never gives way to an
unknown client, and its host is left out where all are. So who has few clients cannot be kept out,
nor put out, by ids that somebody else makes up.

Which clients are proven is asked when a place is needed, not when they prove it: the way of a
reading knows nothing of this. Each is found proven once at most.

Topic names are counted by host as well, but for a few of each client (`NAMES_UNCOUNTED`), and those
of newcomers too (`contests.py`). When a host has `topics_per_host_max` of them, an unproven client
of the same host that has many gives way; where there is none, a further name is refused.

Half-open clients are counted the same way, apart from the others; none of them is proven.

Limits: an entry for each client and for each host that has one; `clients_per_host_max` where the
operator wants a hard limit. Of the clients of a host `LOOKS_MAX` are compared, the first to come.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from itertools import islice
from typing import Generic, Protocol, TypeVar

from gateway.core.clients.admission import Refusal
from gateway.core.drop_reasons import Reason
from gateway.core.session.session import Session
from gateway.core.session.topic_registry import HostNames
from gateway.core.state_records import ClientId
from gateway.core.values import Peer
from gateway.frames import ReturnCode

LOOKS_MAX = 16

HostOf = Callable[[int, bytes], bytes]


class _Member(Protocol):
    @property
    def client_id(self) -> ClientId: ...


Member = TypeVar("Member", bound=_Member)


class Host(Generic[Member]):
    __slots__ = ("clients", "unproven")

    def __init__(self) -> None:
        self.clients = 0
        self.unproven: dict[ClientId, Member] = {}  # the first to come first


class ByHost(Generic[Member]):
    """Members by host; all of them unproven until it is said otherwise."""

    def __init__(self, host_of: HostOf) -> None:
        self._host_of = host_of
        self._keys: dict[ClientId, bytes] = {}
        # A member that is unproven and alone on its host stands for it, as hosts may be many.
        self._hosts: dict[bytes, Member | Host[Member]] = {}
        # Those with two members or more of which one is unproven, by how many they have. There are
        # few numbers, as they add up to no more than all members: 140 for 10,000.
        self._by_size: dict[int, dict[bytes, Host[Member]]] = {}

    def clients(self, peer: Peer) -> int:
        """Of the host that this address is of."""
        return self._size(self._host_of(peer.link, peer.address))

    def largest(self) -> Host[Member] | None:
        """The host with the most members of those that have unproven ones, if it has two."""
        if not self._by_size:
            return None
        return next(iter(self._by_size[max(self._by_size)].values()))

    def enter(self, member: Member, peer: Peer) -> None:
        """It is there from now on, wherever it was."""
        client_id, key = member.client_id, self._host_of(peer.link, peer.address)
        before = self._keys.get(client_id)
        if before == key:
            self._replace(key, member)
            return
        is_unproven = before is None or self.leave(client_id)
        self._keys[client_id] = key
        there = self._hosts.get(key)
        if there is None and is_unproven:
            self._hosts[key] = member
            return
        host = self._as_host(there)
        self._hosts[key] = host
        self._unlist(key, host)
        host.clients += 1
        if is_unproven:
            host.unproven[client_id] = member
        self._list(key, host)

    def leave(self, client_id: ClientId) -> bool:
        """It is over, or never was; whether it was unproven."""
        key = self._keys.pop(client_id, None)
        if key is None:
            return True
        there = self._hosts[key]
        if not isinstance(there, Host):
            del self._hosts[key]
            return True
        self._unlist(key, there)
        there.clients -= 1
        was_unproven = there.unproven.pop(client_id, None) is not None
        if there.clients:
            self._list(key, there)
        else:
            del self._hosts[key]
        return was_unproven

    def prove(self, client_id: ClientId) -> None:
        """It does not give way any more."""
        key = self._keys[client_id]
        host = self._as_host(self._hosts[key])
        self._hosts[key] = host
        self._unlist(key, host)
        host.unproven.pop(client_id, None)
        self._list(key, host)

    def _size(self, key: bytes) -> int:
        there = self._hosts.get(key)
        if there is None:
            return 0
        return there.clients if isinstance(there, Host) else 1

    def _replace(self, key: bytes, member: Member) -> None:
        """Another session of the same client, in the same place."""
        there = self._hosts[key]
        if not isinstance(there, Host):
            self._hosts[key] = member
        elif member.client_id in there.unproven:
            there.unproven[member.client_id] = member

    def _as_host(self, there: Member | Host[Member] | None) -> Host[Member]:
        if isinstance(there, Host):
            return there
        host: Host[Member] = Host()
        if there is not None:
            host.clients = 1
            host.unproven[there.client_id] = there
        return host

    def _list(self, key: bytes, host: Host[Member]) -> None:
        if host.clients > 1 and host.unproven:
            self._by_size.setdefault(host.clients, {})[key] = host

    def _unlist(self, key: bytes, host: Host[Member]) -> None:
        of_size = self._by_size.get(host.clients)
        if of_size is not None and of_size.pop(key, None) is not None and not of_size:
            del self._by_size[host.clients]


class HostQuota(ByHost[Session]):
    """Of the clients that have a session."""

    def __init__(self, host_of: HostOf, clients_max: int = 0, names_max: int = 0) -> None:
        """`clients_max`: of one host, however many places are free; `names_max`: topic names,
        beside `NAMES_UNCOUNTED` of each client; 0 for no limit.
        """
        super().__init__(host_of)
        self._clients_max = clients_max
        self._names_max = names_max
        self._names: dict[bytes, HostNames] = {}  # of hosts with clients that have many

    # Topic names

    def count_names(self, session: Session) -> HostNames | None:
        """Those of a client that has many are counted where it is; None for one that has few."""
        if not self._names_max or not session.topics.is_counted:
            return None
        key = self._host_of(session.peer.link, session.peer.address)
        names = self._names.get(key)
        if names is None:
            names = self._names[key] = HostNames(key, self._names_max)
        self._count_with(session, names)
        return names

    def forget_names(self, session: Session) -> None:
        """Nothing goes on with them."""
        self._count_with(session, None)

    def gives_names_to(self, session: Session, contested: Container[ClientId]) -> Session | None:
        """The unproven client with the most names of those on the host of this one."""
        host = self._hosts.get(self._host_of(session.peer.link, session.peer.address))
        if not isinstance(host, Host):
            return None
        most: Session | None = None
        for each in islice(host.unproven.values(), LOOKS_MAX):
            if each is session or not each.topics.is_counted:
                continue
            if not (each.is_proven or each.client_id in contested) and (
                most is None or len(each.topics) > len(most.topics)
            ):
                most = each
        return most

    def _count_with(self, session: Session, names: HostNames | None) -> None:
        before = session.topics.count_with(names)
        if before is not None and not before.registries:
            del self._names[before.host]

    # Clients

    def refusal(self, peer: Peer) -> Refusal | None:
        """Why a new client may not come in from there, or None."""
        if not self._clients_max or self.clients(peer) < self._clients_max:
            return None
        detail = f"{self._clients_max} clients of this host"
        return Refusal(ReturnCode.CONGESTION, Reason.HOST_FULL, detail)

    def gives_way_to(self, peer: Peer, contested: Container[ClientId]) -> Session | None:
        """Whose place a new client from there may take. `contested`: clients in whose names are two
        conversations; to end one of them frees no place.
        """
        clients = self.clients(peer)
        host = self.largest()
        while host is not None and host.clients > clients + 1:
            longest: Session | None = None
            for each in list(islice(host.unproven.values(), LOOKS_MAX)):
                if each.is_proven or each.client_id in contested:
                    self.prove(each.client_id)
                elif longest is None or each.last_received_at < longest.last_received_at:
                    longest = each
            if longest is not None:
                return longest
            host = self.largest()
        return None

    def may_replace(self, absent: Session, peer: Peer) -> bool:
        """Whether a new client from there may take the place of one that is absent for long: its
        host has no more clients after that, or nothing is lost.
        """
        if not absent.is_worth_keeping:
            return True
        key = self._host_of(peer.link, peer.address)
        of_absent = self._host_of(absent.peer.link, absent.peer.address)
        return key == of_absent or self._size(key) < self._size(of_absent)
