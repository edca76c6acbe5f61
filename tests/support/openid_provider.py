"""An OpenID provider on loopback that signs one person in, whoever asks."""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT = "trimtab"
SECRET = "planted-s3cr3t"

Forge = Callable[[dict[str, Any], RSAKey], str]


@contextmanager
def openid_provider(claims: dict[str, Any], forge: Forge | None = None) -> Iterator[str]:
    """Give the provider's address.

    Args:
        claims: Of the person, besides those of the protocol, which they replace; may be changed
            between two sign-ins.
        forge: Makes the ID token of the claims and the provider's key; by default it is sound.
    """
    key = RSAKey.generate_key(2048, parameters={"kid": "k1", "alg": "RS256", "use": "sig"})
    nonces: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if parts.path == "/.well-known/openid-configuration":
                self._json(
                    {
                        "issuer": issuer,
                        "authorization_endpoint": f"{issuer}/authorize",
                        "token_endpoint": f"{issuer}/token",
                        "jwks_uri": f"{issuer}/keys",
                        "response_types_supported": ["code"],
                        "subject_types_supported": ["public"],
                        "id_token_signing_alg_values_supported": ["RS256"],
                    }
                )
            elif parts.path == "/keys":
                self._json({"keys": [key.as_dict(private=False)]})
            elif parts.path == "/authorize":
                code = secrets.token_hex(8)
                nonces[code] = asked.get("nonce", "")
                back = {"code": code, "state": asked["state"]}
                self.send_response(302)
                self.send_header("Location", f"{asked['redirect_uri']}?{urlencode(back)}")
                self.end_headers()
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            code = parse_qs(body)["code"][0]
            now = int(time.time())
            content = {
                "iss": issuer,
                "aud": CLIENT,
                "iat": now,
                "exp": now + 600,
                "nonce": nonces.pop(code),
                **claims,
            }
            content = {name: one for name, one in content.items() if one is not None}
            token = (forge or _signed)(content, key)
            self._json({"access_token": "a", "token_type": "Bearer", "id_token": token})

        def _json(self, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()


def _signed(content: dict[str, Any], key: RSAKey) -> str:
    return jwt.encode({"alg": "RS256", "kid": "k1"}, content, key)


def secrets_of(issuer: str, address: str) -> str:
    """Return Streamlit's ``secrets.toml`` for the provider."""
    cookie = base64.b64encode(secrets.token_bytes(32)).decode()
    return (
        f'[auth]\nredirect_uri = "{address}/oauth2callback"\ncookie_secret = "{cookie}"\n'
        f'client_id = "{CLIENT}"\nclient_secret = "{SECRET}"\n'
        f'server_metadata_url = "{issuer}/.well-known/openid-configuration"\n'
    )
