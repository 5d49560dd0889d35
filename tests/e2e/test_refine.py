"""`friday refine` and friday.look(): the stack at an event with deep copies of the variables, what functions return, and the calls around; of two
runs side by side."""
import json
import subprocess


import pytest
from conftest import Recorder, toml
from debug_support import friday

pytestmark = pytest.mark.limit(300)

SHOP = r"""
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>
struct Item { long price; Item* next; Item* first; };
enum class Kind { plain, gift = 7 };
struct Base { int base = 3; };
struct Cart : Base {
  char name[8] = "shopper";
  Kind kind = Kind::gift;
  unsigned bits : 3;
  union { int number; float part; };
  Item* items = nullptr;
  std::vector<int> sizes;
  std::map<std::string, std::vector<int>> by_name;
  std::unique_ptr<Item> spare;
  void* opaque = this;
  int* nowhere = nullptr;
  int* wild = reinterpret_cast<int*>(16);
  int& reference = base;
};
__attribute__((noinline)) long pay(const Cart* cart, long price) {
  char line[64];
  const int length = snprintf(line, sizeof line, "pay %ld\n", price);
  const long written = write(1, line, static_cast<size_t>(length));
  return written + cart->items->price;
}
__attribute__((noinline)) long checkout(Cart* cart) {
  long total = 0;
  Item* at = cart->items;
  do total += at->price, at = at->next; while (at != cart->items);
  return pay(cart, total) * 2;
}
int main(int argc, char** argv) {
  Item second{7, nullptr, nullptr}, first{atol(argv[1]), &second, nullptr};
  second.next = second.first = first.first = &first;
  Cart cart;
  cart.bits = 5;
  cart.number = 41;
  cart.items = &first;
  cart.sizes = {3, 1, 2};
  cart.by_name["one"] = {1};
  cart.by_name["two"] = {2, 2};
  cart.spare = std::make_unique<Item>(Item{99, nullptr, nullptr});
  write(1, "begin\n", 6);
  const long all = checkout(&cart);
  write(1, "end\n", 4);
  return all == 0;
}
"""


@pytest.fixture(scope="module")
def shops(friday_built, tmp_path_factory):
    """Two runs of one program, and in each the mark of the event that pays."""
    place = tmp_path_factory.mktemp("shop")
    (place / "shop.cc").write_text(SHOP)
    subprocess.run(["g++", "-std=c++20", "-g", "-O0", "-o", "shop", "shop.cc"], cwd=place, check=True)
    recorder = Recorder(friday_built, place)
    found = []
    for price in ("120", "100"):
        path = recorder.record([place / "shop", price], name="shop").path
        event = next(each.index for each in friday.Recording(path).events(0, call="write") if b"pay" in each.transfers[0].payload)
        found.append((str(path), f"0#{event}"))
    return found


@pytest.fixture(scope="module")
def friday_built(build):
    return build / "bin" / "friday"


def part(value, *names):
    for name in names:
        value = dict(map(tuple, value["parts"]))[name]
    return value


def test_a_stack_with_deep_copies(shops):
    with friday.Session(shops[0][0]) as session:
        look = friday.look(session, shops[0][1], depth=3, around=1, expressions=["cart->items->price + 1"])
    functions = [frame.function.split("(")[0] for frame in look.frames]
    assert functions[-3:] == ["pay", "checkout", "main"], functions
    pay, checkout, main = look.frames[-3:]
    assert pay.is_own and "shop.cc:" in pay.place and not look.frames[0].is_own
    assert pay.arguments["price"]["text"] == "127" and pay.locals["length"]["text"] == "8" and "pay 127" in pay.locals["line"]["text"]
    cart = part(pay.arguments["cart"], "*")
    assert part(cart, "items", "*", "price")["text"] == "120"
    assert part(cart, "items", "*", "next", "*", "price")["text"] == "7"
    assert part(cart, "items", "*", "next", "*", "next")["again"] == "cart->*.items->*", "a cycle"
    assert part(cart, "items", "*", "first")["again"] == "cart->*.items->*"
    assert part(cart, "Base", "base")["text"] == "3" and "shopper" in part(cart, "name")["text"] and part(cart, "kind")["text"] == "Kind::gift"
    assert part(cart, "bits")["text"] == "5" and part(cart, "<anonymous>", "number")["text"] == "41"
    assert [text for _, text in ((name, each["text"]) for name, each in part(cart, "sizes")["parts"])] == ["3", "1", "2"]
    assert [each["text"] for _, each in part(cart, "by_name", '["two"]')["parts"]] == ["2", "2"]
    assert part(cart, "nowhere")["text"] == "0x0" and part(cart, "reference")["text"] == "3"
    assert "Cannot access memory" in part(cart, "wild")["text"]
    assert "parts" not in part(cart, "opaque")
    assert look.values["cart->items->price + 1"]["text"] == "121"
    # What the library's function returned, and what is behind it in the program's own.
    assert look.returned[len(look.frames) - 4] == "8" and look.after[0].function.startswith("pay") and len(look.after) == 3
    assert [each.number for each in look.around] == [int(shops[0][1][2:]) + i for i in (-1, 0, 1)]
    assert [each.stack[-1 - (len(look.frames) - 3)].split("(")[0].split(" ")[0] for each in look.around] == ["main", "pay", "main"]
    assert "write" in look.event


