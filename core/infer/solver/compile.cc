#include <algorithm>
#include <bit>
#include <string>

#include "core/infer/solver/code.h"

namespace friday::infer {
namespace {

class Compiler {
 public:
  Compiler(const IRSB& from, const Frame& frame, Block* block)
      : from_(from), frame_(frame), block_(*block), places_(static_cast<size_t>(from.tyenv->types_used)) {}

  bool compile() {
    for (int i = 0; i < from_.stmts_used; ++i) {
      if (!statement(*from_.stmts[i])) return false;
    }
    Step& last = add(Does::leave, {value(from_.next)});
    last.extra = &block_.exits.emplace_back(Exit{0, from_.jumpkind});
    return !out_of_room_;
  }
  const std::string& unknown() const { return unknown_; }

 private:
  static int words_of(int bits) { return std::max(1, bits / 64); }
  int bits(const IRExpr* expression) const { return bits_of(typeOfIRExpr(from_.tyenv, expression)); }

  uint64_t* allocate(int words) {
    if (used_ + static_cast<size_t>(words) > frame_.words) {
      out_of_room_ = true;
      used_ = 0;
    }
    uint64_t* place = frame_.temporaries + used_;
    used_ += static_cast<size_t>(words);
    return place;
  }
  uint64_t* define(IRTemp temporary) {
    if (temporary == IRTemp_INVALID) return nullptr;
    uint64_t* place = allocate(words_of(bits_of(from_.tyenv->types[temporary])));
    places_[temporary] = place;
    return place;
  }

  const uint64_t* constant(std::array<uint64_t, 4> words) { return block_.constants.emplace_back(words).data(); }
  const uint64_t* constant(const IRConst& constant_of_vex) {
    const auto& value = constant_of_vex.Ico;
    const auto spread = [&](uint32_t bits, int word) {  // one bit for each byte of a vector
      uint64_t bytes = 0;
      for (int i = 0; i < 8; ++i) bytes |= (bits >> (8 * word + i) & 1) != 0 ? 0xffull << (8 * i) : 0;
      return bytes;
    };
    switch (constant_of_vex.tag) {
      case Ico_U1: return constant({value.U1 != 0});
      case Ico_U8: return constant({value.U8});
      case Ico_U16: return constant({value.U16});
      case Ico_U32: return constant({value.U32});
      case Ico_U64: return constant({value.U64});
      case Ico_F32: return constant({std::bit_cast<uint32_t>(value.F32)});
      case Ico_F32i: return constant({value.F32i});
      case Ico_F64: return constant({std::bit_cast<uint64_t>(value.F64)});
      case Ico_F64i: return constant({value.F64i});
      case Ico_U128:
      case Ico_V128: return constant({spread(value.V128, 0), spread(value.V128, 1)});
      case Ico_V256:
        return constant({spread(value.V256, 0), spread(value.V256, 1), spread(value.V256, 2), spread(value.V256, 3)});
    }
    return constant({0});
  }
  // IR from the front end is flat: operands are temporaries or constants.
  const uint64_t* value(const IRExpr* expression) {
    return expression->tag == Iex_RdTmp ? places_[expression->Iex.RdTmp.tmp] : constant(*expression->Iex.Const.con);
  }

  Step& add(Does does, std::initializer_list<const uint64_t*> operands, uint64_t* to = nullptr, int words = 1) {
    Step& step = block_.steps.emplace_back();
    step.does = does;
    std::copy(operands.begin(), operands.end(), step.from);
    step.to = to;
    step.words = static_cast<uint8_t>(words);
    step.instruction = static_cast<uint16_t>(std::max<size_t>(block_.instructions.size(), 1) - 1);
    step.execute =
        does == Does::operation || does == Does::get || does == Does::put || does == Does::load || does == Does::store
            ? nullptr
            : function_of(does);
    return step;
  }
  static void mark(StateWords& words, int offset, int bytes) {
    for (int word = offset / 8; word <= (offset + bytes - 1) / 8; ++word)
      words[static_cast<size_t>(word) / 64] |= 1ull << (word % 64);
  }
  uint64_t* state_at(int offset) {
    return reinterpret_cast<uint64_t*>(reinterpret_cast<uint8_t*>(frame_.state) + offset);
  }

