// calls.def as data, indexed by call number. The last entry stands for all other numbers.
#include "core/shim/calls.h"

namespace friday::shim {

namespace {
constexpr Operand RET(uint8_t a) { return {Shape::ret, a, 0, 0}; }
constexpr Operand RETN(uint8_t a, uint8_t b, uint16_t n) { return {Shape::ret_n, a, b, n}; }
constexpr Operand RETCAP(uint8_t a, uint8_t b) { return {Shape::ret_cap, a, b, 0}; }
constexpr Operand FIX(uint8_t a, uint16_t n) { return {Shape::fix, a, 0, n}; }
constexpr Operand CNT(uint8_t a, uint8_t b, uint16_t n) { return {Shape::count, a, b, n}; }
constexpr Operand LEN(uint8_t a, uint8_t b) { return {Shape::length, a, b, 0}; }
constexpr Operand IOV(uint8_t a, uint8_t b) { return {Shape::iov, a, b, 0}; }
constexpr Operand MSG(uint8_t a) { return {Shape::msg, a, 0, 0}; }
constexpr Operand MMSG(uint8_t a, uint8_t b) { return {Shape::mmsg, a, b, 0}; }
constexpr Operand MMSGLEN(uint8_t a) { return {Shape::mmsg_len, a, 0, 0}; }
constexpr Operand FDSET(uint8_t a) { return {Shape::fdset, a, 0, 0}; }
constexpr Operand BUF(uint8_t a, uint8_t b) { return {Shape::buffer, a, b, 0}; }
constexpr Operand STR(uint8_t a) { return {Shape::string, a, 0, 0}; }
constexpr Operand ARG(uint8_t a, uint8_t b) { return {Shape::argument, a, b, 0}; }
constexpr Operand PAGES(uint8_t a, uint8_t b) { return {Shape::pages, a, b, 0}; }
constexpr Operand MTEXT(uint8_t a, uint8_t b) { return {Shape::message_text, a, b, 0}; }
constexpr Operand HANDLE(uint8_t a) { return {Shape::handle, a, 0, 0}; }
constexpr Operand AIO(uint8_t a) { return {Shape::aio_events, a, 0, 0}; }
constexpr Operand IOCBS(uint8_t a, uint8_t b) { return {Shape::iocbs, a, b, 0}; }
constexpr Operand CAPS(uint8_t a) { return {Shape::caps, a, 0, 0}; }
constexpr Operand NODES(uint8_t a, uint8_t b) { return {Shape::nodes, a, b, 0}; }
constexpr Operand OWNIOV(uint8_t a, uint8_t b) { return {Shape::own_iov, a, b, 0}; }
constexpr Operand SPLICED(uint8_t a, uint8_t b) { return {Shape::spliced, a, b, 0}; }
constexpr Operand XATTR(uint8_t a) { return {Shape::xattr, a, 0, 0}; }
constexpr Operand ROOM(uint8_t a) { return {Shape::msg_room, a, 0, 0}; }
constexpr Operand MROOM(uint8_t a, uint8_t b) { return {Shape::mmsg_room, a, b, 0}; }
constexpr Operand SIZED(uint8_t a) { return {Shape::sized, a, 0, 0}; }
constexpr Operand MASK(uint8_t a) { return {Shape::mask, a, 0, 0}; }
constexpr Operand CODED() { return {Shape::coded, 0, 0, 0}; }

// The mask of the arguments of 32 bits.
constexpr uint8_t narrow(const char* arguments) {
  unsigned mask = 0;
  for (unsigned n = 0; arguments[n]; n++) mask |= (arguments[n] == 'i') << n;
  return (uint8_t)mask;
}

#define OUTS(...) \
  { __VA_ARGS__ }
#define INS(...) \
  { __VA_ARGS__ }
constexpr CallTable build() {
  CallTable table;
  for (CallInfo& info : table.calls) info.name = "unknown";
#define CALL(number, name, arguments, rule, flags, outs, ins) \
  table.calls[number] = CallInfo{#name, sizeof arguments - 1, narrow(arguments), rule, flags, outs, ins};
#include "core/shim/calls.def"
  return table;
}
}  // namespace

constinit const CallTable call_storage = build();

}  // namespace friday::shim
