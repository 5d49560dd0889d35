// The collector: the process that runs `friday record`. It creates the traces, extends them ahead of the programs that
// write them, copies the files that the programs map, and records how each node ended. The programs themselves store
// into shared pages of the trace files, so killing the collector or a program loses nothing that was stored.
//
// It has one thread with one poll loop, and two threads of low priority: one compresses the parts of traces that the
// programs have left (packer.h); the other looks for unrecorded processes that write to the programs' memory
// (outsiders.h) and for recorded ones that keep others waiting. Recorded system calls never wait for the collector.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/progress.h"
#include "core/record/file_store.h"
#include "core/record/outsiders.h"
#include "core/record/packer.h"
#include "core/record/shaper.h"
#include "core/shim/shim_abi.h"
#include "core/trace/live_order.h"
#include "core/trace/switches.h"

namespace friday {

// The origin of a node, as written to its node.json.
struct NodeOrigin {
  std::string name;
  std::vector<std::string> lineage;  // names of the ancestors, oldest first, ending with the node's own name
  std::vector<std::string> arguments;
  std::string program, cwd;
};

inline constexpr uint64_t kUsualOutput = 16u << 20;
inline constexpr uint16_t kUsualFirstBytes = 500;  // of a schedule, as many as in the published work

struct CollectorOptions {
  std::string recording;  // directory; created if it does not exist
  bool strict = false;    // a system call that is not handled ends the whole group
  bool catch_all_only = false;
  uint32_t state_every = 0;  // record a state hash at every n-th call of each thread; 0: none
  // The text that a program writes to its standard output and error is kept up to so many bytes and half of what its
  // trace has; 0: not at all.
  uint64_t output = kUsualOutput;
  std::optional<uint64_t> chaos;  // the seed with which the programs are disturbed at random; without it they are not
  bool compress = true;
  // Leave out what recorded processes have received from each other; needs `compress`.
  std::optional<LeanOptions> lean;
  // How far back the recording reaches: the traces of all processes are cut into parts, and those are removed that
  // ended more nanoseconds ago, or that the newer ones leave no room for in so many bytes on disk. Both 0: to the start
  // of the programs.
  int64_t keep_ns = 0;
  uint64_t keep_bytes = 0;
  bool standby = false;                 // programs run unrecorded until that is switched on (core/trace/switches.h)
  std::optional<ShaperOptions> shaper;  // messages are held back so that an order comes true
  std::vector<SocketSpace> spaces;      // of the group's network, if it has one
  // On standby: what holds messages back so that an order comes true that somebody asks for (core/trace/live_order.h).
  // Fails if the text is no order.
  std::function<Result<ShaperOptions>(const std::string& order)> live_order;
  bool schedule = false;                    // only schedules are kept (core/shim/schedule.h)
  uint16_t first_bytes = kUsualFirstBytes;  // of each message, in a schedule
  uint64_t max_size = 0;                    // size on disk in bytes at which the recording ends; 0: no limit
  Progress::Tell tell;                      // called during long file copies, for which programs wait; may be empty
};

struct NodeSummary {
  uint32_t id = 0;
  std::string name;
  uint64_t events = 0, bytes = 0;
  uint64_t stored = 0;    // size on disk in bytes, if compressed
  uint64_t left_out = 0;  // bytes of payload that its trace lacks
  uint64_t foreign = 0;   // of a lean recording: bytes of payload that no replay of another node makes again
  double seconds = 0;     // for which it was recorded
  std::string ended;      // for example "exit 0", "signal 9", "replaced by exec", "recording ended at call futex"
  bool complete = true;
  int wait_status = -1;  // of its process; -1: unknown
  bool disk_full = false;
};

// Room for an image at the beginning of a trace.
struct ImageRoom {
  uint64_t bytes = 0;
  UniqueFd file;       // a file without a name, which becomes the trace; it may be missing
  uint64_t ready = 0;  // bytes that it has
};

class Collector {
 public:
  static Result<std::unique_ptr<Collector>> create(CollectorOptions options);
  ~Collector();

  // Creates a node's directory and trace. Returns the socket that the program inherits.
  Result<UniqueFd> add_node(const NodeOrigin& origin, uint32_t* id);

  // Call when the program of node `id` runs as process `pid`, and ended() with its wait status when it has ended.
  void started(uint32_t id, pid_t pid);
  void ended(pid_t pid, int wait_status);

  // Notes in the recording that `friday record` now does this to the node's process: "kill", "stop", ...
  void note_step(uint32_t id, const std::string& what, const std::string& detail);

  // Serves requests until one was served or `timeout_ms` has passed (-1: no limit). `extra_fd` (-1: none) also wakes
  // it.
  Result<void> serve(int timeout_ms, int extra_fd);

  // Sends all messages that are held back (ShaperOptions). `what` has happened, for the reason why the order did not
  // come true.
  void let_messages_go(const std::string& what);

  // The number of nodes whose process runs or may still run.
  size_t alive() const { return open_.size(); }
  // True if the options are strict and a node has made a system call that is not handled.
  bool must_stop() const { return must_stop_; }
  // The order of messages that was to be forced could not come true, and the run shall end then.
  bool order_failed() const { return shaper_ && shaper_->has_failed(); }
  // Truncates and compresses the traces and writes the last node.json files; with `hurry`, starts no more compression.
  // The destructor calls it too.
  void finish(bool hurry = false);
  // How many processes got no trace, and why the first of them did not.
  size_t left_out() const { return left_out_; }
  const std::string& left_out_because() const { return left_out_because_; }
  // Messages for the user that have arisen since the last call, while the programs run.
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }
  // What this machine prevents or slows down; complete after finish().
  std::vector<std::string> notices() const;
  std::vector<NodeSummary> summaries() const;
  std::vector<pid_t> live_pids() const;

