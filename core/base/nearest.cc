#include "core/base/nearest.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace friday {
namespace {

// The optimal string alignment distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); i++)
    for (size_t j = 0; j <= b.size(); j++) {
      if (!i || !j) {
        edits[i][j] = i + j;
        continue;
      }
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, edits[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
    }
  return edits[a.size()][b.size()];
}

constexpr size_t kLongest = 64;  // longer ones are no word that somebody typed

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > kLongest) return "";
  std::string_view best;
  size_t least = word.size() / 3 + 1;
  for (std::string_view each : known)
    if (const size_t edits = distance(word, each); edits < least) best = each, least = edits;
  return best;
}

std::string nearest_text(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view best = nearest(word, known);
  return best.empty() ? "" : fmt::format("; the nearest is `{}`", best);
}

}  // namespace friday
