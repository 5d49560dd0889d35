// The C library's functions as friday-infer executes them, against the real ones: with plain bytes, with bytes that are
// symbols, and with all other values of these that the noted decisions allow.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <strings.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "core/infer/solver/library.h"
#include "core/infer/solver/path.h"

namespace friday::infer {
namespace {

constexpr size_t kSize = 48;

struct Arena {
  char left[kSize + 16], right[kSize + 16];
};

struct Call {
  uint64_t a, b, c, d;
};

// As the program would call it, on its own memory.
uint64_t real_call(Function function, const Call& call) {
  auto* a = reinterpret_cast<char*>(call.a);
  auto* b = reinterpret_cast<char*>(call.b);
  const auto number = [](const void* pointer) { return reinterpret_cast<uint64_t>(pointer); };
  const auto difference = [](int value) { return static_cast<uint64_t>(static_cast<uint32_t>(value)); };
  switch (function) {
    case Function::memcpy: return number(memcpy(a, b, call.c));
    case Function::memmove: return number(memmove(a, b, call.c));
    case Function::mempcpy: return number(mempcpy(a, b, call.c));
    case Function::memset: return number(memset(a, static_cast<int>(call.b), call.c));
    case Function::memcmp: return difference(memcmp(a, b, call.c));
    case Function::bcmp: return difference(bcmp(a, b, call.c));
    case Function::memchr: return number(memchr(a, static_cast<int>(call.b), call.c));
    case Function::rawmemchr: return number(rawmemchr(a, static_cast<int>(call.b)));
    case Function::memrchr: return number(memrchr(a, static_cast<int>(call.b), call.c));
    case Function::memmem: return number(memmem(a, call.b, reinterpret_cast<char*>(call.c), call.d));
    case Function::strlen: return strlen(a);
    case Function::strnlen: return strnlen(a, call.b);
    case Function::strcmp: return difference(strcmp(a, b));
    case Function::strncmp: return difference(strncmp(a, b, call.c));
    case Function::strcasecmp: return difference(strcasecmp(a, b));
    case Function::strncasecmp: return difference(strncasecmp(a, b, call.c));
    case Function::strchr: return number(strchr(a, static_cast<int>(call.b)));
    case Function::strchrnul: return number(strchrnul(a, static_cast<int>(call.b)));
    case Function::strrchr: return number(strrchr(a, static_cast<int>(call.b)));
    case Function::strcpy: return number(strcpy(a, b));
    case Function::strncpy: return number(strncpy(a, b, call.c));
    case Function::stpcpy: return number(stpcpy(a, b));
    case Function::strcat: return number(strcat(a, b));
    case Function::strspn: return strspn(a, b);
    case Function::strcspn: return strcspn(a, b);
    case Function::strpbrk: return number(strpbrk(a, b));
    case Function::strstr: return number(strstr(a, b));
  }
  return 0;
}

// Of comparisons only the sign is defined.
uint64_t defined_part(Function function, uint64_t result) {
  const auto sign = static_cast<int32_t>(result);
  switch (function) {
    case Function::bcmp: return result != 0;
    case Function::memcmp:
    case Function::strcmp:
    case Function::strncmp:
    case Function::strcasecmp:
    case Function::strncasecmp: return sign < 0 ? 1 : sign > 0 ? 2 : 0;
    default: return result;
  }
}

class InferLibrary : public testing::TestWithParam<int> {
 protected:
  ~InferLibrary() override { close(descriptor_); }

  Function function() const { return static_cast<Function>(GetParam()); }

  void fill(Arena* arena) {
    const bool equal_start = random_() % 3 == 0;
    for (size_t i = 0; i < sizeof(arena->left); ++i) {
      arena->left[i] = letter();
      arena->right[i] = equal_start ? arena->left[i] : letter();
    }
    arena->right[random_() % 12] = 0;
    arena->left[8 + random_() % 20] = 0;
    arena->left[kSize / 2] = arena->right[kSize / 2] = 0;
  }
  char letter() { return random_() % 4 == 0 ? static_cast<char>(random_()) : "abAB z"[random_() % 6]; }

