// Names for the events of many runs, so that what is the same in two runs has the same name. A name is who, whether
// sent or received, whose, and a class of contents; it has no number of an occurrence or a connection, as those differ
// between runs that are alike. An event has several names at once: its shape; its shape with one field as it is, if
// many runs have that value there; the whole text, if many have it; and its shape with the partner, or both ends, as
// one of several alike: `client-#` for client-1 and client-2. Which of them matters is for the comparison to find out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/study/talk.h"

namespace friday {

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
  // is its shape; all are of its own role. The same for its words (Field::word) in fields that vary, each a hash.
  std::vector<uint32_t> first_name{}, first_word{};
  // The name of its shape with both ends as one of several alike. It is the shape where no other role is alike.
  std::vector<uint32_t> general{};
  std::vector<uint32_t> names{};
  std::vector<uint64_t> words{};
  // Of a message that was sent: the event that received it, the first one if there are several; kNowhere.
  std::vector<uint32_t> received_at{};
  static constexpr uint32_t kNowhere = ~uint32_t{0};
  // Whether an event may be a consequence of the failure (symptoms.h).
  std::vector<bool> tainted{};

  size_t size() const { return talk->events.size(); }
  std::span<const uint32_t> names_of(size_t event) const {
    return std::span(names).subspan(first_name[event], first_name[event + 1] - first_name[event]);
  }
  std::span<const uint64_t> words_of(size_t event) const {
    return std::span(words).subspan(first_word[event], first_word[event + 1] - first_word[event]);
  }
  uint32_t shape_of(size_t event) const { return names[first_name[event]]; }
};

struct Naming {
  std::vector<std::string> roles;  // of all runs, and what is said for several alike
  std::vector<uint32_t> general;   // by role: the one that is said for several alike, or the role itself
  std::vector<Identity> identities;
  std::vector<NamedRun> runs;  // of those that were given, in their order

  bool is_general(uint32_t role) const { return role >= first_general; }
  uint32_t first_general = 0;  // roles from here on are said for several alike

  // `runs` must stay as long as the Naming does.
  static Naming of(std::span<const StudiedRun> runs);
};

}  // namespace friday
