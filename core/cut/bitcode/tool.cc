// friday-bitcode: what `friday cut` asks of LLVM. It reads the records of programs that `friday cc` built (record.h).
//
//   friday-bitcode list PROGRAM [LIBRARY...]             modules, and the code without bitcode
//   friday-bitcode facts PROGRAM [LIBRARY...] -o DIR     facts for the analysis, DIR/NNNN-NAME.facts
//   friday-bitcode show FILE.facts...                    facts as text
//   friday-bitcode counting PROGRAM [LIBRARY...] -o DIR  the same files, built to count for a profile, in DIR
//   friday-bitcode observing PROGRAM [LIBRARY...] -o DIR the same files, built to check the analysis, in DIR
//   friday-bitcode recording --plan PLAN PROGRAM -o DIR  the program, built to be recorded across a cut, in DIR
//   friday-bitcode compare PROGRAM [LIBRARY...] -d DIR   what those did, against what the analysis predicts
#include <algorithm>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/base/printable.h"
#include "core/cut/bitcode/counting.h"
#include "core/cut/bitcode/modules.h"
#include "core/cut/bitcode/observed.h"
#include "core/cut/bitcode/observing.h"
#include "core/cut/bitcode/program.h"
#include "core/cut/bitcode/recording.h"
#include "core/cut/bitcode/relink.h"
#include "core/cut/bitcode/show.h"
#include "core/cut/facts.h"

namespace friday::cut {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string directory, plan;
  std::vector<std::string> annotations;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  bool as_json = false;
};

int complain_of(const Error& error) {
  fmt::print(stderr, "friday-bitcode: {}\n", describe(error));
  return error.code == ErrorCode::diverged ? 1 : 2;
}

Result<std::vector<LinkedFile>> read_files(const Options& options) {
  std::vector<LinkedFile> files;
  for (const std::string& each : options.files) {
    FRIDAY_TRY(file, read_linked(each));
    files.push_back(std::move(file));
  }
  return files;
}

Result<void> make_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return fail(ErrorCode::io, "cannot make the directory {}: {}", path, error.message());
  return {};
}

