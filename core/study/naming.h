// Names for the events of many runs, so that what is the same in two runs has the same name. A name is who, whether
// sent or received, whose, and a class of contents; it has no number of an occurrence or a connection, as those differ
// between runs that are alike. An event has several names at once: its shape; its shape with one field as it is, if
// many runs have that value there; the whole text, if many have it; and its shape with the partner, or both ends, as
// one of several alike: `client-#` for client-1 and client-2. Which of them matters is for the comparison to find out.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/study/shape.h"
#include "core/study/talk.h"

namespace friday {

// What is said of several roles that are alike: "client-#" for client-1 and client-2.
std::string without_numbers(const std::string& role);

// A run of a study, with what was said in it.
struct StudiedRun {
  unsigned number = 0;
  bool failed = false;
  Talk talk;
};

struct Identity {
  enum class Level : uint8_t {
    shape,
    field,  // the shape with the value of one field
    whole
  };
  uint32_t role = 0, partner = 0;  // indices in Naming::roles; TalkEvent::kOutside as a partner
  bool sent = false;
  Level level = Level::shape;
  std::string text;
};

struct NamedRun {
  unsigned number = 0;
  bool failed = false;
  const Talk* talk = nullptr;
  // By the number of an event in the talk: the first of its names, and one more for the end. The first name of an event
  // is its shape; all are of its own role. A message that nobody received has none. The same for its words
  // (Field::word) in fields that vary, each a hash.
  std::vector<uint32_t> first_name{}, first_word{};
  // The name of its shape with both ends as one of several alike. It is the shape where no other role is alike.
  std::vector<uint32_t> general{};
  std::vector<uint32_t> names{};
  std::vector<uint64_t> words{};
  // The event at the other end of the message: that which received it, the first one if there are several, or that
  // which sent it; kNowhere.
  std::vector<uint32_t> other_end{};
  static constexpr uint32_t kNowhere = ~uint32_t{0}, kNameless = ~uint32_t{0};
  // Whether an event may be a consequence of the failure (symptoms.h).
  std::vector<bool> tainted{};

  // The events that count, which are the first ones of the talk: of a failing run those that happen no later than the
  // last event of any passing run.
  size_t length = 0;
  size_t size() const { return length; }
  std::span<const uint32_t> names_of(size_t event) const {
    return std::span(names).subspan(first_name[event], first_name[event + 1] - first_name[event]);
  }
  std::span<const uint64_t> words_of(size_t event) const {
    return std::span(words).subspan(first_word[event], first_word[event + 1] - first_word[event]);
  }
  // kNameless for the send of a message that was still under way when the run ended, or was lost.
  uint32_t shape_of(size_t event) const {
    return first_name[event] == first_name[event + 1] ? kNameless : names[first_name[event]];
  }
};

struct Naming {
  std::vector<std::string> roles;  // of all runs, and what is said for several alike
  std::vector<uint32_t> general;   // by role: the one that is said for several alike, or the role itself
  std::vector<Identity> identities;
  std::vector<NamedRun> runs;  // of those that were given, in their order

  // By the masked text of a shape and field: of the values that are parts of names (hashes) those that nearly all runs
  // have there, or all that failed, so that another run can be expected to have them too.
  std::map<std::string, std::vector<std::set<uint64_t>>> relied_values;
  bool has_relied_value(const Shape& shape, size_t field) const;

  bool is_general(uint32_t role) const { return role >= first_general; }
  uint32_t first_general = 0;  // roles from here on are said for several alike

  // `runs` must stay as long as the Naming does.
  static Naming of(std::span<const StudiedRun> runs);
};

}  // namespace friday