  bool statement(const IRStmt& statement) {
    switch (statement.tag) {
      case Ist_NoOp:
      case Ist_AbiHint:
      case Ist_MBE: return true;
      case Ist_IMark: block_.instructions.push_back(statement.Ist.IMark.addr); return true;
      case Ist_Put: return put(statement.Ist.Put.offset, statement.Ist.Put.data);
      case Ist_PutI: return put_indexed(*statement.Ist.PutI.details);
      case Ist_WrTmp: return assign(statement.Ist.WrTmp.tmp, *statement.Ist.WrTmp.data);
      case Ist_Store: return store(statement.Ist.Store.addr, statement.Ist.Store.data);
      case Ist_LoadG: return load_if(*statement.Ist.LoadG.details);
      case Ist_StoreG: return store_if(*statement.Ist.StoreG.details);
      case Ist_CAS: return compare_swap(*statement.Ist.CAS.details);
      case Ist_Dirty: return dirty(*statement.Ist.Dirty.details);
      case Ist_Exit: return leave_if(statement);
      case Ist_LLSC: break;  // not of this architecture
    }
    unknown_ = "a load-linked statement";
    return false;
  }

  bool put(int offset, const IRExpr* data) {
    const int bytes = std::max(1, bits(data) / 8);
    mark(block_.writes, offset, bytes);
    Step& step = add(Does::put, {value(data)}, state_at(offset), words_of(8 * bytes));
    step.number = static_cast<uint16_t>(bytes);
    step.execute = function_of_put(bytes);
    return true;
  }

  const Indexed* indexed(const IRRegArray& array, int bias) {
    const int element = std::max(1, bits_of(array.elemTy) / 8);
    mark(block_.reads, array.base, element * array.nElems);
    mark(block_.writes, array.base, element * array.nElems);
    return &block_.indexed.emplace_back(Indexed{static_cast<uint64_t>(array.base), element, array.nElems, bias});
  }
  bool put_indexed(const IRPutI& put) {
    add(Does::put_indexed, {value(put.ix), value(put.data)}).extra = indexed(*put.descr, put.bias);
    return true;
  }

  bool assign(IRTemp temporary, const IRExpr& data) {
    const int result_bits = bits_of(from_.tyenv->types[temporary]), words = words_of(result_bits);
    switch (data.tag) {
      case Iex_RdTmp:
      case Iex_Const: places_[temporary] = const_cast<uint64_t*>(value(&data)); return true;
      case Iex_Get: {
        const int bytes = std::max(1, result_bits / 8);
        mark(block_.reads, data.Iex.Get.offset, bytes);
        Step& step = add(Does::get, {state_at(data.Iex.Get.offset)}, define(temporary), words);
        step.number = static_cast<uint16_t>(bytes);
        step.execute = function_of_get(bytes);
        return true;
      }
      case Iex_GetI: {
        const uint64_t* index = value(data.Iex.GetI.ix);
        add(Does::get_indexed, {index}, define(temporary)).extra = indexed(*data.Iex.GetI.descr, data.Iex.GetI.bias);
        return true;
      }
      case Iex_Load: {
        Step& step = add(Does::load, {value(data.Iex.Load.addr)}, define(temporary), words);
        step.number = static_cast<uint16_t>(result_bits / 8);
        step.execute = function_of_load(result_bits / 8);
        return true;
      }
      case Iex_ITE:
        add(Does::choose, {value(data.Iex.ITE.cond), value(data.Iex.ITE.iftrue), value(data.Iex.ITE.iffalse)},
            define(temporary), words);
        return true;
      case Iex_CCall: return call(temporary, data);
      case Iex_Unop: return operation(temporary, data.Iex.Unop.op, {data.Iex.Unop.arg});
      case Iex_Binop: return operation(temporary, data.Iex.Binop.op, {data.Iex.Binop.arg1, data.Iex.Binop.arg2});
      case Iex_Triop: {
        const IRTriop& triop = *data.Iex.Triop.details;
        return operation(temporary, triop.op, {triop.arg1, triop.arg2, triop.arg3});
      }
      case Iex_Qop: {
        const IRQop& qop = *data.Iex.Qop.details;
        return operation(temporary, qop.op, {qop.arg1, qop.arg2, qop.arg3, qop.arg4});
      }
      default: unknown_ = "an expression that only VEX itself uses"; return false;
    }
  }

