#include "core/cut/bitcode/recording.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include "core/base/check.h"
#include "core/cut/bitcode/memory.h"
#include "core/cut/bitcode/recording_module.h"
#include "core/cut/runtime/log.h"

namespace friday::cut {
namespace {

constexpr size_t kMostRefused = 20;  // that an error lists

// A function that is recorded reads and writes more than the source says of it.
void forget_promises(RecordingModule& recording) {
  for (llvm::Function* function : recording.numbering.functions()) {
    if (function->isDeclaration()) continue;
    function->setMemoryEffects(llvm::MemoryEffects::unknown());
    function->removeFnAttr(llvm::Attribute::NoSync);
    for (llvm::User* user : function->users())
      if (auto* call = llvm::dyn_cast<llvm::CallBase>(user); call && call->getCalledOperand() == function)
        call->setMemoryEffects(llvm::MemoryEffects::unknown());
  }
}

// Variables inside are hashed in checks, those outside cannot be reached at replay.
void place_variables(RecordingModule& recording) {
  for (Id id = 0; id < recording.places.objects.size(); id++) {
    auto* const variable = llvm::dyn_cast_or_null<llvm::GlobalVariable>(recording.places.objects[id]);
    if (!variable || variable->isDeclaration() || variable->isConstant()) continue;
    const uint8_t flags = recording.plan.objects[id];
    const bool inside = (flags & Plan::kObjectInside) != 0, outside = (flags & Plan::kObjectOutside) != 0;
    if (variable->isThreadLocal()) {
      if (inside)
        recording.refused.push_back(symbol_of(*variable) + " is a thread-local variable that would be inside");
      continue;
    }
    const bool has_size = recording.layout.getTypeAllocSize(variable->getValueType()) > 0;
    if (inside == outside || !has_size || variable->hasSection() || variable->getName().starts_with("llvm.")) continue;
    if (variable->hasCommonLinkage()) variable->setLinkage(llvm::GlobalValue::WeakAnyLinkage);
    variable->setSection(inside ? "friday_inside" : "friday_outside");
  }
}

void add_fingerprint(llvm::Module& module, const Plan& plan) {
  llvm::Constant* const text =
      llvm::ConstantDataArray::getString(module.getContext(), recording_fingerprint(plan), false);
  auto* const variable = new llvm::GlobalVariable(module, text->getType(), true, llvm::GlobalValue::WeakODRLinkage,
                                                  text, "friday_cut_fingerprint");
  variable->setVisibility(llvm::GlobalValue::HiddenVisibility);
}

Result<void> complain_of_refused(const RecordingModule& recording, const Record& record) {
  std::string text;
  for (size_t i = 0; i < recording.refused.size() && i < kMostRefused; i++) text += "\n  " + recording.refused[i];
  if (recording.refused.size() > kMostRefused)
    text += fmt::format("\n  and {} more", recording.refused.size() - kMostRefused);
  return fail(ErrorCode::unsupported,
              "{} cannot be recorded across this cut:{}\nChoose a target that has these functions inside, or outside",
              record.source, text);
}

}  // namespace

std::string recording_fingerprint(const Plan& plan) {
  const std::string text = plan_text(plan);
  const uint64_t first = hash_bytes(text.data(), text.size()), second = hash_bytes(text.data(), text.size(), ~first);
  return fmt::format("{:016x}{:016x}", first, second);
}

Result<void> add_recording(llvm::Module& module, const Record& record, const Plan& plan,
                           const Annotations& annotations) {
  FRIDAY_TRY(of_module, plan.module(record.source, fingerprint_text(record)));
  RecordingModule recording(module, *of_module, annotations);
  if (of_module->functions.size() != recording.facts.functions.size() ||
      of_module->objects.size() != recording.facts.objects.size() ||
      of_module->accesses.size() != recording.facts.accesses.size() ||
      of_module->calls.size() != recording.facts.calls.size())
    return fail(ErrorCode::bad_input,
                "the plan does not fit {}: it was made by another version of Friday. Run `friday cut choose` again",
                record.source);
  forget_promises(recording);
  place_variables(recording);
  record_accesses(recording);
  record_calls(recording);
  make_entries(recording);
  add_fingerprint(module, plan);
  if (!recording.refused.empty()) return complain_of_refused(recording, record);
  std::string broken;
  llvm::raw_string_ostream out(broken);
  FRIDAY_CHECK(!llvm::verifyModule(module, &out)) << record.source << ": " << broken.substr(0, 2000);
  return {};
}

}  // namespace friday::cut
