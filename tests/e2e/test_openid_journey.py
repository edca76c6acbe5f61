"""Signing in with an OpenID provider: its groups give the role; without a provider it is said."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from fleet_builder import make_snapshot
from openid_provider import openid_provider, secrets_of
from pages_server import free_port, pages_served
from playwright.sync_api import Browser, expect

from core.snapshot.store import SnapshotStore

CONFIG = """
state_dir = "state"
[access]
sign_in = "oidc"
[[access.grants]]
role = "operator"
groups = ["sre"]
[[clusters]]
name = "fleet"
zookeeper = "127.0.0.1:1"
"""
PERSON = {"sub": "42", "email": "ann@example.com", "email_verified": True, "groups": ["sre"]}


def site_in(folder: Path) -> Path:
    config = folder / "trimtab.toml"
    config.write_text(CONFIG)
    snapshot = make_snapshot(brokers=3, bundles=12, cluster="fleet", now=datetime.now(UTC))
    SnapshotStore(folder / "state" / "snapshots").put(snapshot)
    return config


def test_a_person_of_the_provider_has_the_role_of_the_groups(tmp_path, browser: Browser) -> None:
    config, port = site_in(tmp_path), free_port()
    (tmp_path / ".streamlit").mkdir()
    with openid_provider(PERSON) as issuer:
        text = secrets_of(issuer, f"http://127.0.0.1:{port}")
        (tmp_path / ".streamlit" / "secrets.toml").write_text(text)
        with pages_served(tmp_path, config=config, port=port, start_in=tmp_path):
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{port}/brokers")
            expect(page.get_by_role("heading", name="Sign in to Trimtab")).to_be_visible()
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_text(re.compile("ann@.?example.com"))).to_be_visible()
            expect(page.get_by_text(re.compile("operator$"))).to_be_visible()
            expect(page.get_by_text("3 brokers").first).to_be_visible()
    assert "planted-s3cr3t" not in (tmp_path / "log").read_text()


def test_without_a_provider_the_page_says_what_is_missing(tmp_path, browser: Browser) -> None:
    with pages_served(tmp_path, config=site_in(tmp_path), start_in=tmp_path) as port:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/brokers")
        expect(page.get_by_text("no OpenID provider is configured")).to_be_visible()
        expect(page.get_by_text("3 brokers")).to_have_count(0)
