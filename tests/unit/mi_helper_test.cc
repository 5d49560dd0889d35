// core/mi/gdb_friday.py inside a real gdb, on the debuggee types.cc with and without optimisation.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/mi/session.h"
#include "core/mi/typed.h"
#include "tests/unit/mi_pump.h"

namespace friday {
namespace {

using json = nlohmann::json;

// A gdb whose program stands at the line "the tests stop here" of inspect().
struct Inferior {
  std::unique_ptr<MiSession> session;
  PollPump pump{std::vector<MiSession*>{}};

  explicit Inferior(const char* program, bool run_program = true) {
    session = MiSession::start({.arguments = {program}}).value();
    pump = PollPump({session.get()});
    auto ready = session->wait_ready(pump);
    EXPECT_TRUE(ready) << ready.error().message;
    if (!run_program) return;
    run("-break-insert types.cc:84");
    run("-exec-run");
    for (;;) {
      while (auto record = session->take_async())
        if (stop_of(*record)) return;
      if (!pump.pump_once(10000) || !session->is_alive()) break;
    }
    ADD_FAILURE() << "the program did not stop";
  }

  ResultRecord run(const std::string& command) {
    auto record = session->run(command, pump);
    EXPECT_TRUE(record) << command << ": " << record.error().message;
    return record.value_or(ResultRecord{});
  }