  bool operation(IRTemp temporary, IROp op, std::initializer_list<const IRExpr*> operands) {
    const Signature& signature = signature_of(op);
    if (only_widens(op)) {
      places_[temporary] = const_cast<uint64_t*>(value(*operands.begin()));
      return true;
    }
    const NativeStep* native = nullptr;
    Execute function = function_of(op);
    if (function == nullptr) {
      native = native_step(op, signature);
      function = function_of_native();
      if (native == nullptr) {
        unknown_ = name_of(op);
        return false;
      }
    }
    Step& step = add(Does::operation, {});
    size_t number = 0;
    for (const IRExpr* operand : operands) step.from[number++] = value(operand);
    step.to = define(temporary);
    step.words = static_cast<uint8_t>(words_of(signature.result));
    step.number = static_cast<uint16_t>(op - Iop_INVALID);
    step.execute = function;
    step.extra = native;
    return true;
  }
  // compile_operations() was called before, so nothing is translated here, which would overwrite the IR.
  static const NativeStep* native_step(IROp op, const Signature& signature) {
    static std::deque<NativeStep> known;
    static std::vector<const NativeStep*> by_operation(Iop_LAST - Iop_INVALID);
    const NativeStep*& found = by_operation[static_cast<size_t>(op - Iop_INVALID)];
    if (found == nullptr) {
      const NativeOperation* compiled = native_operation(op);
      if (compiled != nullptr) found = &known.emplace_back(NativeStep{compiled, signature});
    }
    return found;
  }

  bool store(const IRExpr* address, const IRExpr* data) {
    const int bytes = bits(data) / 8;
    Step& step = add(Does::store, {value(address), value(data)});
    step.words = static_cast<uint8_t>(words_of(8 * bytes));
    step.number = static_cast<uint16_t>(bytes);
    step.execute = function_of_store(bytes);
    return true;
  }
  bool store_if(const IRStoreG& guarded) {
    Step& step = add(Does::store_if, {value(guarded.addr), value(guarded.data), value(guarded.guard)});
    step.number = static_cast<uint16_t>(bits(guarded.data) / 8);
    step.words = static_cast<uint8_t>(words_of(bits(guarded.data)));
    return true;
  }
  bool load_if(const IRLoadG& guarded) {
    IRType result, loaded;
    typeOfIRLoadGOp(guarded.cvt, &result, &loaded);
    const GuardedLoad how{bits_of(loaded) / 8, bits_of(result),
                          guarded.cvt == ILGop_16Sto32 || guarded.cvt == ILGop_8Sto32};
    const uint64_t *address = value(guarded.addr), *otherwise = value(guarded.alt), *guard = value(guarded.guard);
    Step& step = add(Does::load_if, {address, otherwise, guard}, define(guarded.dst), words_of(how.to_bits));
    step.number = static_cast<uint16_t>(how.bytes);
    step.extra = &block_.guarded_loads.emplace_back(how);
    return true;
  }
  bool compare_swap(const IRCAS& cas) {
    CompareSwap swap;
    swap.bytes = bits(cas.expdLo) / 8;
    swap.address = value(cas.addr);
    swap.expected[0] = value(cas.expdLo);
    swap.data[0] = value(cas.dataLo);
    swap.old[0] = define(cas.oldLo);
    if (cas.expdHi != nullptr) {
      swap.expected[1] = value(cas.expdHi);
      swap.data[1] = value(cas.dataHi);
      swap.old[1] = define(cas.oldHi);
    }
    add(Does::compare_swap, {}).extra = &block_.swaps.emplace_back(swap);
    return true;
  }

