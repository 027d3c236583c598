"""serve and token."""

from __future__ import annotations

import pytest

from skitter.frontier.records.operators import SHAPE


def test_a_token_is_made_listed_and_revoked(skitter):
    made = skitter("token", "new", "--scope", "push", "--scope", "read", "--name", "shop", "--json")
    identity, token = made.json["id"], made.json["token"]

    assert SHAPE.fullmatch(token)
    listed = {one["id"]: one for one in skitter("token", "list", "--json").json}
    assert (listed[identity]["name"], listed[identity]["scopes"]) == ("shop", ["read", "push"])
    shown = skitter("token", "list").out
    assert identity in shown
    assert token not in shown
    assert skitter("token", "revoke", identity).exit_code == 0
    assert identity not in skitter("token", "list").out
    assert skitter("token", "revoke", identity).exit_code == 2


def test_a_scope_that_there_is_not_is_refused(skitter):
    answer = skitter("token", "new", "--scope", "admin")

    assert answer.exit_code == 2
    assert "read, push, operate" in answer.err


def test_another_address_without_tls_is_refused_with_the_reason(skitter):
    answer = skitter("serve", "--host", "0.0.0.0", "--port", "0")

    assert answer.exit_code == 2
    assert "--tls-cert" in answer.err
    assert "--insecure" in answer.err


def test_half_a_certificate_is_refused(skitter):
    assert "both" in skitter("serve", "--tls-cert", "x.pem").err
    missing = skitter("serve", "--tls-cert", "x.pem", "--tls-key", "y.pem")
    assert (missing.exit_code, "PEM" in missing.err) == (2, True)


@pytest.mark.parametrize("name", ["https://tools.example", "tools.example:8443", "tools.example/x"])
def test_a_name_that_no_browser_sends_is_refused(skitter, name):
    answer = skitter("serve", "--port", "0", "--allow-host", name)

    assert answer.exit_code == 2
    assert "--allow-host must be a name without scheme, port and path" in answer.err


def test_what_is_no_certificate_is_told_without_a_line_of_source_code(skitter, tmp_path):
    file = tmp_path / "x.pem"
    file.write_text("none")
    answer = skitter("serve", "--tls-cert", str(file), "--tls-key", str(file))

    assert answer.exit_code == 2
    assert "_ssl.c" not in answer.err
    assert "both as PEM" in answer.err
