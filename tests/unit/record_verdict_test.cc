// What counts as a failed run, and what the placeholders of a group file become.
#include <gmock/gmock.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <csignal>

#include "core/base/fd.h"
#include "core/record/placeholders.h"
#include "core/record/verdict.h"

namespace friday {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

int exited(int code) { return W_EXITCODE(code, 0); }
int died(int signal) { return W_EXITCODE(0, signal); }

ProgramEnd program(const std::string& name, int status, int stopped_by = 0, bool killed = false) {
  return {name, true, true, status, stopped_by, killed};
}

GroupSpec group_of(std::vector<std::string> must_succeed, std::string stop_when_ends = "") {
  GroupSpec group;
  group.must_succeed = std::move(must_succeed);
  group.stop_when_ends = std::move(stop_when_ends);
  return group;
}

std::string why(const GroupSpec& group, std::vector<ProgramEnd> programs, GroupEnd end = GroupEnd::programs_ended) {
  LaunchResult result;
  result.programs = std::move(programs);
  result.ended_by = end;
  const auto failure = failure_of(group, result);
  return failure ? fmt::format("{} ({})", failure->why, failure->code) : "passed";
}

TEST(Verdict, OnlyNamedProgramsMustSucceed) {
  EXPECT_EQ(why(group_of({}), {program("a", exited(1))}), "passed");
  EXPECT_EQ(why(group_of({"b"}), {program("a", exited(1)), program("b", exited(0))}), "passed");
  EXPECT_EQ(why(group_of({"a"}), {program("a", exited(7))}), "a: exit 7 (7)");
  EXPECT_EQ(why(group_of({"a"}), {program("a", died(SIGKILL))}), "a: SIGKILL (137)");
}

TEST(Verdict, TheProgramThatEndsTheGroupMustSucceedUnlessOthersAreNamed) {
  EXPECT_EQ(why(group_of({}, "client"), {program("client", exited(3))}), "client: exit 3 (3)");
  EXPECT_EQ(why(group_of({"a"}, "client"), {program("client", exited(3)), program("a", exited(0))}), "passed");
}

TEST(Verdict, BadExitsOfWhichTheGroupFileSaysNothingAreListed) {
  const auto names = [](const GroupSpec& group) {
    LaunchResult result;
    result.programs = {program("a", exited(3)), program("client", exited(1)), program("b", exited(0)),
                       program("c", died(SIGKILL)), program("d", exited(128 + SIGTERM), SIGTERM)};
    std::vector<std::string> out;
    for (const BadExit& exit : unjudged_exits(group, result)) out.push_back(fmt::format("{} {}", exit.name, exit.code));
    return out;
  };
  EXPECT_THAT(names(group_of({}, "client")), ElementsAre("a 3"));
  EXPECT_THAT(names(group_of({})), ElementsAre("a 3", "client 1"));
  EXPECT_THAT(names(group_of({"b"})), ElementsAre());
  GroupSpec checked = group_of({});
  checked.check = {"true"};
  EXPECT_THAT(names(checked), ElementsAre());
}

TEST(Verdict, ACrashFailsWhoeverItIs) {
  for (int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL})
    EXPECT_THAT(why(group_of({}), {program("a", died(signal))}), HasSubstr("a crashed: SIG"));
  EXPECT_EQ(why(group_of({}), {program("a", died(SIGSEGV), SIGTERM)}, GroupEnd::stop_after),
            "a crashed: SIGSEGV (139)");
  EXPECT_EQ(why(group_of({}), {program("a", died(SIGKILL))}), "passed");  // tests kill servers on purpose
}

TEST(Verdict, ACrashedChildFails) {
  LaunchResult result;
  result.programs = {program("a", exited(0))};
  NodeSummary child;
  child.name = "a/child-1";
  child.wait_status = died(SIGABRT);
  result.nodes = {child};
  const auto failure = failure_of(group_of({}), result);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->why, "a/child-1 crashed: SIGABRT");
  EXPECT_EQ(failure->code, 134);
}

TEST(Verdict, WhatWasStoppedMayReportTheSignal) {
  const GroupSpec group = group_of({"a"});
  EXPECT_EQ(why(group, {program("a", died(SIGTERM), SIGTERM)}, GroupEnd::stop_after), "passed");
  EXPECT_EQ(why(group, {program("a", exited(143), SIGTERM)}, GroupEnd::stop_after), "passed");
  EXPECT_EQ(why(group, {program("a", exited(130), SIGTERM)}, GroupEnd::stop_after), "a: exit 130 (130)");
  EXPECT_THAT(why(group, {program("a", died(SIGKILL), SIGTERM, true)}, GroupEnd::stop_after), HasSubstr("a hung"));
}