  Call arguments(const Arena& arena) {
    const auto left = reinterpret_cast<uint64_t>(arena.left) + random_() % 4,
               right = reinterpret_cast<uint64_t>(arena.right) + random_() % 4;
    const uint64_t count = random_() % 20;
    switch (function()) {
      case Function::memset:
      case Function::memchr:
      case Function::memrchr: return {left, static_cast<uint8_t>(letter()) | (random_() & 0xffff00), count, 0};
      case Function::rawmemchr: return {left, 0, 0, 0};
      case Function::strchr:
      case Function::strchrnul:
      case Function::strrchr: return {left, random_() % 8 == 0 ? uint64_t{0} : static_cast<uint8_t>(letter()), 0, 0};
      case Function::strnlen: return {left, count, 0, 0};
      case Function::memmem: return {left, count + 5, right, random_() % 3};
      case Function::memmove:
        return random_() % 2 != 0 ? Call{left, left + random_() % 8, count, 0}
                                  : Call{left + random_() % 8, left, count, 0};
      default: return {left, right, count, 0};
    }
  }

  std::mt19937_64 random_{static_cast<uint64_t>(GetParam()) + 100};
  int descriptor_ = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
};

INSTANTIATE_TEST_SUITE_P(Functions, InferLibrary, testing::Range(1, 28));

TEST_P(InferLibrary, DoesWhatTheRealOneDoes) {
  static Arena arena;
  static uint64_t stack[8];
  int other_models = 0;
  for (int round = 0; round < 160; ++round) {
    fill(&arena);
    const Call call = arguments(arena);
    const Arena before = arena;
    Expressions x;
    Memory memory(x);
    memory.attach(descriptor_);
    Machine machine(memory);
    Symbolic symbolic(machine, x);
    // Some bytes are symbols, whose values are what is there.
    Model model;
    std::vector<char*> places;
    const auto* bytes = reinterpret_cast<const uint8_t*>(&arena);
    const uint64_t share = std::array<uint64_t, 4>{0, 2, 5, 10}[static_cast<size_t>(round) % 4];
    for (size_t i = 0; i < sizeof(arena); ++i) {
      if (random_() % 10 >= share) continue;
      memory.set_start_shadow(reinterpret_cast<uint64_t>(bytes + i), x.symbol(static_cast<uint32_t>(model.size())));
      model.push_back(bytes[i]);
      places.push_back(reinterpret_cast<char*>(&arena) + i);
    }
    x.set_model(&model);
    stack[4] = 0x123456;
    machine.state.guest_RSP = reinterpret_cast<uint64_t>(&stack[4]);
    machine.state.guest_RDI = call.a, machine.state.guest_RSI = call.b, machine.state.guest_RDX = call.c,
    machine.state.guest_RCX = call.d;
    StateShadows none{};
    symbolic.start(none);
    ASSERT_EQ(call_library_function(symbolic, function()), LibraryResult::done);
    EXPECT_EQ(machine.state.guest_RIP, 0x123456u);
    EXPECT_EQ(machine.state.guest_RSP, reinterpret_cast<uint64_t>(&stack[5]));
    const Expr result = symbolic.register_at(offset_of_general(0), 8);
    std::vector<Expr> after;
    for (size_t i = 0; i < sizeof(arena); ++i) after.push_back(symbolic.byte_at(reinterpret_cast<uint64_t>(bytes + i)));

    const auto compare = [&] {  // with what the real function does now
      const uint64_t real = real_call(function(), call);
      ASSERT_EQ(defined_part(function(), x.value(result)), defined_part(function(), real)) << "round " << round;
      for (size_t i = 0; i < sizeof(arena); ++i)
        ASSERT_EQ(x.value(after[i]), bytes[i]) << "round " << round << ", byte " << i;
    };
    compare();
    if (HasFatalFailure()) return;
    // Other values, with which all that was decided holds.
    Questions questions(x);
    std::vector<Expr> conditions;
    for (const Decision& each : symbolic.decisions()) {
      ASSERT_EQ(x.value(each.holds), 1u);
      conditions.push_back(each.holds);
    }
    for (int i = 0; i < 3 && !model.empty(); ++i) {
      Model other = model;
      for (uint8_t& each : other) each = random_() % 3 != 0 ? static_cast<uint8_t>(letter()) : each;
      if (questions.solve(conditions, &other, std::chrono::steady_clock::now() + std::chrono::seconds(2)) !=
          Answer::yes)
        continue;
      arena = before;
      for (size_t k = 0; k < places.size(); ++k) *places[k] = static_cast<char>(other[k]);
      // Strings must end before the arena does.
      if (strnlen(reinterpret_cast<char*>(call.a), kSize) == kSize) continue;
      ++other_models;
      x.set_model(&other);
      compare();
      if (HasFatalFailure()) return;
      x.set_model(&model);
    }
  }
  EXPECT_GT(other_models, 60);
}

}  // namespace
}  // namespace friday::infer
