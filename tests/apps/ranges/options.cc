#include <cstdlib>
#include <cstring>
#include <sstream>

#include "wire.h"

namespace ranges {

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i];
    if (word == "--careful") {
      options.careful = true;
      continue;
    }
    if (i + 1 == argc) exit(2);
    const char* value = argv[++i];
    if (word == "--master") options.master = port_of(value);
    if (word == "--id") options.id = static_cast<uint32_t>(atoi(value));
    if (word == "--directory") options.directory = value;
    if (word == "--rows" || word == "--count") options.rows = strtoull(value, nullptr, 10);
    if (word == "--count") options.count = true;
    if (word == "--seed") options.seed = strtoull(value, nullptr, 10);
    std::istringstream list(word == "--servers" ? value : "");
    for (std::string port; std::getline(list, port, ',');) options.servers.push_back(port_of(port));
  }
  if (options.master == 0 || options.servers.empty() || options.id >= options.servers.size()) {
    fprintf(stderr,
            "usage: %s --master PORT --servers PORT,PORT,... [--id I] [--directory DIR] [--careful] "
            "[--rows N [--seed S] | --count N]\n",
            argv[0]);
    exit(2);
  }
  return options;
}

}  // namespace ranges
