#include "console/doctor.h"

#include <unistd.h>

#include <memory>

#include <nlohmann/json.hpp>

#include "console/machine_checks.h"

namespace friday {
namespace {

using nlohmann::json;

struct DoctorOptions {
  std::string directory = ".", gdb = "gdb";
  bool as_json = false;
};

bool is_needed(const MachineCheck& check) {
  return check.needed == NeededFor::both || check.needed == NeededFor::record || check.needed == NeededFor::replay;
}

bool possible(const std::vector<MachineCheck>& checks, NeededFor use) {
  for (const auto& check : checks)
    if (!check.works && (check.needed == NeededFor::both || check.needed == use)) return false;
  return true;
}

void print(const std::vector<MachineCheck>& checks) {
  for (const auto& [key, value] : describe_machine()) fmt::print("{:28} {}\n", key, value);
  fmt::print("\n");
  for (const auto& check : checks) {
    const char* verdict = check.works ? "works" : is_needed(check) ? "REFUSED" : "refused";
    fmt::print("{:28} {}{}\n", check.name, verdict, check.found == "yes" ? "" : "  " + check.found);
    if (check.works) continue;
    const RefusalText& text = refusal_text(check.refusal);
    fmt::print("{:28} costs: {}\n", "", text.cost);
    if (*text.cure) fmt::print("{:28} allow: {}\n", "", text.cure);
  }
  const bool record = possible(checks, NeededFor::record), replay = possible(checks, NeededFor::replay);
  fmt::print("\nrecord {}, replay {}\n", record ? "will work" : "will not work",
             replay ? "will work" : "will not work");
}

void print_json(const std::vector<MachineCheck>& checks) {
  json out = {{"record", possible(checks, NeededFor::record)},
              {"replay", possible(checks, NeededFor::replay)},
              {"machine", json::object()},
              {"checks", json::array()}};
  for (const auto& [key, value] : describe_machine()) out["machine"][key] = value;
  for (const auto& check : checks) {
    const RefusalText& text = refusal_text(check.refusal);
    json entry = {
        {"name", check.name}, {"works", check.works}, {"needed_for", name_of(check.needed)}, {"found", check.found}};
    if (!check.works)
      entry["message"] = describe_refusal(check.refusal, check.found), entry["costs"] = text.cost,
      entry["allow"] = text.cure;
    out["checks"].push_back(std::move(entry));
  }
  fmt::print("{}\n", out.dump(1, ' ', false, json::error_handler_t::replace));
}

int run_doctor(const DoctorOptions& options) {
  fflush(stdout);
  const auto checks = check_machine(options.directory, options.gdb);
  if (options.as_json) print_json(checks);
  else print(checks);
  return possible(checks, NeededFor::record) && possible(checks, NeededFor::replay) ? 0 : 1;
}

}  // namespace

void add_doctor_command(CLI::App& app, int* status) {
  auto options = std::make_shared<DoctorOptions>();
  auto* command =
      app.add_subcommand("doctor", "Try what record and replay need, and say what this machine or container refuses");
  command->add_option("directory", options->directory, "Where recordings are to be made (default: here)");
  command->add_option("--gdb", options->gdb, "The gdb to try");
  command->add_flag("--json", options->as_json, "Print JSON");
  command->footer("Examples:\n  friday doctor\n  friday doctor /var/lib/recordings --json");
  command->callback([options, status] { *status = run_doctor(*options); });
}

}  // namespace friday
