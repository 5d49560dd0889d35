// Numbers and facts of small modules, which stand here in LLVM's own language.
#include <gmock/gmock.h>

#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>

#include "core/cut/bitcode/collect.h"
#include "core/cut/bitcode/counting.h"
#include "core/cut/bitcode/normalise.h"
#include "core/cut/bitcode/numbering.h"
#include "core/cut/bitcode/show.h"
#include "core/cut/facts_check.h"

namespace friday::cut {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kLayout =
    "target datalayout = \"e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128\"\n"
    "target triple = \"x86_64-pc-linux-gnu\"\n";

class ModuleOfText {
 public:
  explicit ModuleOfText(const std::string& text) {
    llvm::SMDiagnostic wrong;
    module = llvm::parseAssemblyString(kLayout + text, wrong, context);
    if (!module) ADD_FAILURE() << wrong.getMessage().str();
    else normalise(*module);
  }
  std::string facts() {
    Facts facts = collect_facts(*module, Numbering(*module));
    facts.module = "m.c";
    facts.fingerprint = std::string(32, '0');
    const auto checked = check_facts(facts);
    EXPECT_TRUE(checked) << checked.error().message;
    return facts_text(facts);
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
};

TEST(Facts, AddressesCopiesLoadsAndStores) {
  ModuleOfText m(R"(
    %pair = type { ptr, [4 x { i64, ptr }] }
    @g = global %pair zeroinitializer
    @start = global [2 x ptr] [ptr @g, ptr getelementptr (i8, ptr @g, i64 16)]
    define ptr @f(ptr %p, i64 %i) {
      %q = getelementptr %pair, ptr %p, i64 0, i32 1, i64 %i, i32 1
      %v = load ptr, ptr %q
      store ptr %v, ptr @g
      ret ptr %v
    })");
  EXPECT_THAT(m.facts(),
              AllOf(HasSubstr("*(start + 8) = p"), HasSubstr(" + 8\nflow f: "), HasSubstr("+ any (stride 16, span 64)"),
                    HasSubstr("= &g + 16"), HasSubstr("access f block 0 line 0: r *p"), HasSubstr("w *p")));
}

TEST(Facts, LocalVariablesBecomeValuesUnlessTheirAddressIsTaken) {
  ModuleOfText m(R"(
    declare void @use(ptr)
    define i32 @f(i32 %n) {
      %a = alloca i32
      %b = alloca i32
      store i32 %n, ptr %a
      call void @use(ptr %b)
      %x = load i32, ptr %a
      ret i32 %x
    })");
  const std::string facts = m.facts();
  EXPECT_THAT(facts, AllOf(HasSubstr("stack f.b"), Not(HasSubstr("stack f.a"))));
  EXPECT_THAT(facts, Not(HasSubstr("access")));
}

TEST(Facts, IntegersThatCarryAddresses) {
  ModuleOfText m(R"(
    define i64 @carries(ptr %p) {
      %i = ptrtoint ptr %p to i64
      %t = or i64 %i, 1
      ret i64 %t
    }
    define i64 @counts(i64 %n) {
      %x = mul i64 %n, 3
      %c = icmp ult i64 %x, 10
      %y = zext i1 %c to i64
      ret i64 %y
    })");
  const std::string facts = m.facts();
  EXPECT_THAT(facts, HasSubstr("+ any"));
  EXPECT_THAT(facts, Not(HasSubstr("flow counts")));
}

TEST(Facts, MovesCallsAndCounters) {
  ModuleOfText m(R"(
    declare i64 @read(i32, ptr, i64)
    declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
    define i64 @f(ptr %a, ptr %b, i64 %n, ptr %call) {
      call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %b, i64 %n, i1 false)
      call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %b, i64 24, i1 false)
      %r = call i64 @read(i32 0, ptr %a, i64 %n)
      %s = call i64 %call(ptr %a)
      ret i64 %r
    })");
  EXPECT_THAT(m.facts(), AllOf(HasSubstr("any length"), HasSubstr(", 24 bytes"), HasSubstr("r *p3 length 0"),
                               HasSubstr("read(-:4=0, p"), HasSubstr(":8#1) -> p6:8#2"),
                               HasSubstr("call f block 0 line 0: *p5(")));
}

