"""A role that is limited to a namespace: what its user may apply on a page, and why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleet_builder import make_snapshot
from snapshot_site import Site, assert_calm, now, texts

from core.access import Identity
from core.ids import namespace_of
from dashboard.queries import access


def test_apply_is_disabled_with_the_reason_outside_of_the_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = make_snapshot(brokers=4, bundles=40, now=now(), cluster="fleet")
    rows = zip(
        snapshot.bundles["bundle"].to_pylist(), snapshot.bundles["owner"].to_pylist(), strict=True
    )
    owned = [name for name, owner in rows if owner]
    own = owned[0]
    foreign = next(one for one in owned if namespace_of(one) != namespace_of(own))
    site = Site(
        tmp_path,
        each="read_only = false",
        extra=f'[access]\nsign_in = "users"\nkey_file = "{tmp_path / "key"}"\n'
        '[[access.grants]]\nrole = "operator"\npeople = ["ann"]\n'
        f'scope = ["{namespace_of(own)}"]\n',
    )
    site.put(snapshot)
    site.worker_says()
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    monkeypatch.setattr(access, "person", lambda _: Identity(name="ann", source="users"))

    mine = site.open("unload", bundles=[own])
    assert_calm(mine)
    assert not mine.button(key="_apply").disabled
    assert f"operator for {namespace_of(own)}" in texts(mine)  # at the foot of the sidebar

    others = site.open("unload", bundles=[own, foreign])
    assert_calm(others)
    button = others.button(key="_apply")
    assert button.disabled
    assert f"for {namespace_of(foreign)}; operator is needed" in button.help.replace("\\", "")
