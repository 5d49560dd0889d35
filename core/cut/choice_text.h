// A chosen cut for people and for programs: as text, as JSON, and as a picture in Graphviz's language DOT.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/cut/choose.h"

namespace friday::cut {

struct ChoiceView {
  const Facts& facts;
  const PointsTo& points_to;
  const DataFlow& graph;
  const Choice& choice;
};

// At most `most` functions and `most` edges are listed.
std::string choice_text(const ChoiceView& view, size_t most = 20);

// All of them, with bytes, weights and places. docs/cut.md has the fields.
nlohmann::json choice_json(const ChoiceView& view);

// The functions inside, in a box; the functions outside that they take most from; what is handed over, with bytes. At
// most `most` edges, the heaviest ones.
std::string choice_dot(const ChoiceView& view, size_t most = 60);

// Sizes of a program's graph, and what the analysis does not see.
std::string graph_text(const Facts& facts, const PointsTo& points_to, const DataFlow& graph, size_t most = 20);
nlohmann::json graph_json(const Facts& facts, const PointsTo& points_to, const DataFlow& graph);

}  // namespace friday::cut