TEST(Facts, WhatIsNotSeenIsNamed) {
  ModuleOfText m(R"IR(
    module asm "nop"
    define void @f(ptr %p) {
      call void asm sideeffect "movq $$1, ($0)", "r,~{memory}"(ptr %p)
      ret void
    })IR");
  EXPECT_THAT(m.facts(), AllOf(HasSubstr("assembler text outside of functions"),
                               HasSubstr("unseen f line 0: assembler text: movq"), HasSubstr("rw *p")));
}

TEST(Facts, AliasesConstructorsAndThreadLocals) {
  ModuleOfText m(R"(
    @t = thread_local global i32 0
    @llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @init, ptr null }]
    @other = alias void (), ptr @init
    @weak = weak global i32 1
    define internal void @init() { ret void }
    declare extern_weak void @maybe()
    define ptr @f() {
      %a = call ptr @llvm.threadlocal.address.p0(ptr @t)
      %c = icmp eq ptr @maybe, null
      %r = select i1 %c, ptr %a, ptr @maybe
      ret ptr %r
    })");
  EXPECT_THAT(m.facts(), AllOf(HasSubstr("init internal () -> -:0 started"), HasSubstr("t strong 4 bytes thread"),
                               HasSubstr("alias other strong of init"), HasSubstr("weak weak"),
                               HasSubstr("maybe declared"), HasSubstr("= &maybe")));
}

TEST(Facts, InlineCodeThatOthersAlsoDefineIsTheModulesOwn) {
  ModuleOfText m(R"(
    @p = global ptr @shared
    define available_externally i32 @shared(i32 %n) { ret i32 %n }
    define i32 @f(i32 %n) {
      %r = call i32 @shared(i32 %n)
      ret i32 %r
    })");
  EXPECT_THAT(m.facts(), AllOf(HasSubstr("shared.inline internal"), HasSubstr("shared declared"),
                               HasSubstr("= &shared\n"), HasSubstr("shared.inline(")));
}

TEST(Numbers, AreThoseOfTheOrderInTheModule) {
  const char* text = R"(
    declare i32 @g(ptr, i32)
    define i32 @f(i32 %n, ptr %p) {
    entry:
      %c = icmp eq i32 %n, 0
      br i1 %c, label %one, label %two
    one:
      %r = call i32 @g(ptr %p, i32 %n)
      ret i32 %r
    two:
      ret i32 1
    dead:
      ret i32 2
    })";
  ModuleOfText m(text), again(text);
  const Numbering numbering(*m.module), other(*again.module);
  EXPECT_EQ(numbering.blocks().size(), 3u) << "code that nothing reaches is gone";
  ASSERT_EQ(numbering.lengths().size(), 2u);
  EXPECT_EQ(numbering.lengths()[0].argument, 1u);
  EXPECT_EQ(numbering.lengths()[1].what, LengthSite::What::result);
  EXPECT_EQ(numbering.length_of_result(*numbering.lengths()[0].call), 1u);
  EXPECT_EQ(other.blocks().size(), numbering.blocks().size());
  EXPECT_EQ(m.facts(), again.facts());
}

TEST(Counters, AreValidAndEqualInNumber) {
  ModuleOfText m(R"(
    declare i32 @g(ptr, i32)
    declare i32 @__gxx_personality_v0(...)
    define i32 @f(i32 %n, ptr %p) personality ptr @__gxx_personality_v0 {
      %c = icmp eq i32 %n, 0
      br i1 %c, label %one, label %join
    one:
      %r = invoke i32 @g(ptr %p, i32 %n) to label %join unwind label %bad
    join:
      %v = phi i32 [ %r, %one ], [ 0, %0 ]
      ret i32 %v
    bad:
      %e = landingpad { ptr, i32 } cleanup
      resume { ptr, i32 } %e
    }
    define void @tail(ptr %p) memory(none) {
      musttail call void @tail(ptr %p)
      ret void
    })");
  Record record{.source = "m.c"};
  store_fingerprint(record, "m");
  ASSERT_TRUE(add_counters(*m.module, record));
  EXPECT_FALSE(llvm::verifyModule(*m.module, &llvm::errs()));
  const auto* counters = m.module->getGlobalVariable("friday.counts", true);
  ASSERT_TRUE(counters);
  EXPECT_EQ(m.module->getDataLayout().getTypeAllocSize(counters->getValueType()) % 4096, 0u);
  EXPECT_FALSE(m.module->getFunction("tail")->doesNotAccessMemory());
}

}  // namespace
}  // namespace friday::cut