  static bool too_many(const Call& call) { return call.arguments.size() > 8; }
  bool call(IRTemp temporary, const IRExpr& data) {
    Call call;
    call.function = data.Iex.CCall.cee->addr;
    call.name = data.Iex.CCall.cee->name;
    call.result_bits = bits_of(data.Iex.CCall.retty);
    for (IRExpr** next = data.Iex.CCall.args; *next != nullptr; ++next)
      call.arguments.emplace_back(Call::Argument::value, value(*next));
    call.to = define(temporary);
    if (too_many(call)) return unknown_ = call.name, false;
    uint64_t* to = call.to;
    add(Does::call, {}, to).extra = &block_.calls.emplace_back(std::move(call));
    return true;
  }
  bool dirty(const IRDirty& dirty) {
    Call call;
    call.function = dirty.cee->addr;
    call.name = dirty.cee->name;
    call.guard = value(dirty.guard);
    call.reads_memory = dirty.mFx == Ifx_Read || dirty.mFx == Ifx_Modify;
    call.writes_memory = dirty.mFx == Ifx_Write || dirty.mFx == Ifx_Modify;
    if (dirty.mFx != Ifx_None) {
      call.address = value(dirty.mAddr);
      call.bytes = dirty.mSize;
    }
    for (IRExpr** next = dirty.args; *next != nullptr; ++next) {
      const IRExprTag tag = (*next)->tag;
      if (tag == Iex_GSPTR || tag == Iex_VECRET) {
        call.arguments.emplace_back(tag == Iex_GSPTR ? Call::Argument::state : Call::Argument::result, nullptr);
      } else {
        call.arguments.emplace_back(Call::Argument::value, value(*next));
      }
    }
    parts_of_state(dirty, &call);
    if (dirty.tmp != IRTemp_INVALID) {
      call.result_bits = bits_of(from_.tyenv->types[dirty.tmp]);
      call.to = define(dirty.tmp);
    }
    if (too_many(call)) return unknown_ = call.name, false;
    uint64_t* to = call.to;
    const int words = words_of(call.result_bits);
    add(Does::dirty, {}, to, words).extra = &block_.calls.emplace_back(std::move(call));
    return true;
  }
  void parts_of_state(const IRDirty& dirty, Call* call) {
    for (int i = 0; i < dirty.nFxState; ++i) {
      const auto& effect = dirty.fxState[i];
      for (int repeat = 0; repeat <= effect.nRepeats; ++repeat) {
        const Call::Part part{effect.offset + repeat * effect.repeatLen, effect.size, effect.fx != Ifx_Write,
                              effect.fx != Ifx_Read};
        if (part.read) mark(block_.reads, part.offset, part.bytes);
        if (part.written) mark(block_.writes, part.offset, part.bytes);
        call->parts.push_back(part);
      }
    }
  }

  bool leave_if(const IRStmt& statement) {
    const auto& exit = statement.Ist.Exit;
    Step& step = add(Does::leave_if, {value(exit.guard)});
    step.extra = &block_.exits.emplace_back(Exit{exit.dst->Ico.U64, exit.jk});
    return true;
  }

  const IRSB& from_;
  const Frame& frame_;
  Block& block_;
  std::vector<uint64_t*> places_;
  size_t used_ = 0;
  bool out_of_room_ = false;
  std::string unknown_;
};

IROp operation_of(const IRStmt& statement) {
  if (statement.tag != Ist_WrTmp) return Iop_INVALID;
  const IRExpr& data = *statement.Ist.WrTmp.data;
  switch (data.tag) {
    case Iex_Unop: return data.Iex.Unop.op;
    case Iex_Binop: return data.Iex.Binop.op;
    case Iex_Triop: return data.Iex.Triop.details->op;
    case Iex_Qop: return data.Iex.Qop.details->op;
    default: return Iop_INVALID;
  }
}

}  // namespace

bool compile_operations(const IRSB& from) {
  static std::vector<bool> compiled(Iop_LAST - Iop_INVALID);
  std::vector<IROp> missing;
  for (int i = 0; i < from.stmts_used; ++i) {
    const IROp op = operation_of(*from.stmts[i]);
    if (op == Iop_INVALID || compiled[static_cast<size_t>(op - Iop_INVALID)] || only_widens(op) ||
        function_of(op) != nullptr)
      continue;
    compiled[static_cast<size_t>(op - Iop_INVALID)] = true;
    missing.push_back(op);
  }
  for (const IROp op : missing) native_operation(op);
  return !missing.empty();
}

bool compile(const IRSB& from, const Frame& frame, Block* block, std::string* unknown) {
  Compiler compiler(from, frame, block);
  if (compiler.compile()) return true;
  *unknown = compiler.unknown().empty() ? "a block that is too long" : compiler.unknown();
  return false;
}

bool only_widens(IROp operation) {
  switch (operation) {
    case Iop_1Uto8:
    case Iop_1Uto32:
    case Iop_1Uto64:
    case Iop_8Uto16:
    case Iop_8Uto32:
    case Iop_8Uto64:
    case Iop_16Uto32:
    case Iop_16Uto64:
    case Iop_32Uto64:
    case Iop_ReinterpV128asI128:
    case Iop_ReinterpI128asV128:
    case Iop_ReinterpF64asI64:
    case Iop_ReinterpI64asF64:
    case Iop_ReinterpF32asI32:
    case Iop_ReinterpI32asF32: return true;
    default: return false;
  }
}

}  // namespace friday::infer