void print_json(const std::vector<LinkedFile>& files) {
  nlohmann::json all = nlohmann::json::array();
  for (const LinkedFile& file : files) {
    nlohmann::json modules = nlohmann::json::array();
    for (const Record& each : file.modules)
      modules.push_back({{"source", each.source},
                         {"directory", each.directory},
                         {"fingerprint", fingerprint_text(each)},
                         {"bytes", each.plain_bytes}});
    nlohmann::json entry = {{"file", file.path}, {"modules", std::move(modules)}, {"unseen", unseen_code(file)}};
    if (file.link) entry["link"] = {{"directory", file.link->directory}, {"command", file.link->arguments}};
    all.push_back(std::move(entry));
  }
  fmt::print("{}\n", printable_json(all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

void print_list(const std::vector<LinkedFile>& files) {
  for (const LinkedFile& file : files) {
    uint64_t bytes = 0;
    for (const Record& each : file.modules) bytes += each.plain_bytes;
    fmt::print("{}: {} {}, {} KiB of bitcode\n", printable(file.path), file.modules.size(),
               file.modules.size() == 1 ? "module" : "modules", bytes / 1024);
    for (const Record& each : file.modules)
      fmt::print("  {}  {}  (in {})\n", fingerprint_text(each).substr(0, 12), printable(each.source),
                 printable(each.directory));
    const std::vector<std::string> unseen = unseen_code(file);
    if (!unseen.empty())
      fmt::print(" without bitcode, so the cut takes it for code that may do anything with what it reaches:\n");
    for (const std::string& each : unseen) fmt::print("  {}\n", printable(each));
  }
}

Result<void> list(const Options& options) {
  FRIDAY_TRY(files, read_files(options));
  if (options.as_json) print_json(files);
  else print_list(files);
  return {};
}

Result<void> write_all_facts(const Options& options) {
  FRIDAY_TRY(files, read_files(options));
  FRIDAY_TRY_VOID(make_directory(options.directory));
  struct Item {
    const Record* record;
    bool in_library;
    Facts facts{};
  };
  std::vector<Item> items;
  for (const LinkedFile& file : files)
    for (const Record& each : file.modules) items.push_back({&each, &file != &files.front()});
  struct Sums {
    size_t functions = 0, pointers = 0, flows = 0, calls = 0, accesses = 0, unseen = 0;
  };
  std::vector<Sums> sums(items.size());
  FRIDAY_TRY_VOID(in_parallel(items.size(), options.jobs, [&](size_t i) -> Result<void> {
    FRIDAY_TRY(facts, facts_of(*items[i].record));
    if (items[i].in_library) yield_to_program(facts);
    const std::string name = fmt::format("{:04}-{}.facts", i, short_name(*items[i].record));
    FRIDAY_TRY_VOID(write_facts(facts, std::filesystem::path(options.directory) / name));
    const auto defined =
        std::ranges::count_if(facts.functions, [](const Function& f) { return f.first_block != kNone; });
    sums[i] = {static_cast<size_t>(defined), facts.pointers,        facts.flows.size(),
               facts.calls.size(),           facts.accesses.size(), facts.unseen.size()};
    return {};
  }));
  Sums all;
  for (const Sums& each : sums) {
    all.functions += each.functions, all.pointers += each.pointers, all.flows += each.flows;
    all.calls += each.calls, all.accesses += each.accesses, all.unseen += each.unseen;
  }
  fmt::print("{} modules: {} functions, {} pointers, {} flows, {} calls, {} accesses, {} pieces of unseen code\n",
             items.size(), all.functions, all.pointers, all.flows, all.calls, all.accesses, all.unseen);
  return {};
}

Result<void> show(const Options& options) {
  for (const std::string& each : options.files) {
    FRIDAY_TRY(facts, read_facts(each));
    fmt::print("{}", printable_lines(facts_text(facts)));
  }
  return {};
}

Result<void> build(const Options& options, const Relink& common) {
  FRIDAY_TRY(files, read_files(options));
  FRIDAY_TRY_VOID(make_directory(options.directory));
  for (const LinkedFile& file : files) {
    Relink how = common;
    how.jobs = options.jobs;
    how.output = (std::filesystem::path(options.directory) / std::filesystem::path(file.path).filename()).string();
    FRIDAY_TRY_VOID(relink(file, how));
    fmt::print("{}\n", printable(how.output));
  }
  return {};
}

Result<void> build_counting(const Options& options) {
  return build(options, {.output = {}, .runtime = "friday-counting.o", .change = add_counters});
}

Result<void> build_observing(const Options& options) {
  return build(options, {.output = {}, .runtime = "friday-observing.so", .change = observe_accesses});
}

Result<void> build_recording(const Options& options) {
  if (options.files.size() > 1)
    return fail(ErrorCode::unsupported,
                "only one file can be built for recording, and {} is a second one: code inside must be in the program "
                "itself, whose addresses are fixed. Leave out libraries without code inside",
                options.files[1]);
  FRIDAY_TRY(plan, read_plan(options.plan));
  FRIDAY_TRY(annotations, Annotations::standard());
  for (const std::string& each : options.annotations) FRIDAY_TRY_VOID(annotations.add_file(each));
  return build(options, {.output = {},
                         .runtime = "friday-cut-runtime.o",
                         .fixed = true,
                         .change = [&](llvm::Module& module, const Record& record) {
                           return add_recording(module, record, plan, annotations);
                         }});
}

Result<void> compare(const Options& options) {
  FRIDAY_TRY(files, read_files(options));
  std::vector<Facts> modules;
  for (const LinkedFile& file : files)
    for (const Record& each : file.modules) {
      FRIDAY_TRY(facts, facts_of(each));
      if (&file != &files.front()) yield_to_program(facts);
      modules.push_back(std::move(facts));
    }
  FRIDAY_TRY(program, link_with_ids(options.files.front(), std::move(modules)));
  FRIDAY_TRY(report, compare_with_prediction(program, options.directory));
  fmt::print("{} pairs of an access and memory in {} files: {} predicted, {} not; {} of replaced definitions\n",
             report.pairs, report.files, report.predicted, report.unpredicted_count, report.replaced);
  for (const std::string& each : report.unpredicted) fmt::print("  {}\n", printable(each));
  if (report.unpredicted_count > 0)
    return fail(ErrorCode::diverged, "the analysis of {} is not sound: it does not predict what is named above",
                options.files.front());
  return {};
}

}  // namespace
}  // namespace friday::cut

int main(int argc, char** argv) {
  using namespace friday::cut;
  CLI::App app{"What friday cut asks of LLVM: bitcode of programs that friday cc has built", "friday-bitcode"};
  app.require_subcommand(1);
  Options options;
  friday::Result<void> result;
  const auto add = [&](const char* name, const char* help, friday::Result<void> (*work)(const Options&), bool writes) {
    CLI::App* const command = app.add_subcommand(name, help);
    command->add_option("files", options.files, "The program, then shared objects that it loads")->required();
    if (writes) {
      command->add_option("-o,--output", options.directory, "Where files go")->required();
      command->add_option("-j,--jobs", options.jobs, "How many modules at a time")->check(CLI::Range(1, 1024));
    } else {
      command->add_flag("--json", options.as_json, "As JSON");
    }
    command->callback([&, work] { result = work(options); });
  };
  add("list", "Show the modules of a program, and the code of which there is no bitcode", list, false);
  add("facts", "Write the facts of each module for the analysis", write_all_facts, true);
  add("counting", "Build the program again so that it counts for a profile", build_counting, true);
  add("observing", "Build the program again so that it checks the analysis", build_observing, true);
  add("recording", "Build the program again so that it is recorded across a cut", build_recording, true);
  CLI::App* const recording = app.get_subcommand("recording");
  recording->add_option("--plan", options.plan, "The plan that `friday cut choose --plan` wrote")->required();
  recording->add_option("--annotations", options.annotations, "What functions without code do; as for the plan");
  CLI::App* const compared = app.add_subcommand("compare", "Compare observations with what the analysis predicts");
  compared->add_option("files", options.files, "The program, then shared objects that it loads")->required();
  compared->add_option("-d,--observed", options.directory, "The directory with the observations")->required();
  compared->callback([&] { result = compare(options); });
  CLI::App* const shown = app.add_subcommand("show", "Print facts as text");
  shown->add_option("files", options.files, "Files of facts")->required();
  shown->callback([&] { result = show(options); });
  CLI11_PARSE(app, argc, argv);
  return result ? 0 : complain_of(result.error());
}
