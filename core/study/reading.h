// Messages of well-known protocols as people read them, so that what is one command has one shape, whatever lengths and
// headers come with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace friday {

// RESP (the protocol of Redis): the words of each command. HTTP/1: the request line or the status, and the body.
// PostgreSQL: the type of each message, with its texts. Anything else as it is. `bytes` may end early.
// `length`: of the whole message.
std::string readable(std::string_view bytes, uint64_t length);

}  // namespace friday
