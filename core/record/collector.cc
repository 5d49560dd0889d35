// The collector's loop: it creates the directory of the recording and of each node, and waits for messages from the
// nodes' sockets, from the packer, and from the thread that looks for unrecorded processes. Requests are answered in
// collector_requests.cc, traces are kept in collector_traces.cc, and nodes are described in collector_report.cc.
#include "core/record/collector.h"

#include <cpuid.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/poll_set.h"
#include "core/record/collector_node.h"
#include "core/record/ticks.h"
#include "core/trace/roll.h"
#include "core/trace/standing_still.h"

namespace friday {

namespace {

// The node.json of a forked child is written when the child has lived this long, or has ended. Many children end at
// once, and writing a file takes longer than a fork.
constexpr int64_t kDescribeAfterNs = 50'000'000;
// How long a node whose process has ended is kept open for a vfork child that still holds its socket.
constexpr int64_t kLongestVforkNs = 1'000'000'000;

}  // namespace

Collector::Collector(CollectorOptions options)
    : options_(std::move(options)),
      files_(Beneath(options_.recording, "files"), options_.tell, AnalysisCache::of_user(), !options_.schedule),
      packer_(options_.recording, options_.lean) {
  clock_kind_ = tsc_is_the_clock() ? format::kClockTsc : format::kClockMonotonic;
  ticks_per_second_ = clock_kind_ == format::kClockTsc ? measure_tsc_rate() : 1000000000;
  boot_id_ = read_file("/proc/sys/kernel/random/boot_id").value_or("");
  machine_ = describe_vdso();
  if (clock_kind_ != format::kClockTsc && !vdso_reads_the_clock()) {
    machine_.flags &= ~uint32_t{shim::kVdsoCallable};
    notices_.push_back(describe_refusal(Refusal::clock, "the kernel uses another one"));
  }
  if (keeps_last()) cut_at_ = now_ns(CLOCK_MONOTONIC) + 1;
  for (unsigned i = 0; i < std::size(format::kCpuidLeaves); i++) {
    auto& [a, b, c, d] = machine_.cpuid[i];
    __cpuid_count(format::kCpuidLeaves[i][0], format::kCpuidLeaves[i][1], a, b, c, d);
  }
}

Collector::~Collector() { finish(); }

Result<std::unique_ptr<Collector>> Collector::create(CollectorOptions options) {
  if (mkdir(options.recording.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, fmt::format("cannot create the recording {}", options.recording));
  char resolved[PATH_MAX];
  if (!realpath(options.recording.c_str(), resolved))
    return fail_errno(errno, fmt::format("cannot resolve {}", options.recording));
  options.recording = resolved;
  // A stranger may have put files into an existing directory, so links in it are not followed.
  const auto inside = [&](const char* name) { return Beneath(options.recording, name); };
  const Beneath marker = inside("recording.json");
  const auto there = open_beneath(marker);
  if (!there && there.error().code != ErrorCode::not_found) return std::unexpected(there.error());
  if (!there) {
    if (DIR* d = opendir(options.recording.c_str())) {
      // Another collector may be creating the same recording at this moment.
      bool foreign = false;
      while (dirent* entry = readdir(d)) {
        const std::string_view name = entry->d_name;
        foreign |= name != "." && name != ".." && name != "nodes" && name != "files" && name != "cache" &&
                   name != "tokens" && name != "roll" && name != "switches.json" && !name.starts_with("order") &&
                   !name.starts_with("recording.json");
      }
      closedir(d);
      if (foreign)
        return fail(ErrorCode::bad_input, "{} exists and is not a recording; name a new or empty directory",
                    options.recording);
    }
    nlohmann::json description = {{"format", 1}, {"created", now_ns(CLOCK_REALTIME)}};
    FRIDAY_TRY_VOID(write_beneath(marker, description.dump() + "\n"));
  }
  for (const char* part : {"nodes", "files"})
    if (auto made = make_directory_beneath(inside(part)); !made) return std::unexpected(made.error());
  std::unique_ptr<Collector> collector(new Collector(std::move(options)));
  if (auto opened = open_standing_still(collector->options_.recording)) collector->still_ = std::move(*opened);
  FRIDAY_TRY_VOID(collector->open_tokens());
  FRIDAY_TRY_VOID(collector->begin_generation());
  if (collector->options_.standby) {
    if (!Switches::read(collector->options_.recording))
      FRIDAY_TRY_VOID(Switches().write(collector->options_.recording));
    collector->look_at_switches();
  }
  FRIDAY_TRY_VOID(collector->begin_shaping());
  if (!collector->outsiders_.start(collector->tokens_.get()))
    collector->notices_.push_back(
        "processes that write to shared memory and are not recorded go unnoticed: the system gives no thread to look "
        "for them "
        "(limits of processes or of address space)");
  return collector;
}

void Collector::let_messages_go(const std::string& what) {
  if (shaper_) shaper_->let_all_go(what);
}

std::string Collector::name_of_process(pid_t pid) const {
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
    if ((*node)->pid == pid) return (*node)->origin.name;
  return "";
}

Result<void> Collector::begin_shaping() {
  if (!options_.shaper) return {};
  options_.shaper->spaces = options_.spaces;
  FRIDAY_TRY(shaper, Shaper::create(
                         *options_.shaper, tokens_.get(), [this](pid_t pid) { return name_of_process(pid); },
                         [this] { return live_pids(); }));
  shaper_ = std::move(shaper);
  return {};
}

// Opens the file `tokens`, which all collectors that record into this directory at the same time share and keep locked.
// If no collector has it locked, it is left over. Programs of a collector that was killed may still have it mapped, so
// it is then replaced by a new file.
Result<void> Collector::open_tokens() {
  const Beneath file(options_.recording, "tokens");
  FRIDAY_TRY(directory, open_file(options_.recording, O_RDONLY | O_DIRECTORY));
  if (flock(directory.get(), LOCK_EX) != 0) return fail_errno(errno, fmt::format("cannot lock {}", options_.recording));
  auto opened = open_beneath(file, O_RDWR);
  if (!opened && opened.error().code == ErrorCode::bad_input) return std::unexpected(opened.error());
  if (opened) tokens_ = std::move(*opened);
  const bool in_use = tokens_ && flock(tokens_.get(), LOCK_EX | LOCK_NB) != 0;
  if (in_use) {
    FRIDAY_TRY_VOID(read_exactly(tokens_.get(), std::as_writable_bytes(std::span(&sharing_, 1)),
                                 offsetof(shim::TokenArea, session)));
    uint32_t shaped = 0;
    FRIDAY_TRY_VOID(read_exactly(tokens_.get(), std::as_writable_bytes(std::span(&shaped, 1)),
                                 offsetof(shim::TokenArea, shapes) + offsetof(shim::ShapeArea, handled_when)));
    if (shaped || options_.shaper)
      return fail(ErrorCode::bad_input,
                  "another recorder records into {}, and messages can be held back by one recorder alone: name another "
                  "directory",
                  options_.recording);
  } else {
    remove_beneath(file);
    FRIDAY_TRY(made, create_beneath(file));
    tokens_ = std::move(made);
    while (sharing_ == 0)
      if (getrandom(&sharing_, sizeof sharing_, 0) != sizeof sharing_) return fail(ErrorCode::io, "getrandom failed");
    if (ftruncate(tokens_.get(), sizeof(shim::TokenArea)) != 0 ||
        pwrite(tokens_.get(), &sharing_, sizeof sharing_, offsetof(shim::TokenArea, session)) != sizeof sharing_)
      return cannot_write(errno, file.path());
    // On a full disk, a store to a page without a disk block would kill a program. So blocks for the first thousands of
    // entries are allocated in advance.
    constexpr off_t kAhead = 128 << 10;
    for (off_t array : {off_t{0}, off_t{offsetof(shim::TokenArea, group)}, off_t{offsetof(shim::TokenArea, object)},
                        off_t{offsetof(shim::TokenArea, member)}})
      if (int error = posix_fallocate(tokens_.get(), array, kAhead)) return cannot_write(error, file.path());
  }
  if (flock(tokens_.get(), LOCK_SH) != 0) return fail_errno(errno, fmt::format("cannot lock {}", file.path()));
  return {};
}

Result<Collector::Node*> Collector::create_node(const NodeOrigin& origin, const Node* parent, Begins begins,
                                                bool schedule, ImageRoom image) {
  auto node = std::make_unique<Node>();
  node->origin = origin;
  node->forked = begins == Begins::forked;
  node->late = begins == Begins::late;
  node->on_standby = begins == Begins::on_standby;
  node->schedule = schedule;
  if (begins == Begins::as_part) node->part = parent->part + 1;
  node->generation = generations_.size() - 1;
  node->image_bytes = image.bytes;
  // Several collectors may add to one recording: an id belongs to the collector whose mkdir succeeds. Ids are not
  // reused, even if a node is removed because its fork failed (close_node).
  for (bool made = false; !made; next_id_++) {
    node->id = next_id_;
    node->directory = Beneath(options_.recording, fmt::format("nodes/{}", node->id));
    FRIDAY_TRY(mine, make_new_directory_beneath(node->directory));
    made = mine;
  }
  node->launched_as = node->id;
  if (getrandom(node->uuid, sizeof node->uuid, 0) != sizeof node->uuid) return fail(ErrorCode::io, "getrandom failed");
  if (parent) memcpy(node->parent_uuid, parent->uuid, sizeof node->parent_uuid);
  if (parent) node->began_in_cut = parent->began_in_cut;
  node->started_ns = now_ns(CLOCK_REALTIME);
  if (auto created = create_trace(*node, std::move(image)); !created) {
    remove_beneath(node->directory.below("trace"));
    remove_beneath(node->directory);
    return std::unexpected(created.error());
  }
  if (parent) {
    node->header->parent_pid = static_cast<uint32_t>(parent->pid);
    node->header->fork_event =
        parent->header->events - (node->forked ? 0 : 1);  // the trace already has the entry of execve
  }
  if (node->forked || node->on_standby) describe_soon(*node);
  else write_description(*node);
  open_.push_back(node.get());
  nodes_.push_back(std::move(node));
  return open_.back();
}

Result<UniqueFd> Collector::add_node(const NodeOrigin& origin, uint32_t* id) {
  FRIDAY_TRY(node, create_program(origin, nullptr));
  *id = node->id;
  return connect(*node);
}

// Creates the node's socket and returns the end that its program gets.
Result<UniqueFd> Collector::connect(Node& node) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return fail_errno(errno, "socketpair failed");
  node.socket.reset(pair[0]);
  return UniqueFd(pair[1]);
}

void Collector::started(uint32_t id, pid_t pid) {
  for (Node* node : open_)
    if (node->id == id) {
      node->pid = pid;
      node->direct_child = true;
      write_description(*node);
    }
}

void Collector::ended(pid_t pid, int wait_status) {
  // The node's last messages may announce an exec, which makes another node with this pid: hence the loop.
  for (;;) {
    const auto found =
        std::ranges::find_if(open_, [pid](const Node* node) { return node->pid == pid && node->wait_status < 0; });
    if (found == open_.end()) return;
    Node& node = **found;
    node.wait_status = wait_status;
    if (!node.ended_ns) node.ended_ns = now_ns(CLOCK_MONOTONIC);
    const auto waiting = [&] { return recv(node.socket.get(), nullptr, 0, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC); };
    while (!node.hung_up && waiting() > 0) handle(node);
    node.hung_up |= !node.closed && waiting() == 0;
    // A vfork child records into this node's trace and may outlive the process; it will soon end or execute a program.
    node.direct_child = false;
    node.close_at = now_ns(CLOCK_MONOTONIC) + kLongestVforkNs;
    if (node.hung_up) close_node(node);
  }
}

std::vector<pid_t> Collector::live_pids() const {
  std::vector<pid_t> pids;
  for (const Node* node : open_)
    if (node->pid > 0 && node->wait_status < 0) pids.push_back(node->pid);
  return pids;
}

Result<void> Collector::serve(int timeout_ms, int extra_fd) {
  PollSet set;
  std::vector<Node*> waiting;
  int64_t due = INT64_MAX;
  for (const int64_t at : {cut_at_, switches_at_, cuts_at_})
    if (at) due = std::min(due, at);
  for (Node* node : open_) {
    if (!node->hung_up && node->socket) set.add(node->socket.get(), [this, node] { handle(*node); });
    if (node->image) set.add(node->image.get(), [this, node] { image_is_written(*node); });
    if (node->waits_for_room) waiting.push_back(node);
    for (const int64_t at : {node->describe_at, node->close_at})
      if (at) due = std::min(due, at);
  }
  if (extra_fd >= 0) set.add(extra_fd);
  if (!waiting.empty()) set.add(packer_.wake_fd());
  const size_t outsiders = set.add(outsiders_.wake_fd());
  if (shaper_) {
    shaper_->add_to(set);
    if (const int soon = shaper_->due_ms(); soon >= 0) timeout_ms = timeout_ms < 0 ? soon : std::min(timeout_ms, soon);
  }
  if (due != INT64_MAX) {
    const int until = static_cast<int>(std::max<int64_t>(0, due - now_ns(CLOCK_MONOTONIC)) / 1000000) + 1;
    timeout_ms = timeout_ms < 0 ? until : std::min(timeout_ms, until);
  }
  FRIDAY_TRY_VOID(set.wait(timeout_ms));
  set.act();
  if (!waiting.empty()) packer_.settled();
  for (Node* node : waiting)
    if (!node->closed) give_room(*node);
  if (due != INT64_MAX) do_due();
  if (shaper_) shaper_->look();
  if (set.is_ready(outsiders)) tell_outsiders();
  return {};
}

void Collector::tell_outsiders() {
  const Outsiders::Found found = outsiders_.take();
  for (const auto& node : nodes_) {
    for (const Outsider& outsider : found.outsiders)
      if (outsider.sharers.contains(node->pid)) add_notice(*node, outsider.text);
    for (const KeptToken& kept : found.kept)
      if (kept.holder == node->pid && !node->closed && !(kept.runs && !node->shim_notice.empty())) {
        add_notice(*node, kept.text);
        news_.push_back(kept.text);
      }
  }
}

void Collector::add_notice(Node& node, const std::string& text) {
  node.outsiders_notice += (node.outsiders_notice.empty() ? "" : "; ") + text;
  if (!node.closed) describe_soon(node);
}

void Collector::finish(bool hurry) {
  const int64_t until = recorded_until();
  if (shaper_) shaper_->leave("the run has ended");
  tell_end_of_order();
  tell_outsiders();
  for (size_t i = 0; i < nodes_.size(); i++) {
    await_image(*nodes_[i]);
    close_node(*nodes_[i]);
  }
  UniqueFd directory(open(options_.recording.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory && tokens_ && flock(directory.get(), LOCK_EX) == 0 && flock(tokens_.get(), LOCK_EX | LOCK_NB) == 0)
    remove_beneath({options_.recording, "tokens"}), Switches::remove(options_.recording),
        remove_live_order(options_.recording);
  tokens_.reset();
  packer_.finish(hurry);
  for (const auto& node : nodes_) remove_from_standby(*node);
  if (keeps_last()) remove_old(until);
  if (nodes_.empty()) return;
  std::vector<RolledNode> left;
  for (const auto& node : nodes_) left.push_back({NodeId{node->id}, node->origin.name});
  if (auto noted = write_roll(options_.recording, hex_of(nodes_.front()->uuid, 16), left); !noted)
    FRIDAY_LOG(record, info, "no roll of the nodes: {}", describe(noted.error()));
}

void Collector::describe_soon(Node& node) {
  if (!node.describe_at) node.describe_at = now_ns(CLOCK_MONOTONIC) + kDescribeAfterNs;
}

void Collector::do_due() {
  const int64_t now = now_ns(CLOCK_MONOTONIC);
  const std::vector<Node*> open = open_;
  if (cut_at_ && cut_at_ <= now) cut_if_due();
  if (switches_at_ && switches_at_ <= now) look_at_switches();
  if (cuts_at_ && cuts_at_ <= now) look_at_cuts();
  for (Node* node : open) {
    if (node->close_at && node->close_at <= now) close_node(*node);
    else if (node->describe_at && node->describe_at <= now) write_description(*node);
  }
}

}  // namespace friday
