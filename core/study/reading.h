// Messages of well-known protocols as people read them, so that what is one command has one shape, whatever lengths and
// headers come with it.
#pragma once

#include <string>
#include <string_view>

namespace friday {

// RESP (the protocol of Redis): the words of each command. HTTP/1: the request line or the status, and the body.
// Anything else as it is. `bytes` may end early.
std::string readable(std::string_view bytes);

}  // namespace friday
