// Suggests the word that somebody may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace friday {

// The end of an error message: "; the nearest is `replay`" for the known word that differs least from `word`, by
// letters that are missing, added, wrong or exchanged with their neighbours. Empty if none differs by at most a third
// of its letters.
std::string nearest_text(std::string_view word, std::span<const std::string_view> known);

}  // namespace friday
