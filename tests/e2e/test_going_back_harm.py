"""What keeps the group from going back is said, and leaves a session that lives."""
import shutil

import pytest
from debug_support import friday, opened, ring  # noqa: F401

pytestmark = pytest.mark.limit(120)


@pytest.fixture
def own(ring, tmp_path):
    path = tmp_path / "own"
    shutil.copytree(ring.path, path)
    return path


@pytest.mark.parametrize("gone", ["files", "nodes/2/trace.zst"])
def test_what_the_nodes_are_made_of_is_gone(own, opened, gone):
    """Without checkpoints the nodes would have to be rebuilt. They are not, and the group stands where it stood."""
    session = opened(own)
    session.watch("srv.successor")
    session.run()
    before = [(int(node), session.backend.event(int(node)), session.backend.state_hash(int(node))) for node in session.all_nodes]
    place = own / gone
    if not place.exists():
        place = own / "nodes" / "2" / "trace"
    place.rename(own / "aside")
    with pytest.raises(friday.Error, match="cannot be rebuilt, so the group stands where it stood"):
        session.restart()
    assert [(int(node), session.backend.event(int(node)), session.backend.state_hash(int(node))) for node in session.all_nodes] == before
    (own / "aside").rename(place)
    assert session.run().kind == "watch"
    session.restart()
    assert session.run().kind == "watch"


def test_a_budget_too_small_for_one_checkpoint(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True, budget=1)
    session.watch("srv.successor")
    stops = []
    while (stop := session.run()).kind != "end":
        stops.append((stop.node, stop.event))
    assert len(session.backend.checkpoints()["kept"]) <= 2
    back = []
    while (stop := session.reverse_continue()) is not None:
        back.append((stop.node, stop.event))
    assert back == stops[::-1]
