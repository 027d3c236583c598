"""A broker that goes away while a message is sent."""

from __future__ import annotations

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from skitter.celery.broker import publishing


def test_a_channel_that_has_just_lost_its_connection_is_a_broker_that_is_away(server_url):
    app = Celery(broker=server_url.replace("unix://", "redis+socket://"))
    with app.connection_for_write() as connection:
        producer = connection.Producer()
        producer.channel.connection = None
        with pytest.raises(OperationalError, match="connection was lost"), publishing():
            producer.publish({}, routing_key="nowhere", retry=False)
        producer.channel.connection = connection.transport


def test_an_error_of_the_users_is_theirs():
    with pytest.raises(AttributeError), publishing():
        object().client  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError), publishing():
        raise AttributeError("a signal handler of theirs")
