"""OAUTHBEARER: what each client is given, when a token is asked for anew, and no secret in any text."""

from __future__ import annotations

import base64
import json
import sys
import time
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer

from indoubt.lifecycle.errors import SettingsError, Unreachable
from indoubt.resource_managers.kafka import oauth_tokens
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.oauth_tokens import Token, TokenProvider

URL = "https://login.example/token"
OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "indoubt",
    "sasl.oauthbearer.client.secret": 'hun"ter2',
    "sasl.oauthbearer.token.endpoint.url": URL,
    "sasl.oauthbearer.scope": "api://kafka/.default",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
}
MSK = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "aws_msk_iam",
    "sasl.oauthbearer.aws.region": "eu-west-1",
}


def test_librdkafka_fetches_the_tokens_of_oidc_by_itself():
    found = KafkaConnection("a:1", OIDC).for_librdkafka(**{"group.id": "x"})
    assert {name: found[name] for name in OIDC} == OIDC
    assert "oauth_cb" not in found
    Consumer(found).close()


def test_kafka_python_gets_a_provider_of_tokens_that_the_process_shares():
    found = KafkaConnection("a:1", OIDC).for_kafka_python()
    provider = found["sasl_oauth_token_provider"]
    assert (found["security_protocol"], found["sasl_mechanism"]) == ("SASL_SSL", "OAUTHBEARER")
    assert provider.extensions() == {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}
    assert KafkaConnection("b:1", OIDC).for_kafka_python()["sasl_oauth_token_provider"] is provider
    other = KafkaConnection("a:1", {**OIDC, "sasl.oauthbearer.scope": "x"}).for_kafka_python()
    assert other["sasl_oauth_token_provider"] is not provider


def test_no_secret_of_tokens_is_shown():
    connection = KafkaConnection("a:1", {**OIDC, "sasl.oauthbearer.client.secret": "hunter2"})
    provider = TokenProvider(lambda: Token(text="hunter3", expires_s=time.time() + 60), {})
    for text in (repr(connection), str(connection), repr(provider), repr(provider.current())):
        assert "hunter" not in text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sasl.oauthbearer.client.secret": ""}, "sasl.oauthbearer.client.secret is missing"),
        ({"sasl.oauthbearer.method": "default"}, "it takes oidc or aws_msk_iam"),
        ({"sasl.oauthbearer.method": "aws_msk_iam"}, "sasl.oauthbearer.aws.region is missing"),
        ({"sasl.oauthbearer.aws.region": "eu-west-1"}, "aws.region does not go with"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://anna:hunter2@host/"}, "without a user"),
        ({"sasl.oauthbearer.extensions": "hunter2"}, "takes name=value"),
        ({"https.ca.location": "a", "https.ca.pem": "b"}, "exclude each other"),
        ({"sasl.mechanism": "PLAIN"}, "needs sasl.mechanism=OAUTHBEARER"),
        ({"sasl.oauthbearer.grant.type": "client_credentials"}, "client kafka-python: it can be had with"),
    ],
)
def test_what_is_wrong_with_oauth_is_named_without_secrets(change: dict[str, str], says: str):
    with pytest.raises(SettingsError, match=says) as refused:
        KafkaConnection("a:1", {**OIDC, **change})
    assert "hun" not in str(refused.value)


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000_000.0
        monkeypatch.setattr(oauth_tokens.time, "time", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_token_is_kept_until_shortly_before_it_expires(clock: Clock):
    fetched: list[float] = []

    def fetch() -> Token:
        fetched.append(clock.now_s)
        return Token(text=f"t{len(fetched)}", expires_s=clock.now_s + 100)

    provider = TokenProvider(fetch, {"a": "b"})
    assert provider.for_librdkafka("") == ("t1", 1_000_100.0, "indoubt", {"a": "b"})
    clock.now_s += 79
    assert provider.token() == "t1"
    clock.now_s += 1
    assert (provider.token(), provider.token(), len(fetched)) == ("t2", "t2", 2)


def test_a_failed_request_keeps_no_token_and_the_next_asks_again():
    answers: list[Any] = [Unreachable("no answer"), Token(text="t", expires_s=time.time() + 60)]

    def fetch() -> Token:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    provider = TokenProvider(fetch, {})
    with pytest.raises(Unreachable, match="no answer"):
        provider.token()
    assert provider.token() == "t"


def jwt(claims: dict[str, Any]) -> str:
    return ".".join(["e30", base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode(), "s"])


@pytest.mark.parametrize(
    ("answer", "expires_s"),
    [
        ({"access_token": "opaque", "expires_in": 300}, 1_000_300.0),
        ({"access_token": jwt({"exp": 1_000_500})}, 1_000_500.0),
        ({"access_token": "opaque"}, 1_000_060.0),
        ({"access_token": "a.b.c", "expires_in": None}, 1_000_060.0),
    ],
)
def test_a_tokens_end_is_the_answers_or_its_own(clock: Clock, answer: dict[str, Any], expires_s: float):
    assert oauth_tokens._token(json.dumps(answer).encode(), URL).expires_s == expires_s


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"access_token": 7}', b'{"access_token": "a\\nb"}'])
def test_an_answer_without_a_token_is_unreachable(body: bytes):
    with pytest.raises(Unreachable, match=r"token endpoint https://login\.example/token answered"):
        oauth_tokens._token(body, URL)


def test_an_authority_that_cannot_be_read_is_named():
    with pytest.raises(SettingsError, match=r"https\.ca\.location cannot be used: No such file"):
        KafkaConnection("a:1", {**OIDC, "https.ca.location": "/nowhere.pem"}).for_kafka_python()


def test_an_endpoint_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(httpx, "post", refuse)
    provider = KafkaConnection("a:1", OIDC).token_provider()
    with pytest.raises(Unreachable, match=r"login\.example/token did not answer within 5 s: refused"):
        provider.token()


def test_msk_tokens_reach_both_clients_by_one_provider(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def sign(region: str) -> tuple[str, int]:
        asked.append(region)
        return "signed", int((time.time() + 900) * 1000)

    signer = SimpleNamespace(generate_auth_token=sign)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", signer)
    oauth_tokens._provider.cache_clear()
    connection = KafkaConnection("a:1", MSK)
    found = connection.for_librdkafka(**{"group.id": "x"})
    assert not [name for name in found if name.startswith("sasl.oauthbearer.")]
    assert found["oauth_cb"]("")[0] == "signed"
    assert connection.for_kafka_python()["sasl_oauth_token_provider"].token() == "signed"
    assert asked == ["eu-west-1"]
    oauth_tokens._provider.cache_clear()


def test_the_signer_of_aws_signs_for_fifteen_minutes(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("aws_msk_iam_sasl_signer")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    oauth_tokens._provider.cache_clear()
    token = KafkaConnection("a:1", MSK).token_provider().current()
    assert 800 < token.expires_s - time.time() <= 900
    signed = base64.urlsafe_b64decode(token.text + "=" * (-len(token.text) % 4)).decode()
    assert signed.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect")
    assert "hunter2" not in signed
    oauth_tokens._provider.cache_clear()


def test_msk_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", None)
    oauth_tokens._provider.cache_clear()
    for client in (KafkaConnection("a:1", MSK).for_librdkafka, KafkaConnection("a:1", MSK).for_kafka_python):
        with pytest.raises(SettingsError, match="install indoubt with the extra 'msk'"):
            client()