def test_how_deep_it_looks(shops):
    with friday.Session(shops[0][0]) as session:
        shallow = friday.look(session, shops[0][1], depth=0, frames=2)
    assert len(shallow.frames) == 2 and not shallow.around
    with friday.Session(shops[0][0]) as session:
        one = friday.look(session, shops[0][1], depth=1)
    items = part(one.frames[-3].arguments["cart"], "*", "items")
    assert items["cut"] and "parts" not in items


def test_two_runs_side_by_side(shops, recorder):
    done = recorder.run([recorder.friday, "refine", *shops[0], *shops[1], "--json", "-e", "price"], timeout=120)
    result = json.loads(done.stdout)
    differences = {(each["function"].split("(")[0], each["path"]): each["values"] for each in result["differences"]}
    assert differences["pay", "price"] == ["127", "107"]
    assert differences["pay", "cart->items->price"] == ["120", "100"] and differences["main", "first.price"] == ["120", "100"]
    assert not [path for _, path in differences if "opaque" in path or "sizes" in path or "by_name" in path], "what is equal, and addresses"
    assert result["looks"][1]["values"]["price"]["text"] == "107"
    text = recorder.run([recorder.friday, "refine", *shops[0], *shops[1], "--around", "1"], timeout=120).stdout
    row = next(line for line in text.splitlines() if line.strip().startswith("cart->items->price"))
    assert row.split()[1:] == ["120", "|", "100"], text
    assert "equal)" in text and "calls around" in text and "sizes" not in text
    assert "cart->sizes[0]" in recorder.run([recorder.friday, "refine", *shops[0], *shops[1], "--all"], timeout=120).stdout
    alone = recorder.run([recorder.friday, "refine", *shops[0]], timeout=120).stdout
    assert "cart->items->next->next = as cart->*.items->*" in alone and "returns 8" in alone, alone
    recorder.none_left()


@pytest.mark.parametrize("words, code, says", [
    (["{rec}", "9#1"], 2, "node 9"), (["{rec}", "0#999999"], 2, "999999"), (["{rec}", "nonsense"], 2, "is no mark"),
    (["{rec}", "0#1", "{rec}"], 2, "two recordings, each with its mark"), (["/no/such/place"], 2, "/no/such/place"), (["{rec}"], 2, "name the event, too"),
    (["{rec}", "{mark}", "-e", "no_such_name"], 2, "no_such_name")])
def test_what_cannot_be_looked_at(words, code, says, shops, recorder):
    done = recorder.run([recorder.friday, "refine", *(word.format(rec=shops[0][0], mark=shops[0][1]) for word in words)], timeout=60)
    assert done.returncode == code and says in done.stderr and "Traceback" not in done.stderr, done
    recorder.none_left()


