"""Tokens of service accounts: signed by a key of the data folder, for a time, an audience, and one very account.

A token is good while the account it names is there with the same uid, and so is the object that it is bound to. What
was verified once is remembered by its digest, so that a signature costs its tenth of a millisecond once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from allhands.api.access.identity import AUTHENTICATED, User, account_groups, account_name
from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.server.tls import write_private

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from allhands.ports import Clock, Objects

ISSUER: Final = "https://kubernetes.default.svc"
"""Also the audience of tokens that are for the API itself."""
ACCOUNTS: Final = Resource("", "v1", "serviceaccounts")
BOUND: Final = {
    "Pod": Resource("", "v1", "pods"),
    "Secret": Resource("", "v1", "secrets"),
    "Node": Resource("", "v1", "nodes"),
}
"""What a token can be bound to: it ends with that."""
MOST_VERIFIED: Final = 1024
MOST_TOKEN_BYTES: Final = 16 * 1024
_HALF: Final = 32
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
_POD: Final = "authentication.kubernetes.io/pod-"


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str = ""
    uid: str = ""


class _Home(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str
    serviceaccount: Reference
    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None


class _Claims(msgspec.Struct, frozen=True):
    aud: tuple[str, ...]
    exp: int
    iat: int
    iss: str
    jti: str
    home: _Home = msgspec.field(name="kubernetes.io")
    nbf: int
    sub: str


class _Header(msgspec.Struct, frozen=True):
    alg: str
    kid: str = ""


def _text(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _raw(text: bytes) -> bytes:
    return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)


def signing_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The key in the file, made when it is first needed. One that cannot be read is an error: a new one would end every
    token that is out."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = ec.generate_private_key(ec.SECP256R1())
        form = serialization.PrivateFormat.PKCS8
        write_private(path, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise ValueError(f"{path} is no key for ES256; move it away and start anew: tokens that are out end then")
    return key


class AccountTokens:
    """Issues tokens, and knows accounts by them."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, objects: Objects, clock: Clock) -> None:
        self._key = key
        self._public = key.public_key()
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        public = self._public.public_bytes(serialization.Encoding.DER, form)
        self._key_id = _text(hashlib.sha256(public).digest()).decode()
        self._objects = objects
        self._clock = clock
        self._verified: OrderedDict[bytes, _Claims] = OrderedDict()

    def issue(
        self,
        namespace: str,
        account: Reference,
        audiences: Sequence[str],
        seconds: int,
        bound: tuple[str, Reference] | None = None,
    ) -> str:
        now = int(self._clock.now().timestamp())
        more: Any = {bound[0].lower(): bound[1]} if bound is not None else {}
        claims = _Claims(
            aud=tuple(audiences),
            exp=now + seconds,
            iat=now,
            iss=ISSUER,
            jti=str(uuid.uuid4()),
            home=_Home(namespace, account, **more),
            nbf=now,
            sub=account_name(namespace, account.name),
        )
        head = _text(msgspec.json.encode(_Header("ES256", self._key_id)))
        signed = head + b"." + _text(msgspec.json.encode(claims))
        r, s = decode_dss_signature(self._key.sign(signed, ec.ECDSA(hashes.SHA256())))
        return (signed + b"." + _text(r.to_bytes(_HALF) + s.to_bytes(_HALF))).decode()

    async def user_of(self, token: bytes, audiences: Sequence[str] = (ISSUER,)) -> tuple[User, tuple[str, ...]] | None:
        """The account, and for which of the audiences the token is; None if it is nobody's, or not any more."""
        claims = self._claims(token)
        if claims is None:
            return None
        now = self._clock.now().timestamp()
        meant = tuple(it for it in audiences if it in claims.aud)
        if claims.iss != ISSUER or not claims.nbf <= now < claims.exp or not meant:
            return None
        home = claims.home
        if claims.sub != account_name(home.namespace, home.serviceaccount.name):
            return None
        if not await self._is_there(ACCOUNTS, home.namespace, home.serviceaccount):
            return None
        for kind, reference in (("Pod", home.pod), ("Secret", home.secret), ("Node", home.node)):
            namespace = "" if kind == "Node" else home.namespace
            if reference is not None and not await self._is_there(BOUND[kind], namespace, reference):
                return None
        return _user(claims), meant

    def _claims(self, token: bytes) -> _Claims | None:
        """What a token of ours says; None if it is not ours."""
        if token.count(b".") != 2 or len(token) > MOST_TOKEN_BYTES:
            return None
        digest = hashlib.sha256(token).digest()
        claims = self._verified.get(digest)
        if claims is None:
            claims = self._checked(token)
            if claims is None:
                return None
            self._verified[digest] = claims
            if len(self._verified) > MOST_VERIFIED:
                self._verified.popitem(last=False)
        self._verified.move_to_end(digest)
        return claims

    def _checked(self, token: bytes) -> _Claims | None:
        signed, _, signature = token.rpartition(b".")
        try:
            header = msgspec.json.decode(_raw(signed.partition(b".")[0]), type=_Header)
            halves = _raw(signature)
            if header.alg != "ES256" or len(halves) != 2 * _HALF:
                return None
            numbers = encode_dss_signature(int.from_bytes(halves[:_HALF]), int.from_bytes(halves[_HALF:]))
            self._public.verify(numbers, signed, ec.ECDSA(hashes.SHA256()))
            return msgspec.json.decode(_raw(signed.partition(b".")[2]), type=_Claims)
        except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error, InvalidSignature):
            return None

    async def _is_there(self, resource: Resource, namespace: str, reference: Reference) -> bool:
        try:
            found = await self._objects.get(resource, reference.name, namespace)
        except StatusError:
            return False
        return found.decode(_Found).metadata.uid == reference.uid


class _Found(msgspec.Struct, frozen=True):
    metadata: Reference = Reference()


def _user(claims: _Claims) -> User:
    home = claims.home
    extra = {_CREDENTIAL: (f"JTI={claims.jti}",)}
    if home.pod is not None:
        extra |= {f"{_POD}name": (home.pod.name,), f"{_POD}uid": (home.pod.uid,)}
    groups = (*account_groups(home.namespace), AUTHENTICATED)
    return User(claims.sub, home.serviceaccount.uid, groups, extra)
