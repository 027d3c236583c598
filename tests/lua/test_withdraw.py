from skitter.frontier.transport.scripts import Code


async def test_what_waits_is_withdrawn_and_what_is_in_flight_goes_on(raw):
    await raw.add("1", "2", priority=5)
    await raw.add("3")
    [(fp, token)] = (await raw.lease(1)).claims
    rows = [(one, "revoked") for one in ("1", "2", "2", "9")]

    codes = await raw.call("withdraw", rows)

    assert (fp, codes) == ("1", [Code.LOST, Code.BURIED, Code.LOST, Code.LOST])
    assert list(await raw.read("dead")) == ["2"]
    assert (await raw.lease(5)).fps == ["3"]
    assert await raw.call("complete", [(fp, token, "", b"")], leases=1, links=0, list="", report=0)
    assert (await raw.read("stats"))["pending"] == 0


async def test_what_waits_for_a_retry_is_withdrawn_too(raw):
    await raw.add("1")
    [(fp, token)] = (await raw.lease(1)).claims
    await raw.call("retry", [(fp, token, 5000, "503", b"")])

    assert await raw.call("withdraw", [(fp, "revoked")]) == [Code.BURIED]
    assert not await raw.read("delayed")