# The last of two deposits counts, and it should be the second one.
BANK = r"""
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <string>
struct Account { std::string owner; long balance = 0; int changes = 0; };
__attribute__((noinline)) bool apply(Account& account, const std::string& words) {
  account.owner = words.substr(0, words.find(' '));
  account.balance = atol(words.c_str() + words.find(' '));
  return ++account.changes == 2;
}
int main(int, char** argv) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<uint16_t>(atoi(argv[1])));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, reinterpret_cast<sockaddr*>(&place), sizeof place) || listen(listener, 5)) return 2;
  puts("listening");
  fflush(stdout);
  pollfd from[2] = {{accept(listener, nullptr, nullptr), POLLIN, 0}, {accept(listener, nullptr, nullptr), POLLIN, 0}};
  Account account;
  for (bool done = false; !done;) {
    poll(from, 2, -1);
    for (pollfd& each : from) {
      char words[64];
      const ssize_t size = each.revents & POLLIN ? read(each.fd, words, sizeof words) : 0;
      if (size <= 0) continue;
      done = apply(account, std::string(words, static_cast<size_t>(size)));
      if (write(each.fd, "ok", 2) != 2) return 3;
    }
  }
  return account.balance == 200 ? 0 : 1;
}
"""
CLIENT = """
import random, socket, sys, time
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
time.sleep(random.random() * 0.1)
connection.sendall(sys.argv[2].encode())
connection.recv(10)
"""


def test_a_finding_of_a_study(recorder, tmp_path):
    (tmp_path / "bank.cc").write_text(BANK)
    (tmp_path / "client.py").write_text(CLIENT)
    subprocess.run(["g++", "-std=c++20", "-g", "-O1", "-o", "bank", "bank.cc"], cwd=tmp_path, check=True)
    client = lambda name, words: {"name": name, "command": ["/usr/bin/python3", str(tmp_path / "client.py"), "{port:bank}", words], "after": ["bank"]}
    (tmp_path / "group.toml").write_text(toml({"group": {"timeout": 30, "stop_when_ends": "bank"}, "node": [
        {"name": "bank", "command": [str(tmp_path / "bank"), "{port:bank}"], "ready": "output listening", "stdout": "bank.out"}, client("ann", "ann 100"), client("bob", "bob 200")]}))
    study = tmp_path / "study"
    recorder.run([recorder.friday, "diagnose", "-o", study, "--group", tmp_path / "group.toml", "-n", "200", "--failures", "12", "--keep", "all", "-q"], timeout=280)
    done = recorder.run([recorder.friday, "refine", study, "--json"], timeout=120)
    assert done.returncode == 0, done
    result = json.loads(done.stdout)
    assert [name.split("(")[1] for name in (look["name"] for look in result["looks"])] == ["failed)", "passed)"], result
    assert {look["node"] for look in result["looks"]} == {"bank"}
    other = recorder.run([recorder.friday, "refine", study, "--message", "1"], timeout=120)
    assert other.returncode == 0 and other.stdout.startswith("finding 1: bank receives `bob #` from bob, before it receives `ann #` from ann\nat message 1 of 2, bank receives `bob #`"), other
    assert recorder.run([recorder.friday, "refine", study, "--message", "3"], timeout=120).returncode == 2
    # ann's deposit is about to be received: where it failed, bob's is there already.
    owners = next(each["values"] for each in result["differences"] if each["path"] == "account.owner")
    assert [owner.strip('"') for owner in owners] == ["bob", ""], result["differences"]
    # Recorded as a schedule, a study has nothing to look at, until a run is forced and recorded in full.
    lean = tmp_path / "lean"
    recorder.run([recorder.friday, "diagnose", "-o", lean, "--group", tmp_path / "group.toml", "-n", "200", "--failures", "12", "--schedule", "-q"], timeout=200)
    none = recorder.run([recorder.friday, "refine", lean], timeout=60)
    assert none.returncode == 2 and "has no full recording of a run" in none.stderr and "--record" in none.stderr, none
    runs = {}
    for line in (lean / "runs.jsonl").read_text().splitlines():
        runs.setdefault(json.loads(line)["result"], json.loads(line)["run"])
    for run in runs.values():
        forced = recorder.run([recorder.friday, "force", lean, str(run), "--record", "-n", "1", "-q"], timeout=120)
        assert forced.returncode == 0, forced
    done = recorder.run([recorder.friday, "refine", lean], timeout=120)
    assert done.returncode == 0 and f"forced-{runs['FAILED']}/run-1 (failed)" in done.stdout and f"forced-{runs['passed']}/run-1 (passed)" in done.stdout, done
    recorder.none_left()
