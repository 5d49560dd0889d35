// Suggests the word that somebody may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace friday {

// The known word that differs least from `word`, by letters that are missing, added, wrong or exchanged with their
// neighbours. Empty if none differs by at most a third of its letters.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

// The end of an error message: "; the nearest is `replay`" for such a word; empty if there is none.
std::string nearest_text(std::string_view word, std::span<const std::string_view> known);

}  // namespace friday
