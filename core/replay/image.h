// Rebuilds a node's process from the start image of its trace: with the same addresses, contents and registers,
// independent of this machine's loader, libraries, file system and address-space randomisation.
#pragma once

#include <string>

#include "core/replay/descriptor_channel.h"
#include "core/replay/process.h"
#include "core/trace/reader.h"
#include "core/trace/recording.h"

namespace friday {

struct ImageOptions {
  std::string friday_stub;  // its path
  int schedule_fd = -1;     // the memory of shim::SharedSchedule, to be mapped at kScheduleAddress
  uint64_t schedule_size = 0;
  pid_t group = 0;  // process group to join; 0: create one
  const DescriptorChannel* channel = nullptr;
  bool confined = true;  // install the filter of core/replay/confinement.h
};

// The result is stopped, and its next instruction is the shim's resume point. `reader` must have a start image.
Result<TracedProcess> build_from_image(const Recording& recording, const TraceReader& reader,
                                       const ImageOptions& options);

// Maps `reader`'s trace at the trace window of a forked child, by calls injected into its stopped thread.
Result<void> map_trace(TracedProcess& process, pid_t tid, DescriptorChannel::Receiver receiver,
                       const DescriptorChannel& channel, const TraceReader& reader);

// Fails if this machine lacks processor features that the recording needs, and names them.
Result<void> check_processor(const format::ImageRecord& image);

}  // namespace friday
