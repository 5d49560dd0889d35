"""friday run committed.py REC: did the servers commit every row that a client was told is stored?

The first question when rows are missing: were they lost on their way, before any server had them on its disk?"""

import friday

session = friday.session
acknowledged = {}


@session.at_exit
def client_ends(stop):
    if session.node.name.startswith("loader"):
        acknowledged[session.node.name] = int(session.node.read("client->acknowledged_"))


@session.at_end
def each_acknowledged_row_was_committed():
    committed = {node.name: int(node.read("server->committed_")) for node in session.choose("server-*")}
    told, stored = sum(acknowledged.values()), sum(committed.values())
    print(f"{told} rows acknowledged, {stored} committed: {committed}")
    assert told <= stored, f"{told - stored} rows were acknowledged, and no server has committed them"
