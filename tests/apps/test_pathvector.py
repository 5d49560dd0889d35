"""Ten nodes of the path-vector toolkit, recorded with a link that is cut in mid-run: whole, and with each planted fault. The predicates
find what the program says that it did wrong, and nothing else; and the published examples of its kind work as they are printed."""

import json
import pathlib
import re
import socket

import pytest
from ports import free_ports

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests" / "apps" / "pathvector"
NODES, SECONDS, CUT, K = 10, 5, "3-4", 2


def line_of(file, text):
    """FILE:LINE of the only line that holds `text`."""
    found = [number for number, line in enumerate((SOURCES / file).read_text().splitlines(), 1) if text in line]
    assert len(found) == 1, f"{file}: {len(found)} lines hold {text!r}"
    return f"{file}:{found[0]}"


ROUTES = ["--id", "server->id", "--routes", "server->routes", "--next-hop", "next_hop", "--usable", "usable",
          *(word for place in (line_of("paths.cc", "paths, next hop"), line_of("fault.cc", "which sends them here"), line_of("fault.cc", "end here\\n"))
            for word in ("--at", place))]
PATHS = ["--id", "server->id", "--neighbours", "server->neighbors[:server->nneighbors]", "--neighbour", "id", "--usable", "status",
         "--k", str(K), "--at", line_of("server.cc", "neighbor %d %s")]

NODES_END_WITHIN = 0.3  # seconds: each runs as long as the others, and they start one behind the other


def record(recorder, build, fault="none", seconds=SECONDS):
    """The recording, and what each node printed."""
    ports = ",".join(map(str, free_ports(NODES, socket.SOCK_DGRAM)))
    program = build / "apps" / "pathvector"
    return recorder.record_nodes([[program, i, ports, seconds, 1, f"k={K}", f"cut={CUT}@1500", f"fault={fault}"] for i in range(NODES)])


def said(output):
    """What the planted fault printed."""
    return [line for lines in output for line in lines if " fault: " in line]


def test_a_link_that_is_cut_is_routed_around(recorder, build):
    recording, output = record(recorder, build)
    assert said(output) == []
    for end, other in ((3, 4), (4, 3)):
        assert f"n{end} neighbor {other} down" in output[end]
    assert all(f"n{i} reaches {j} by {K} paths" in "\n".join(lines) for i, lines in enumerate(output) for j in range(NODES) if i != j)
    assert recorder.predicate(recording, "routes", *ROUTES, "--lasting", "1.5") == (0, [])
    assert recorder.predicate(recording, "connectivity", *PATHS, "--lasting", "1.5") == (0, [])


def test_the_routing_loop_is_found(recorder, build):
    recording, output = record(recorder, build, "loop")
    (line,) = said(output)
    through = int(re.fullmatch(r"n3 fault: packets to 4 go to (\d), which sends them here", line)[1])
    code, violations = recorder.predicate(recording, "routes", *ROUTES, "--lasting", "1.5")
    assert code == 1
    circle = next(violation for violation in violations if "run in a loop" in violation["message"])
    assert re.match(rf"packets to 4 run in a loop: (3 -> {through} -> 3|{through} -> 3 -> {through}), for ", circle["message"])
    assert {node["name"] for node in circle["nodes"]} == {"n3", f"n{through}"}
    assert circle["values"]["next_hops"] == {"n3": through, f"n{through}": 3} and circle["values"]["destination"] == 4
    assert "plant_fault" in circle["values"]["stack"] and re.search(r"of n3$", circle["values"]["began"])
    assert all(violation["values"]["destination"] == 4 for violation in violations)
    check_other_judges(recorder, recording, circle["values"])


def check_other_judges(recorder, recording, circle):
    """The circle lasts until the first of its nodes ends: it outlives any number of events, and its share of the time is a violation."""
    code, violations = recorder.predicate(recording, "routes", *ROUTES, "--within", "2000")
    later = next(violation for violation in violations if "run in a loop" in violation["message"])
    assert code == 1 and all(later["values"][name] == circle[name] for name in ("since", "began", "next_hops"))
    done = int(re.search(r"packets to 4 run in a loop: .*, (?:still so|healed only) after (\d+) events$", later["message"])[1])
    assert 2000 <= done < recorder.info(recording)["events"]

    code, (short,) = recorder.predicate(recording, "routes", *ROUTES, "--share", "0.9")
    values = short["values"]
    held = values["held"] / (values["held"] + values["broken"])
    assert code == 1 and short["message"] == f"held for {held:.1%} of the time, less than 90.0%" and values["share"] == pytest.approx(held)
    lasted = float(short["logical_time"]) - circle["since"]
    assert values["broken"] >= lasted - NODES_END_WITHIN > 2 and values["worst"][0].startswith("packets to 4 run in a loop: ")
    assert recorder.predicate(recording, "routes", *ROUTES, "--share", str(held * 0.99)) == (0, [])