 private:
  struct Node;
  explicit Collector(CollectorOptions options);
  Result<void> begin_shaping();
  std::string name_of_process(pid_t pid) const;
  Result<void> open_tokens();
  // as_part, late: with an image of a running process, whose trace before it continues, or of which nothing is
  // recorded.
  enum class Begins { by_itself, forked, as_part, late, on_standby };
  Result<Node*> create_node(const NodeOrigin& origin, const Node* parent, Begins begins, bool schedule,
                            ImageRoom image = {});
  Result<Node*> create_program(const NodeOrigin& origin, const Node* parent);
  Result<void> create_trace(Node& node, ImageRoom image);
  Result<UniqueFd> connect(Node& node);
  void handle(Node& node);
  void answer_hello(Node& node, const shim::Request& request);
  void answer_module(Node& node, const shim::Request& request, int fd);
  void answer_fork(Node& node);
  uint64_t chaos_key_of(const Node& node) const;
  void answer_spawn(Node& node, const shim::Request& request);
  void note_execution(Node& node, const shim::Request& request);
  void end_by_execution(Node& node, const std::string& text);
  void answer_part(Node& node, const shim::Request& request);
  void make_room_ahead(Node& node, uint64_t bytes);
  static void drop_room_ahead(Node& node);
  Result<Node*> next_part(Node& node, const shim::Request& request);
  void go_on_in_part(Node& node, UniqueFd image);
  void image_is_written(Node& node);
  static void await_image(Node& node);
  bool keeps_last() const { return options_.keep_ns || options_.keep_bytes; }
  Keeps keeps_of(const NodeOrigin& origin) const;
  bool is_wanted(const NodeOrigin& origin) const;
  void look_at_switches();
  void look_at_order();
  void begin_live_order(const std::string& text);
  bool all_take_part() const;
  void tell_end_of_order();
  void tell_order(LiveOrderState::Stage stage, bool came_true = false, const std::string& why = "");
  void tell_wanted(Node& node);
  void remove_from_standby(Node& node);
  // Of processes that share memory (collector_cuts.cc).
  struct Sharers;
  std::vector<Sharers> find_sharers(const std::vector<Node*>& among) const;
  void look_at_sharers(Sharers& sharers, int64_t now);
  void note_shares(Node& node);
  void look_at_cuts_soon(int64_t in_ns);
  void look_at_cuts();
  bool asks_for_cut(const Node& node) const;
  format::Wanted wanted_of(const Node& node) const;
  void tell_obstacle(Node& node, const std::string& obstacle);
  void call_together(const Sharers& sharers);
  void note_halted(Node& node);
  void end_cut(uint32_t number, const Sharers* what);
  static void answer_halted(const Node& node, uint32_t number, const Sharers* what);
  void leave_cut(Node& node);
  void note_left_behind(const Node& node);
  void cut_if_due();
  void cut();
  Result<void> begin_generation();
  int64_t recorded_until() const;
  std::set<Node*> needed_nodes(int64_t kept) const;
  void remove_old(int64_t now);
  void remove_node(Node& node);
  void remove_repeated(uint64_t generation);
  Node* restart_after_exec(Node& node, const shim::Request& hello);
  void give_room(Node& node);
  uint64_t room_left() const;
  std::map<uint64_t, uint64_t> bytes_by_generation() const;
  int64_t kept_since(int64_t now) const;
  void leave_out(Node& parent, const Error& error);
  void close_node(Node& node);
  void describe_soon(Node& node);
  void do_due();
  void tell_outsiders();
  void add_notice(Node& node, const std::string& text);
  void note_reached(const Node& by, pid_t pid);
  void write_description(Node& node);

  CollectorOptions options_;
  FileStore files_;
  Packer packer_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Node*> open_;  // the nodes that are not closed
  uint32_t next_id_ = 0;
  // The nodes that have begun from one cut() to the next.
  struct Generation {
    Uuid uuid;      // of its file of repeated payload
    int64_t began;  // CLOCK_MONOTONIC
  };
  std::vector<Generation> generations_;
  int64_t cut_at_ = 0;       // CLOCK_MONOTONIC when cut_if_due() looks again; 0: never
  Switches switches_;        // as they were at the last look
  int64_t switches_at_ = 0;  // CLOCK_MONOTONIC of the next look; 0: never
  std::string switches_problem_;
  // An attempt to let processes that share memory begin together.
  struct Cut {
    std::vector<Node*> members, halted;
    int forks = 0;      // how many children the members had forked when they were called
    int64_t until = 0;  // CLOCK_MONOTONIC when all must stand still
  };
  std::map<uint32_t, Cut> cuts_;  // by their numbers
  uint32_t last_cut_ = 0;
  int64_t cuts_at_ = 0, cuts_looked_ = 0;  // CLOCK_MONOTONIC of the next look (0: none) and of the last one
  uint32_t clock_kind_;
  uint64_t ticks_per_second_;
  std::string boot_id_;
  shim::HelloReply machine_;  // what each process is told about this machine
  UniqueFd still_;            // core/trace/standing_still.h
  UniqueFd tokens_;           // the TokenArea (shim_abi.h); locked shared while this collector lives
  uint64_t sharing_ = 0;      // key of its TokenArea (format::FileHeader::sharing)
  Outsiders outsiders_;
  std::unique_ptr<Shaper> shaper_;     // null: no message is held back
  LiveOrderState live_order_;          // the last one that was asked for; `id` empty: none was
  std::vector<std::byte> held_bytes_;  // room for those that come with a request
  bool must_stop_ = false;
  std::vector<std::string> notices_, news_;
  size_t left_out_ = 0;
  std::string left_out_because_;
};

}  // namespace friday