  json ask(const std::string& command, const std::string& argument) {
    auto text = json_of(run(command + " " + mi_quote(argument)));
    EXPECT_TRUE(text) << text.error().message;
    return json::parse(text.value_or("null"));
  }
  json plan(const std::string& expression) { return ask("-friday-plan", expression); }
  std::string error(const std::string& command) {
    auto record = session->run(command, pump);
    EXPECT_FALSE(record) << to_string(*record);
    return record ? "" : record.error().message;
  }
  std::string evaluate(const std::string& expression) {
    return value_of(run("-data-evaluate-expression " + mi_quote(expression))).value_or("no value");
  }
  uint64_t number(const std::string& expression) {
    return parse_mi_number(evaluate("(unsigned long)(" + expression + ")")).value();
  }
  std::vector<uint8_t> memory(uint64_t address, size_t size) {
    ResultRecord record = run(fmt::format("-data-read-memory-bytes {} {}", address, size));
    std::string contents(record.fields.find("memory")->fields[0].value.text_of("contents"));
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i + 1 < contents.size(); i += 2)
      bytes.push_back(static_cast<uint8_t>(std::stoi(contents.substr(i, 2), nullptr, 16)));
    return bytes;
  }
  uint64_t execute(const std::string& hex);
};

// A second reading of the bytecode's definition, in numbers: what a plan says must hold outside of the helper too.
uint64_t Inferior::execute(const std::string& hex) {
  std::vector<uint8_t> code;
  for (size_t i = 0; i < hex.size(); i += 2)
    code.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  std::vector<uint64_t> stack;
  size_t at = 0;
  auto operand = [&](int size) {
    uint64_t value = 0;
    while (size-- > 0) value = value << 8 | code.at(at++);
    return value;
  };
  auto pop = [&] {
    uint64_t value = stack.back();
    stack.pop_back();
    return value;
  };
  auto load = [&](size_t size) {
    uint64_t value = 0;
    auto bytes = memory(pop(), size);
    for (size_t i = size; i-- > 0;) value = value << 8 | bytes[i];
    stack.push_back(value);
  };
  for (;;) {
    uint8_t opcode = code.at(at++);
    if (opcode == 0x27) return stack.back();
    if (opcode >= 0x17 && opcode <= 0x1a) {
      load(size_t{1} << (opcode - 0x17));
    } else if (opcode >= 0x22 && opcode <= 0x25) {
      stack.push_back(operand(1 << (opcode - 0x22)));
    } else if (opcode == 0x26) {
      const char* names[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp"};
      stack.push_back(number(fmt::format("${}", names[operand(2)])));
    } else if (opcode == 0x16 || opcode == 0x2a) {
      int shift = 64 - static_cast<int>(operand(1));
      uint64_t top = pop() << shift;
      stack.push_back(opcode == 0x16 ? static_cast<uint64_t>(static_cast<int64_t>(top) >> shift) : top >> shift);
    } else {
      uint64_t right = pop();
      if (opcode == 0x29) continue;
      if (opcode == 0x0e) {
        stack.push_back(right == 0);
        continue;
      }
      if (opcode == 0x20) {
        size_t target = operand(2);
        if (right) at = target;
        continue;
      }
      uint64_t left = pop();
      switch (opcode) {
        case 0x02: stack.push_back(left + right); break;
        case 0x03: stack.push_back(left - right); break;
        case 0x04: stack.push_back(left * right); break;
        case 0x0b: stack.push_back(left >> right); break;
        case 0x13: stack.push_back(left == right); break;
        case 0x14: stack.push_back(static_cast<int64_t>(left) < static_cast<int64_t>(right)); break;
        case 0x2b: stack.insert(stack.end(), {right, left}); break;
        default: ADD_FAILURE() << "opcode " << int{opcode} << " is unknown to the test"; return 0;
      }
    }
  }
}

struct Planned : testing::Test {
  static void SetUpTestSuite() { inferior = std::make_unique<Inferior>(MI_TYPES_O0); }
  static void TearDownTestSuite() { inferior.reset(); }
  static std::unique_ptr<Inferior> inferior;
};
std::unique_ptr<Inferior> Planned::inferior;

TEST_F(Planned, scalars_compute_what_gdb_computes) {
  for (const char* expression : {"srv.id",
                                 "srv_pointer->id",
                                 "srv_pointer->base_field",
                                 "numbers[2]",
                                 "matrix[1][2]",
                                 "key[3]",
                                 "big",
                                 "negative",
                                 "letter",
                                 "srv.ready",
                                 "srv.color",
                                 "srv.small",
                                 "srv.flag",
                                 "srv.balance",
                                 "srv_pointer->balance",
                                 "Node::count",
                                 "srv.count",
                                 "function",
                                 "message",
                                 "message[1]",
                                 "local",
                                 "parameter",
                                 "alias",
                                 "reference",
                                 "reference.id",
                                 "reference.balance",
                                 "reference.linked",
                                 "srv.linked",
                                 "pointer->id",
                                 "pointer",
                                 "anonymous.inside",
                                 "shared.own",
                                 "srv.word",
                                 "(*srv_pointer).word",
                                 "origin.y",
                                 "origin.other->other->x",
                                 "local - 1",
                                 "numbers[1] * matrix[1][0]",
                                 "srv.id == 3",
                                 "local < 0",
                                 "!srv.id",
                                 "&srv",
                                 "&srv.name",
                                 "(char)local",
                                 "sizeof(srv)",
                                 "(long)srv.balance",
                                 "null_node == 0",
                                 "srv.flag - srv.balance"}) {
    json plan = inferior->plan(expression);
    ASSERT_EQ(plan["kind"], "agent") << expression << plan;
    EXPECT_TRUE(plan["verified"]) << expression;
    uint64_t got = inferior->execute(plan["agent"]);
    json type = plan["types"][plan["type"].get<size_t>()];
    if (plan["result"] == "address") {
      EXPECT_EQ(got, inferior->number(fmt::format("&({})", expression))) << expression;
      continue;
    }
    uint64_t size = type["size"];
    uint64_t mask = size == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * size) - 1;
    EXPECT_EQ(got & mask, inferior->number(expression) & mask) << expression << " " << plan;
  }
}

TEST_F(Planned, a_null_on_the_way_still_gives_a_plan) {
  json plan = inferior->plan("null_node->next->id");
  EXPECT_EQ(plan["kind"], "agent");
  EXPECT_FALSE(plan["verified"]);
  EXPECT_EQ(plan["types"][plan["type"].get<size_t>()]["name"], "int");
}

TEST_F(Planned, lvalues_have_a_place) {
  json whole = inferior->plan("srv");
  EXPECT_EQ(whole["result"], "address");
  EXPECT_EQ(whole["place"]["size"], inferior->number("sizeof(srv)"));
  EXPECT_EQ(inferior->execute(whole["place"]["agent"]), inferior->number("&srv"));
  EXPECT_FALSE(whole["frame"]);

  json ratio = inferior->plan("ratio");
  EXPECT_EQ(ratio["result"], "address");
  EXPECT_EQ(ratio["types"][0]["format"], "ieee64");

  json word = inferior->plan("srv.word");
  EXPECT_EQ(inferior->execute(word["place"]["agent"]), inferior->number("&srv.word"));

  json bits = inferior->plan("srv.balance");
  EXPECT_EQ(bits["place"]["size"], 1);
  EXPECT_EQ(bits["place"]["bit"], 3);
  EXPECT_EQ(bits["place"]["bits"], 5);
  uint8_t byte = inferior->memory(inferior->execute(bits["place"]["agent"]), 1)[0];
  EXPECT_EQ(byte >> 3, -2 & 31);

  EXPECT_TRUE(inferior->plan("local + 1")["place"].is_null());
  EXPECT_FALSE(inferior->plan("local + 1")["lvalue"]);
}

TEST_F(Planned, locals_depend_on_the_frame_and_name_their_scope) {
  json local = inferior->plan("local");
  EXPECT_TRUE(local["frame"]);
  EXPECT_EQ(local["registers"], json::array({6}));
  EXPECT_EQ(local["scope"]["function"], "inspect");
  EXPECT_EQ(local["scope"]["pc"], inferior->number("$pc"));
  EXPECT_LE(local["scope"]["block"], local["scope"]["pc"]);
  EXPECT_GT(local["scope"]["block_end"], local["scope"]["pc"]);
  inferior->run("-stack-select-frame 1");
  json total = inferior->plan("total");
  EXPECT_EQ(total["kind"], "gdb");
  EXPECT_EQ(total["scope"]["level"], 1);
  EXPECT_EQ(inferior->plan("srv.id")["kind"], "agent");
  inferior->run("-stack-select-frame 0");
}

TEST_F(Planned, what_bytecode_cannot_say_is_left_to_gdb) {
  for (const char* expression : {"1 + inspect(3, srv)",
                                 "inspect(3.5, srv)",
                                 "local = 3",
                                 "local++",
                                 "ratio * 2",
                                 "(int)ratio",
                                 "alias + 1",
                                 "alias == 126",
                                 "-alias",
                                 "&alias",
                                 "*&alias",
                                 "srv.linked + 1",
                                 "(bool)local",
                                 "per_thread",
                                 "shared.base_field",
                                 "shared.base_field + 1",
                                 "\"text\"",
                                 "$_thread",
                                 "1.5",
                                 "inspect"}) {
    json plan = inferior->plan(expression);
    EXPECT_EQ(plan["kind"], "gdb") << expression << " " << plan;
    EXPECT_FALSE(plan["reason"].get<std::string>().empty()) << expression;
  }
  EXPECT_EQ(inferior->evaluate("local"), "3906") << "planning evaluated something with an effect";
  EXPECT_TRUE(inferior->session->is_alive());
}

TEST_F(Planned, calls_that_come_first_are_for_the_core) {
  json call = inferior->plan("inspect(local, srv)");
  ASSERT_EQ(call["kind"], "call") << call;
  EXPECT_EQ(call["call"]["arguments"].size(), 2u);
  EXPECT_EQ(call["call"]["returned"]["passing"], json::array({"integer"}));
  EXPECT_TRUE(call["frame"]) << "a local variable is found by a register";
  for (const char* expression : {"inspect(3, srv) + 1", "!inspect(3, srv)", "(inspect(3, srv) > local) && srv.id"})
    EXPECT_EQ(inferior->plan(expression)["kind"], "call") << expression;
  for (const char* expression :
       {"local && inspect(3, srv)", "inspect(3, srv) + inspect(4, srv)", "sizeof(inspect(3, srv))"})
    EXPECT_NE(inferior->plan(expression)["kind"], "call") << expression;
  EXPECT_EQ(inferior->evaluate("local"), "3906") << "planning called the function";
}

TEST_F(Planned, errors_have_the_words_of_gdb) {
  EXPECT_EQ(inferior->error("-friday-plan nosuch"), "No symbol \"nosuch\" in current context.");
  EXPECT_EQ(inferior->error("-friday-plan srv.nofield"), "There is no member or method named nofield.");
  EXPECT_EQ(inferior->error("-friday-plan \"srv.\""), "A syntax error in expression, near `'.");
  EXPECT_EQ(inferior->error("-friday-plan"), "Usage: -friday-plan EXPR");
  EXPECT_EQ(inferior->error("-friday-locate nosuch"), "Function \"nosuch\" not defined.");
  EXPECT_EQ(inferior->error("-friday-locate types.cc:99999"), "No line 99999 in file \"types.cc\".");
}

TEST_F(Planned, what_gdb_cannot_translate_is_left_to_it) {
  for (const char* left : {"parameter + srv.word", "parameter ? srv.word : 1", "caller.call(parameter)"})
    EXPECT_EQ(inferior->plan(left)["kind"], "gdb") << left;
  for (const char* missing : {"-friday-plan \"parameter + srv.wordy\"", "-friday-plan \"parameter + origin.z\""})
    EXPECT_NE(inferior->error(missing).find("There is no member"), std::string::npos) << missing;
  EXPECT_EQ(
      inferior->error("-friday-plan *elsewhere"),
      "Elsewhere is an incomplete type: it is declared here, and the debug information does not say what is in it");
}

TEST_F(Planned, a_class_without_members_is_complete) {
  const json plan = inferior->plan("nothing");
  EXPECT_EQ(plan["kind"], "agent");
  EXPECT_EQ(plan["types"][plan["type"].get<size_t>()]["size"], 1);
}

TEST_F(Planned, only_pointers_to_functions_can_be_called) {
  for (const char* call : {"caller.call(parameter) + 1", "(int)caller.call(parameter)", "(&caller)->call(srv.id)"})
    EXPECT_EQ(inferior->plan(call)["kind"], "gdb") << call;
  for (const char* call :
       {"parameter(3)", "srv.id(3) == 1", "caller.call(parameter(3))", "parameter(1) + caller.call(1)"})
    EXPECT_TRUE(inferior->error(fmt::format("-friday-plan \"{}\"", call)).ends_with("used as function")) << call;
}

json field_named(const json& entry, const char* name) {
  for (const json& field : entry["fields"])
    if (field["name"] == name) return field;
  ADD_FAILURE() << "no field " << name << " in " << entry;
  return {};
}

TEST_F(Planned, types_describe_every_byte) {
  json plan = inferior->plan("srv");
  const json& types = plan["types"];
  const json& node = types[plan["type"].get<size_t>()];
  EXPECT_EQ(node["kind"], "struct");
  EXPECT_EQ(node["name"], "Node");
  auto type_of = [&](const char* field) { return types[field_named(node, field)["type"].get<size_t>()]; };
  for (const char* field : {"id", "name", "weight", "next", "color", "ready", "small"})
    EXPECT_EQ(field_named(node, field)["offset"], inferior->number(fmt::format("(char*)&srv.{} - (char*)&srv", field)))
        << field;
  EXPECT_EQ(field_named(node, "flag")["bit"], 0);
  EXPECT_EQ(field_named(node, "flag")["bits"], 3);
  EXPECT_EQ(field_named(node, "balance")["bit"], 3);
  EXPECT_TRUE(field_named(node, "Base")["base"]);
  EXPECT_EQ(type_of("name"), json({{"name", "char [16]"},
                                   {"plain", "char [16]"},
                                   {"kind", "array"},
                                   {"size", 16},
                                   {"lower", 0},
                                   {"count", 16},
                                   {"char", true},
                                   {"element", type_of("name")["element"]}}));
  EXPECT_EQ(type_of("color")["values"], json::array({{"red", 0}, {"green", 5}, {"also_green", 5}}));
  EXPECT_EQ(type_of("next")["target"], "Node");
  EXPECT_EQ(type_of("ready")["kind"], "bool");
  EXPECT_EQ(type_of("small")["name"], "Node::Small");
  EXPECT_EQ(type_of("small")["kind"], "int");
  EXPECT_EQ(type_of("linked")["kind"], "reference");
  for (const json& field : node["fields"])
    EXPECT_NE(field["name"], "count") << "static members are no bytes of the object";
  bool anonymous = false;
  for (const json& field : node["fields"])
    if (field["name"].is_null()) anonymous = types[field["type"].get<size_t>()]["kind"] == "union";
  EXPECT_TRUE(anonymous);

  plan = inferior->plan("shared");
  EXPECT_TRUE(field_named(plan["types"][0], "Base")["offset"].is_null());
  EXPECT_EQ(inferior->plan("wide")["types"][0]["format"], "x87");
  EXPECT_EQ(inferior->plan("key")["types"][0]["name"], "Key");
  EXPECT_EQ(inferior->plan("key")["types"][0]["char"], false);
  EXPECT_EQ(inferior->plan("message")["types"][0]["char"], true);
  EXPECT_EQ(inferior->plan("letter")["types"][0]["char"], true);
  EXPECT_EQ(inferior->plan("function")["types"][0]["function"], true);
  EXPECT_EQ(inferior->plan("matrix")["types"][1]["kind"], "array");
  EXPECT_EQ(inferior->plan("big")["types"][0]["name"], "uint64_t");
  EXPECT_EQ(inferior->plan("big")["types"][0]["plain"], "unsigned long");
  EXPECT_EQ(inferior->plan("quad")["types"][0]["format"], "ieee128");
  for (const char* same : {"plan_point", "const_point", "named_point"}) {
    plan = inferior->plan(same);
    EXPECT_EQ(plan["types"][plan["type"].get<size_t>()]["plain"], "Point") << same;
  }
  plan = inferior->plan("flexible.items");
  EXPECT_EQ(plan["types"][plan["type"].get<size_t>()]["count"], 0);
  plan = inferior->plan("nameless");
  EXPECT_EQ(plan["types"][plan["type"].get<size_t>()]["plain"], "Nameless");
}

TEST_F(Planned, locations_are_all_found_and_none_is_left) {
  json overloaded = inferior->ask("-friday-locate", "overloaded");
  ASSERT_EQ(overloaded.size(), 2u);
  EXPECT_EQ(overloaded[0]["line"], 75);
  EXPECT_EQ(overloaded[1]["function"], "overloaded(double)");
  json inlined = inferior->ask("-friday-locate", "inlined");
  EXPECT_EQ(inlined.size(), 3u);
  json line = inferior->ask("-friday-locate", "types.cc:84");
  ASSERT_EQ(line.size(), 1u);
  EXPECT_EQ(line[0]["address"], inferior->number("$pc"));
  EXPECT_TRUE(line[0]["full_name"].get<std::string>().ends_with("/mi_targets/types.cc"));
  json address = inferior->ask("-friday-locate", "*$pc");
  ASSERT_EQ(address.size(), 1u);
  EXPECT_EQ(address[0]["address"], line[0]["address"]);
  EXPECT_EQ(inferior->ask("-friday-locate", "space::twice<int>").size(), 1u);
  EXPECT_EQ(breakpoints_of(inferior->run("-break-list").fields).size(), 1u) << "only the test's own";
  EXPECT_EQ(inferior->session->console("maint info breakpoints", inferior->pump).value().find("types.cc:75"),
            std::string::npos);
  while (auto record = inferior->session->take_async())
    EXPECT_EQ(record->name.find("breakpoint-created"), std::string::npos);
}

TEST_F(Planned, addresses_have_sources) {
  uint64_t pc = inferior->number("$pc");
  uint64_t library = inferior->number("&malloc") + 4;
  json places = json::parse(json_of(inferior->run(fmt::format("-friday-source {} {:#x} 8", pc, library))).value());
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[0]["addr"], pc);
  EXPECT_EQ(places[0]["function"], "inspect(int, Node&)");
  EXPECT_EQ(places[0]["line"], 84);
  EXPECT_TRUE(places[0]["file"].get<std::string>().ends_with("types.cc"));
  EXPECT_NE(places[1]["function"].get<std::string>().find("malloc"), std::string::npos)
      << places[1];  // libc's or its debug name
  EXPECT_EQ(places[1]["offset"], 4);
  EXPECT_TRUE(places[2]["function"].is_null());
  EXPECT_TRUE(places[2]["line"].is_null());
}

