// Rebuilds a node's process from the start image of its trace: same addresses, same contents, same registers, whatever
// this machine's loader, libraries, file system or address-space randomisation would have made of the program.
#pragma once

#include <string>

#include "core/replay/descriptor_channel.h"
#include "core/replay/process.h"
#include "core/trace/reader.h"
#include "core/trace/recording.h"

namespace friday {

struct ImageOptions {
  std::string stub;      // path of friday-stub
  int schedule_fd = -1;  // memory of shim::SharedSchedule, mapped at kScheduleAddress
  uint64_t schedule_size = 0;
  pid_t group = 0;  // process group to join, 0: a new one
  const DescriptorChannel* channel = nullptr;
  bool confined = true;  // by the filter of core/replay/confinement.h
};

// The process is stopped; its next instruction is the shim's resume point. `reader` must hold an image.
Result<TracedProcess> build_from_image(const Recording& recording, const TraceReader& reader,
                                       const ImageOptions& options);

// Maps `reader`'s trace into the trace window of a stopped thread's process, by injected calls (a forked child).
Result<void> map_trace(TracedProcess& process, pid_t tid, DescriptorChannel::Receiver receiver,
                       const DescriptorChannel& channel, const TraceReader& reader);

// Fails with the names of the processor features that the recording needs and this machine lacks.
Result<void> check_processor(const format::ImageRecord& image);

}  // namespace friday
