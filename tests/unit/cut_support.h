// Programs for the tests of cuts: made by hand, and random ones.
#pragma once

#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "core/cut/counts.h"
#include "core/cut/facts.h"

namespace friday::cut::testing {

// Makes facts of one module, piece by piece. Each function has one block. Pointers are made as they are asked for.
class ProgramMaker {
 public:
  ProgramMaker() { facts.module = "program.c", facts.fingerprint = std::string(32, 'a'); }

  Id pointer() { return facts.pointers++; }
  // With so many parameters and a result, all of which may carry pointers.
  Id function(const std::string& name, uint32_t parameters = 0, Linkage linkage = Linkage::strong);
  Id declared(const std::string& name) { return function(name, 0, Linkage::declared); }
  Id variable(const std::string& name, Linkage linkage = Linkage::strong);
  Id local(Id function, const std::string& name);
  // Pointers to these.
  Id address(Id function, Id object);
  Id address_of_function(Id function, Id of);
  // The result's pointer. `arguments` are pointers.
  Id call(Id function, Id callee, std::initializer_list<Id> arguments = {});
  Id call_by(Id function, Id target, std::initializer_list<Id> arguments = {});
  Id load(Id function, Id from);
  void store(Id function, Id to, Id from);
  void copy(Id function, Id from, Id to);
  void move(Id function, Id to, Id from, int64_t bytes = kAnyOffset);
  void returns(Id function, Id pointer) { copy(function, pointer, facts.functions[function].result.pointer); }
  Id parameter(Id function, uint32_t index) const { return facts.functions[function].parameters[index].pointer; }
  Call& last_call() { return facts.calls.back(); }
  Facts linked() const;

  Facts facts;

 private:
  Id add_call(Id function, Id callee, Id target, std::initializer_list<Id> arguments);
};

// A module that check_facts() takes: functions, pointers and calls at random, some of malloc, read and others.
Facts random_module(std::mt19937& random, uint32_t functions);
// A linked program of one such module.
Facts random_program(std::mt19937& random, uint32_t functions);
ProgramCounts random_counts(std::mt19937& random, const Facts& program);

}  // namespace friday::cut::testing
