"""One HTTP exchange: clients, and whom they may connect to.

aiohttp_client  The client on `aiohttp`, with all that it decompresses
aiohttp_dial    How aiohttp gets its connections: we dial
exchange        One call of an HTTP client: what it is asked, and what every client must obey
fetcher         One request, one exchange: the `Fetcher` protocol and our own fetchers
guard           Whom a crawler may connect to: addresses, their names, and their credentials
packing         Bodies without their Content-Encoding, where the library leaves it alone
upstream        Opens a connection, directly or through an upstream proxy
wreq_client     The client on `wreq`, and what its errors mean
"""