TEST_F(Planned, symbols_are_completed) {
  EXPECT_EQ(inferior->ask("-friday-symbols", "srv.na"), json({{"candidates", {"srv.name"}}, {"truncated", false}}));
  json all = inferior->ask("-friday-symbols", "space::");
  EXPECT_EQ(all["candidates"].size(), 2u);
  json few = json::parse(json_of(inferior->run("-friday-symbols s 3")).value());
  EXPECT_EQ(few["candidates"].size(), 3u);
  EXPECT_TRUE(few["truncated"]);
  EXPECT_EQ(value_of(inferior->run("-gdb-show max-completions")).value(), "200");
}

TEST(PlannedOptimised, registers_and_lost_variables) {
  Inferior inferior(MI_TYPES_O2);
  json global = inferior.plan("srv.id");
  ASSERT_EQ(global["kind"], "agent");
  EXPECT_EQ(inferior.execute(global["agent"]), 3u);
  for (const char* expression : {"local", "parameter", "pointer", "pointer->id", "reference.id", "alias"}) {
    json plan = inferior.plan(expression);
    if (plan["kind"] == "gdb") continue;  // optimised out, or in a form that bytecode does not know
    EXPECT_TRUE(plan["verified"]) << expression;
    uint64_t got = inferior.execute(plan["agent"]);
    EXPECT_EQ(static_cast<uint32_t>(got), static_cast<uint32_t>(inferior.number(expression)))
        << expression << " " << plan;
  }
  EXPECT_GE(inferior.ask("-friday-locate", "inlined").size(), 1u);
}

TEST(PlannedBeforeStart, says_what_it_can) {
  Inferior inferior(MI_TYPES_O0, false);
  EXPECT_EQ(inferior.plan("srv.id")["kind"], "gdb");
  EXPECT_TRUE(inferior.plan("srv.id")["scope"]["pc"].is_null());
  EXPECT_EQ(inferior.ask("-friday-locate", "overloaded").size(), 2u);
}

}  // namespace
}  // namespace friday