TEST(Verdict, ATimeoutNamesWhoHadNotEnded) {
  GroupSpec group = group_of({});
  group.timeout = 2.5;
  EXPECT_EQ(why(group, {program("a", exited(0)), program("b", died(SIGTERM), SIGTERM)}, GroupEnd::timeout),
            "hung: not ended after timeout = 2.5 s: b had not ended (124)");
}

TEST(Verdict, AnInterruptedRunHasNotFailed) {
  EXPECT_EQ(why(group_of({"a"}), {program("a", exited(1), SIGTERM)}, GroupEnd::interrupted), "passed");
}

TEST(Verdict, UnrecordedProgramsThatEndedBadlyAreNamed) {
  LaunchResult result;
  result.programs = {program("server", exited(1)), program("client", exited(3)),
                     program("load", died(SIGTERM), SIGTERM)};
  result.programs[1].recorded = result.programs[2].recorded = false;
  EXPECT_THAT(bad_ends_of_unrecorded(result), ElementsAre("client (not recorded): exit 3"));
}

std::string filled(const std::string& text) {
  Placeholders placeholders("/tmp/absent/rec/", 7);
  auto result = placeholders.fill(text);
  return result ? *result : "refused: " + result.error().message;
}

TEST(Placeholders, WhatIsNearlyOneIsNamedAndOtherBracesAreNot) {
  GroupSpec group;
  group.programs.emplace_back().command = {"--at={prot:web}", "{port:web}", "{Dir}/x", "{adress:n1}", "{prot:web}"};
  EXPECT_THAT(near_misses(group),
              ElementsAre(HasSubstr("{Dir} in the group file is no placeholder"), HasSubstr("was {address:n1} meant?"),
                          HasSubstr("was {port:web} meant?")));
  group.programs[0].command = {R"({"port": 1})", "${prot}",      "{print}", "{a:b}",     "{{prot:web}}",
                               "{port_of: 1}",   "{ prot:web }", "{1..3}",  "{range:7}", "{}{x}"};
  EXPECT_THAT(near_misses(group), ElementsAre());
}

TEST(Placeholders, AreFilled) {
  EXPECT_EQ(filled("--out={recording}/x-{run}"), "--out=/tmp/absent/rec/x-7");
  EXPECT_EQ(filled("{dir}/a:{dir}"), "/tmp/absent/rec/dir/a:/tmp/absent/rec/dir");
}

TEST(Placeholders, OtherBracesStandForThemselves) {
  for (const char* text : {"", "{", "}", "{}", "{1: 2}", "f'{x}'", "${dir}", "${run:-1}", "{.Name}", "{ dir }",
                           "{ports}", "{dir", "a}b{c"})
    EXPECT_EQ(filled(text), text);
  EXPECT_EQ(filled("{{dir}} {run} {{port:a}}"), "{dir} 7 {port:a}");
  EXPECT_EQ(filled("{{run} {x{run}}"), "{7 {x7}");
  EXPECT_THAT(filled("{port}"), HasSubstr("{port:server}"));
  EXPECT_THAT(filled("{port:}"), HasSubstr("a port needs a name"));
}

TEST(Placeholders, ANameIsOnePortWithinARun) {
  Placeholders first("/tmp/absent/rec", 1);
  const auto ports = first.fill("{port:a} {port:b} {port:a}");
  ASSERT_TRUE(ports);
  unsigned a = 0, b = 0, again = 0;
  ASSERT_EQ(sscanf(ports->c_str(), "%u %u %u", &a, &b, &again), 3);
  EXPECT_EQ(a, again);
  EXPECT_NE(a, b);
  for (unsigned port : {a, b}) {
    const UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << port;
  }
}

TEST(Placeholders, ReachEveryTextOfAGroup) {
  GroupSpec group;
  ProgramSpec program;
  program.name = "a";
  program.command = {"server", "{run}"};
  program.cwd = program.output = program.errors = "{run}";
  program.environment["KEY"] = "{run}";
  group.programs = {program};
  group.check = {"check", "{run}"};
  const auto result = Placeholders("/tmp/absent/rec", 3).fill(group);
  ASSERT_TRUE(result);
  const ProgramSpec& got = result->programs[0];
  EXPECT_THAT(got.command, ElementsAre("server", "3"));
  EXPECT_THAT((std::vector{got.cwd, got.output, got.errors, got.environment.at("KEY")}),
              ElementsAre("3", "3", "3", "3"));
  EXPECT_THAT(result->check, ElementsAre("check", "3"));
}

}  // namespace
}  // namespace friday
