// Asks Python files about the messages that nodes receive while they are recorded: `friday live REC save --when
// FILE.py`. The file's part is pyext/friday/live.py.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "console/followed_node.h"
#include "core/base/error.h"
#include "core/trace/channels.h"

namespace friday {

// Whether a trigger is one of these, by its text.
bool is_python_file(const std::string& text);

// From now on this process ends if a file does not return for two seconds after the far end of the standard input was
// closed.
void end_when_python_outlives_the_input();

class MessageTriggers {
 public:
  // Starts Python and runs the files. Fails with usage if one cannot be read, fails, or has no function `save_when`.
  static Result<std::unique_ptr<MessageTriggers>> load(const std::vector<std::string>& files);
  ~MessageTriggers();

  // What has been received by one node.
  class Node {
   public:
    Node(NodeId id, std::string name) : id_(id), name_(std::move(name)) {}

   private:
    friend class MessageTriggers;
    NodeId id_;
    std::string name_;
    ChannelTable channels_;
  };
  // Notes a record of the node, which is being visited, and asks the files if it is the receipt of a message. Returns
  // why one of them wants the recording to be saved; none does: nothing.
  std::optional<std::string> visit(Node& node, const RecordView& record, const FollowedNode& followed, bool ask);
  // Files that have failed, with the reason. They are not asked any more.
  std::vector<std::string> take_failures();
  bool any_left() const;

 private:
  struct Python;
  explicit MessageTriggers(std::unique_ptr<Python> python);
  std::unique_ptr<Python> python_;
  std::vector<std::string> failures_;
};

}  // namespace friday
