// What core/stop reads of functions, with the C library's told apart by core/rsp, on a real process.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/rsp/dynamic.h"
#include "core/rsp/tls.h"
#include "core/stop/effects.h"
#include "tests/unit/stop_support.h"

namespace friday {
namespace {

// Bound when first called, bound at the start, and called through the table itself.
class Effects : public testing::TestWithParam<const char*> {
 protected:
  Effects() { program.run_to(program.symbol("ready")); }
  FunctionEffects of(const std::string& function) {
    return effects_of(program.node, Addr{program.symbol("effect_" + function)},
                      [this](uint64_t slot) -> std::optional<std::string> {
                        auto name = libc_function(program.node, slot);
                        return name ? std::optional(*name) : std::nullopt;
                      });
  }
  Debuggee program{{GetParam()}};
};

TEST_P(Effects, AreReadOfPlainFunctions) {
  EXPECT_TRUE(of("none").known && of("none").stores.empty() && !of("none").sets_errno);
  const FunctionEffects variable = of("variable");
  ASSERT_TRUE(variable.known && variable.stores.size() == 1);
  EXPECT_EQ(variable.stores[0], (std::pair<uint64_t, uint64_t>{program.symbol("total"), sizeof(long)}));
  EXPECT_FALSE(of("pointer").known);
  EXPECT_FALSE(of("table").known);
}

TEST_P(Effects, OfTheLibrarysFunctionsAreTheDocumentedOnes) {
  for (const char* name : {"length", "compare"})
    EXPECT_TRUE(of(name).known && of(name).stores.empty() && !of(name).sets_errno) << name;
  for (const char* name : {"number", "number_tail"})
    EXPECT_TRUE(of(name).known && of(name).stores.empty() && of(name).sets_errno) << name;
  const FunctionEffects both = of("both");
  EXPECT_TRUE(both.known && both.stores.size() == 1 && both.sets_errno);
  for (const char* name : {"copy", "print"}) EXPECT_FALSE(of(name).known) << name;
}

TEST_P(Effects, AnEndPointerThatMayNotBeNullIsAStoreToAnywhere) {
  for (const char* name : {"number_rest", "number_given", "number_perhaps"}) EXPECT_FALSE(of(name).known) << name;
}

TEST_P(Effects, OfAFunctionThatIsNotBoundYetAreToBeAskedAgain) {
  const FunctionEffects unbound = of("unbound");
  const bool lazy = std::string(GetParam()).ends_with("lazy");
  EXPECT_EQ(unbound.known, !lazy);
  EXPECT_EQ(unbound.final, !lazy);
  EXPECT_TRUE(of("print").final) << "bound, and no function of which all is known";
}

TEST_P(Effects, ErrnoIsFoundWhereTheProgramSetsIt) {
  auto error = errno_address(program.node, program.thread);
  ASSERT_TRUE(error) << describe(error.error());
  program.put<int>(error->value, 77);
  program.breakpoints.step_one(program.thread);
  for (int i = 0; i < 20 && program.get<int>(error->value) == 77; i++)
    ASSERT_TRUE(program.breakpoints.step_one(program.thread));
  EXPECT_EQ(program.get<int>(error->value), 0);
}

INSTANTIATE_TEST_SUITE_P(Binding, Effects, testing::Values(STOP_EFFECTS_LAZY, STOP_EFFECTS_NOW, STOP_EFFECTS_NOPLT),
                         [](const auto& info) {
                           return std::string(info.param).substr(std::string(info.param).rfind('_') + 1);
                         });

}  // namespace
}  // namespace friday
