#include "core/cut/bitcode/modules.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "core/cut/bitcode/collect.h"
#include "core/cut/bitcode/normalise.h"
#include "core/cut/bitcode/numbering.h"
#include "core/cut/bitcode/record_read.h"
#include "core/cut/facts_check.h"

namespace friday::cut {

Result<std::unique_ptr<llvm::Module>> normal_module(const Record& record, llvm::LLVMContext& context) {
  FRIDAY_TRY(bitcode, bitcode_of(record));
  // Debug information of an older form would be dropped with a remark on standard error.
  context.setDiagnosticHandlerCallBack([](const llvm::DiagnosticInfo*, void*) {});
  auto module = llvm::parseBitcodeFile(llvm::MemoryBufferRef(bitcode, record.source), context);
  if (!module)
    return fail(ErrorCode::bad_input, "LLVM cannot read the bitcode of {}: {}. Build it again with this Friday",
                record.source, llvm::toString(module.takeError()));
  std::string wrong;
  llvm::raw_string_ostream text(wrong);
  if (llvm::verifyModule(**module, &text))
    return fail(ErrorCode::bad_input, "the bitcode of {} is not valid: {}. Build it again with this Friday",
                record.source, wrong.substr(0, wrong.find('\n')));
  normalise(**module);
  return std::move(*module);
}

Result<Facts> facts_of(const Record& record) {
  llvm::LLVMContext context;
  FRIDAY_TRY(module, normal_module(record, context));
  const Numbering numbering(*module);
  Facts facts = collect_facts(*module, numbering);
  facts.module = record.source;
  facts.fingerprint = fingerprint_text(record);
  FRIDAY_TRY_VOID(check_facts(facts));
  return facts;
}

void yield_to_program(Facts& facts) {
  const auto yield = [](auto& list) {
    for (auto& each : list)
      if (each.linkage == Linkage::strong) each.linkage = Linkage::weak;
  };
  yield(facts.functions);
  yield(facts.objects);
  yield(facts.aliases);
}

Result<void> in_parallel(size_t count, unsigned threads, const std::function<Result<void>(size_t)>& work) {
  std::vector<Result<void>> results(count);
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto run = [&] {
    for (size_t i; !failed && (i = next++) < count;) {
      results[i] = work(i);
      if (!results[i]) failed = true;
    }
  };
  std::vector<std::jthread> workers;
  for (size_t i = 1; i < std::min<size_t>(threads, count); i++) workers.emplace_back(run);
  run();
  workers.clear();
  for (Result<void>& each : results)
    if (!each) return std::move(each);
  return {};
}

}  // namespace friday::cut