def test_the_black_hole_is_found(recorder, build):
    recording, output = record(recorder, build, "hole")
    assert said(output) == ["n3 fault: packets to 4 end here"]
    code, violations = recorder.predicate(recording, "routes", *ROUTES, "--lasting", "1.5")
    assert code == 1 and len(violations) == 1
    (hole,) = violations
    assert re.match(r"packets to 4 end at 3, which has no route: \d -> 3, for ", hole["message"])
    assert hole["values"]["next_hops"]["n3"] is None and "plant_fault" in hole["values"]["stack"]
    assert "n3" in {node["name"] for node in hole["nodes"]}


def test_the_node_with_one_path_left_is_found(recorder, build):
    recording, output = record(recorder, build, "lone")
    assert said(output) == ["n3 fault: 8 is taken for gone"]
    assert recorder.predicate(recording, "routes", *ROUTES, "--lasting", "1.5") == (0, [])
    code, violations = recorder.predicate(recording, "connectivity", *PATHS, "--lasting", "1.5")
    assert code == 1 and len(violations) == NODES - 1
    for violation in violations:
        assert re.match(rf"n3 has 1 of {K} disjoint paths to n\d, for ", violation["message"])
        assert violation["values"]["neighbours"]["n3"] == [2] and len(violation["values"]["paths"]) == 1
        assert "plant_fault" in violation["values"]["stack"]


PUBLISHED = """
py
  import json
  from predicates import connectivity

  def zero_matrix(rows, columns):
    return [[0] * columns for _ in range(rows)]

  def vertex_disjoint_paths(graph, source, sink):
    edges = {row: [column for column, edge in enumerate(graph[row]) if edge] for row in range(len(graph))}
    return connectivity.vertex_disjoint_paths(edges, source, sink)

py graph = zero_matrix(10, 10)
break server.cpp:355
  neighbor_pointer = "(*(i->_M_node))"
  neighbor_status_addr = @(&(%(neighbor_pointer)s->status))
  watchpoint(["*%d" % neighbor_status_addr], np=@(%(neighbor_pointer)s))
    status = @((((Neighbor*)(%(np)d))->status))
    neighbor_id = @((((Neighbor*)(%(np)d))->id))
    my_id = @(server->id)
    if status > 0:
      graph[my_id][neighbor_id] = 1
      compute_disjoint_paths()
    cont
  cont

py time_found_k_paths = zero_matrix(10, 10)
py
  def compute_disjoint_paths():
    my_id = @(server->id)
    k = @(server->k)
    for sink in range(len(graph)):
      if len(vertex_disjoint_paths(graph, my_id, sink)) >= k:
        time_found_k_paths[my_id][sink] = __VCLOCK__

continue
py print("FOUND", json.dumps([graph, [[float(time) for time in row] for row in time_found_k_paths]]))
"""


def test_the_published_examples_build_the_graph(recorder, build):
    """Sections 4.2.1 and 4.2.2: a breakpoint that sets a watchpoint for each neighbour, and when k disjoint paths were found."""
    recording, output = record(recorder, build, seconds=1)
    commands = recorder.directory / "examples.friday"
    commands.write_text(PUBLISHED.replace("server.cpp:355", line_of("server.cc", "the published example breaks here")))
    done = recorder.run([recorder.friday, "replay", recording.path, "--batch", "-x", commands], env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stdout + done.stderr
    graph, found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("FOUND ")).removeprefix("FOUND "))
    assert [[column for column, edge in enumerate(row) if edge] for row in graph] == [sorted({(i + 1) % 10, (i + 5) % 10, (i + 9) % 10}) for i in range(10)]
    ups = sum(line.endswith("up") for lines in output for line in lines)
    assert ups == sum(map(sum, graph)) == 3 * NODES
    assert sum(1 for row in found for time in row if time) > NODES, "k paths were found while the graph grew"
