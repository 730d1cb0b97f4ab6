"""The keys of the status page and its API: where it listens, who may see it, who may act."""

from gateway.config import settings
from gateway.config.addresses import Listen
from gateway.config.credential import CredentialPath
from gateway.config.kinds import Choice, HashedSecret, SocketPath, Text, Texts
from gateway.config.schema import Key, Table

HOSTS_MAX = 32
ACCOUNTS_MAX = 256
HOST = Text(1, 253, forbidden=" /:@")
ACCOUNT = Text(1, 64, characters=True)
ROLES = Choice(("viewer", "operator"))

# fmt: off
ADMIN = Table("admin", "Health, metrics and the status page over HTTP",
              settings=settings.AdminSettings, parts=(
    Key("listen", Listen(optional=True), "Address and port; another address than one of this "
        "machine alone (127.0.0.1, ::1) needs a password, a user, a token or anonymous", "only "
        "this machine"),
    Key("certificate", CredentialPath(),
        "Certificate (PEM) of the page, with those between it and its authority: the page is "
        "https then; read again when the file changes",
        "on this machine alone nothing passes a network",
        example='"/etc/tidegate/page.pem"'),
    Key("key", CredentialPath(), "Private key (PEM) of certificate, if it is not in the same file",
        example='"/etc/tidegate/page.key"', needs="certificate"),
    Key("password_file", CredentialPath(),
        "File that holds the password of the operator tidegate, or what `tidegate password` makes "
        "of it, and nothing else; without it, and without users and tokens, the page only shows",
        "nothing can be changed by anyone who reaches the page",
        example='"/etc/tidegate/admin.password"', at_once=True),
    Key("anonymous", Choice(("auto", "viewer", "none")),
        "What may be seen without signing in: with viewer all of it, with none only whether the "
        "gateway is well (/healthz, /readyz); auto: viewer as long as the page is on this machine "
        "alone and there is no user and no token, else none",
        "as it was on one machine, and nothing is shown to a network"),
    Key("hosts", Texts(HOSTS_MAX, HOST), "Names under which the page answers, beside IP addresses, "
        "localhost and the name of this machine, alone or in .local; no ports; \"*\" for any name, "
        "where only a proxy that asks who it is reaches the page",
        "what no other site can take", example='["gateway.example.org"]'),
    Key("socket", SocketPath(),
        "Unix socket for the command line on this machine, which needs no password there: root and "
        "the gateway's own user are operators; auto: /run/tidegate/admin.sock for the service, "
        "else admin.sock in gateway.state_dir; there is none if listen is switched off",
        "who may read the state folder has no use for a password"),
    Key("socket_group", Text(1, 32, forbidden="/:"),
        "Group whose members may use the socket", "that of the service", example='"adm"'),
    Key("socket_role", Choice(("viewer", "operator", "none")), "What members of that group may do",
        "to look is harmless"),
))

ADMIN_USER = Table("admin_user", "Users of the status page", settings=settings.AdminUserSettings,
                   parts=(
    Key("name", ACCOUNT, "Name to sign in with", default="must be given", example='"anna"',
        at_once=True),
    Key("password", HashedSecret("scrypt"), "What `tidegate password` makes of the password",
        default="must be given", example=f'"$scrypt$ln=14,r=8,p=5${"A" * 22}${"A" * 32}"',
        at_once=True),
    Key("role", ROLES, "Whether the user may only look, or act as well", "looking is harmless",
        at_once=True),
))

ADMIN_TOKEN = Table("admin_token", "Tokens by which programs use the API",
                    settings=settings.AdminTokenSettings, parts=(
    Key("name", ACCOUNT, "Name in the log", default="must be given", example='"prometheus"',
        at_once=True),
    Key("token", HashedSecret("sha256"), "What `tidegate password --token NAME` prints for it",
        default="must be given", example=f'"$sha256${"A" * 43}"', at_once=True),
    Key("role", ROLES, "Whether the program may only look, or act as well", "looking is harmless",
        at_once=True),
))
